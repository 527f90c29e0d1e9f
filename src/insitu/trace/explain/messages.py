"""The words of torch and Python by which a kind of failure is known, where more than one step asks for them."""

from __future__ import annotations

import re

# Autograd.
CHANGED_IN_PLACE = "modified by an inplace operation"
SECOND_BACKWARD = "backward through the graph a second time"
NO_GRAPH = "does not have a grad_fn"
INVALID_GRADIENT = re.compile(
    r"Function (?P<function>\w+) returned an invalid gradient at index (?P<index>\d+)"
    r"( - got (?P<shape>\[.*?\]) but expected .* with (?P<expected>\[.*?\]))?"
)
# A value of the program is None.
NONE = "NoneType"
# The elements are at fault, not the shapes: it matters where the elements were computed.
WRONG_ELEMENTS = re.compile("out of range|out of bounds|between 0 and 1|Class values")
# A number that the program passed is at fault: it matters where the number was computed.
WRONG_NUMBERS = re.compile(
    "invalid for input of size|negative dimension|out of bounds|out of range|exceeds dimension|divisible|expand"
    "|split_with_sizes|split_size|must be positive|greater than 0|non-negative|[Kk]ernel size|[Pp]adding size"
    "|[Dd]imension size|unflatten|num_classes|not a multiple|must be (less|greater|larger|smaller)"
)
# The values are NaN or Inf.
NOT_FINITE = re.compile(r"\b(nan|NaN|inf)\b|invalid values|non-finite")
# The lengths of rows are at fault: the words of the error, the least and the largest length that fits.
LENGTHS = re.compile(
    r"Length of all samples has to be (?P<positive>greater than 0)|repeats can not be negative"
    r"|(?P<name>(input|target)_lengths) to have value at most (?P<most>\d+)"
)
# A state_dict has other keys than the model.
STATE_KEYS = r"(Missing|Unexpected) key\(s\) in state_dict"
# The order of the elements is at fault.
WRONG_ORDER = re.compile("sorted in|must be sorted|in (de|in)creasing order|monotonic|strictly increasing")
# Python refuses arguments that a function does not take: nothing was computed, and no shape is at fault.
WRONG_ARGUMENTS = re.compile(
    r"positional arguments? but|missing \d+ required|unexpected keyword argument|multiple values for"
)
