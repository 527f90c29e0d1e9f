"""Why calls differ, in words: the sentences of a cause, of a row, and of what only one run has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from insitu.trace.compare.change import DEFAULT, Aspect, Change, EmptyRun, LonePart, Manner, MovedLayers, Remark
from insitu.trace.diff import Cause, CauseKind, Difference, Outcome
from insitu.trace.event import Call

MOST_LAYERS = 3  # of those that only one run has
MOST_NUMBERS = 8  # of steps or ranks
MOST_VALUE = 40  # characters of an argument
MOST_MESSAGE = 80  # characters of an exception's message

_OUTCOMES: dict[Outcome, str] = {
    "": "",
    "agrees": "the result agrees",
    "undone": "it differs, and other calls make up for it",
    "internal": "it differs, and only library code reads it",
    "replaced": "the same result by other calls",
    "unseen": "no effect seen",
}
_GRADIENTS = {
    "agrees": "its output's gradient agrees, that of its input differs",
    "unknown": "the gradient of its input differs, that of its output is not known",
    "unused": "the gradient of its output differs, and no call in both runs uses that",
}
_RANDOM = (
    ": it draws random numbers, and the generators were in different states: "
    "no seed, another seed, or an earlier draw that was not recorded"
)
_UNKNOWN_EFFECT = "; its effect is not known"


def why(cause: Cause) -> str:
    """Why a call is a cause, in a sentence."""
    text = _reason(cause)
    if cause.unknown:
        text += f"; nothing is known of {', '.join(cause.unknown)}"
    for name, manner in cause.reason.around:
        text += f"; {name}: {_listed(manner.changes + manner.layout)}"
    return text


def what(row: Difference) -> str:
    """What is different about a call, in words."""
    texts = [*map(change_text, row.changes), _OUTCOMES[row.outcome]]
    return ", ".join(filter(None, texts))


def _listed(changes: Iterable[Change]) -> str:
    return ", ".join(map(change_text, changes))


def change_text(change: Change) -> str:
    """One thing that differs, in words.

    >>> change_text(Change("argument", "eps", 1e-05, 0.001))
    'eps is 0.001 in b, 1e-05 in a'
    """
    return _CHANGES[change.aspect](change)


def _value_change(change: Change) -> str:
    return f"{change.name} is {_value(change.b)} in b, {_value(change.a)} in a"


def _value(item: Any) -> str:
    if item is DEFAULT:
        return "the default"
    return _clipped(repr(item), MOST_VALUE)


def _clipped(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - 1] + "…"


def _fact_change(subject: str) -> Callable[[Change], str]:
    """A sentence about something that is not an argument: `dtype is bf16 in b, f32 in a`."""
    return lambda change: f"{subject} is {change.b} in b, {change.a} in a"


def _shape_change(change: Change) -> str:
    return f"shape is {list(change.b)} in b, {list(change.a)} in a"


def _grad_change(change: Change) -> str:
    subject = f"requires_grad of {change.name}" if change.name else "requires_grad"
    return f"{subject} is {change.b} in b, {change.a} in a"


def _exception_change(change: Change) -> str:
    """The exceptions that end two calls, of which not both end in the same."""
    if change.a is not None and change.b is not None:
        return f"raises {change.b[0]} in b, {change.a[0]} in a"
    side, (name, message) = ("a", change.a) if change.a is not None else ("b", change.b)
    line = _clipped(message.partition("\n")[0], MOST_MESSAGE)
    text = f": {line}" if line else ""
    return f"raises {name}{text} in {side} only"


def _gradient_change(change: Change) -> str:
    others = change.a
    if not others:
        return _GRADIENTS[change.name]
    calls = "1 other call that uses it" if others == 1 else f"{others} other calls that use it"
    return f"{_GRADIENTS[change.name]}; so may {calls}"


_CHANGES: dict[Aspect, Callable[[Change], str]] = {
    "argument": _value_change,
    "setting": _value_change,
    "tensor count": _fact_change("the number of tensors"),
    "other tensor": lambda change: f"{change.name} is another tensor",
    "input": lambda change: f"{change.name} differs",
    "unrecorded": lambda change: "not made by a call that was recorded",
    "exception": _exception_change,
    "raises": lambda change: f"raises {change.name}",
    "class": _fact_change("the class"),
    "call": _fact_change("the call"),
    "dtype": _fact_change("dtype"),
    "device": _fact_change("device"),
    "shape": _shape_change,
    "requires_grad": _grad_change,
    "gradient": _gradient_change,
}


def _reason(cause: Cause) -> str:
    """Why a call is a cause, by the kind of cause."""
    manner = cause.reason.manner
    if cause.kind in _BY_KIND:
        return _BY_KIND[cause.kind](cause)
    if manner.changes:
        return _reason_of_argument(cause)
    is_known_equal = cause.reason.is_equal or not _differs(cause)
    if manner.layout and is_known_equal:
        return _reason_of_layout(cause)
    return _reason_of_output(cause)


def _differs(cause: Cause) -> bool:
    """Whether the effect of a cause was seen."""
    return cause.effect != "unknown"


def _reason_of_layout(cause: Cause) -> str:
    end = ": close, but what follows from it differs" if _differs(cause) else _UNKNOWN_EFFECT
    return _listed(cause.reason.manner.layout) + end


def _reason_of_argument(cause: Cause) -> str:
    end = _growth(cause) if _differs(cause) else _UNKNOWN_EFFECT
    return _listed(cause.reason.manner.changes) + end


def _reason_of_exception(cause: Cause) -> str:
    return _listed(cause.reason.manner.changes)


def _reason_of_gradient(cause: Cause) -> str:
    cut = cause.reason.cut
    if cut is None:
        return _listed(_every(cause.reason.manner))
    if cause.reason.is_stretch:
        return f"{_makers(cause)}: {change_text(cut)}"
    return change_text(cut)


def _every(manner: Manner) -> Iterable[Change]:
    return manner.changes + manner.layout


def _reason_of_input(cause: Cause) -> str:
    """The inputs that differ from the start, by name."""
    manner = cause.reason.manner
    names = [change.name for change in manner.changes if change.aspect == "input"]
    if not names:
        return "the tensor that it reads differs"
    rest = [change for change in _every(manner) if change.aspect != "input"]
    return ", ".join([_differing(names), *map(change_text, rest)])


def _differing(names: list[str]) -> str:
    """That several things differ.

    >>> _differing(["weight"]), _differing(["x", "weight", "bias"])
    ('weight differs', 'x, weight and bias differ')
    """
    if len(names) == 1:
        return f"{names[0]} differs"
    return f"{', '.join(names[:-1])} and {names[-1]} differ"


def _reason_of_output(cause: Cause) -> str:
    if not isinstance(cause.a, Call):
        return "the value differs"
    is_random = cause.kind == "random" or cause.reason.draws
    return f"{_equal_inputs(cause, cause.a)}the output differs{_RANDOM if is_random else ''}"


def _equal_inputs(cause: Cause, call: Call) -> str:
    """How far what goes into a call is known to be equal."""
    count, unknown = len(call.inputs), len(cause.unknown)
    if not count:
        return "it takes no tensor, "
    if unknown == count:
        return ""
    which = "all other inputs" if unknown else "the inputs"
    drift = cause.reason.input_drift
    if drift:
        return f"{which} are equal within the tolerance (largest difference {drift:.3g}), "
    if cause.certainty == "statistics":
        return f"{which} are equal as far as statistics show, "
    return f"{which} are equal, "


def _reason_of_stretch(cause: Cause) -> str:
    makers = _makers(cause)
    if not _differs(cause):
        return makers + _UNKNOWN_EFFECT
    if cause.reason.shifts_draws:
        return f"{makers}: it draws random numbers, so later draws differ"
    return makers + (_growth(cause) or ", and the result differs")


def _growth(cause: Cause) -> str:
    """What to say of a difference within the tolerance that is beyond it later."""
    drift = cause.reason.drift
    if cause.seen_at is None or not drift:
        return ""
    return f": the result is equal within the tolerance (largest difference {drift:.3g}), but not what follows"


def _makers(cause: Cause) -> str:
    """Which run makes the calls of a stretch."""
    if cause.calls_a and cause.calls_b:
        return "a and b make different calls here"
    number = len(cause.calls_a or cause.calls_b)
    calls = "this call" if number == 1 else f"these {number} calls"
    return f"only {'a' if cause.calls_a else 'b'} makes {calls}"


_BY_KIND: dict[CauseKind, Callable[[Cause], str]] = {
    "gradient": _reason_of_gradient,
    "calls": _reason_of_stretch,
    "raised": _reason_of_exception,
    "input": _reason_of_input,
}


def remark_texts(remarks: Iterable[Remark]) -> list[str]:
    """What only one run has: its ranks, steps, threads and layers."""
    layers = [remark for remark in remarks if isinstance(remark, MovedLayers)]
    rest = [remark for remark in remarks if not isinstance(remark, MovedLayers)]
    texts = [_lone_part(remark) if isinstance(remark, LonePart) else _empty_run(remark) for remark in rest]
    texts += [_moved_layers(remark) for remark in layers[:MOST_LAYERS]]
    if len(layers) > MOST_LAYERS:
        texts.append(f"other layers in {len(layers) - MOST_LAYERS:,} more containers")
    return texts


def _empty_run(remark: EmptyRun) -> str:
    other = "b" if remark.side == "a" else "a"
    calls = "the only call is" if remark.count == 1 else f"all {remark.count:,} calls are"
    return f"{remark.side} is empty: {calls} only in {other}"


def _lone_part(remark: LonePart) -> str:
    if not remark.numbers:
        return f"{remark.count} threads of some steps only in {remark.side}"
    return f"{_counted(remark.part, remark.numbers)} only in {remark.side}"


def _counted(part: str, numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"{part} {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{part}s {numbers[0]} … {numbers[-1]}"
    more = ", …" if len(numbers) > MOST_NUMBERS else ""
    return f"{part}s {', '.join(map(str, numbers[:MOST_NUMBERS]))}{more}"


def _moved_layers(remark: MovedLayers) -> str:
    """Which layers only one side has, and which have another number for it."""
    texts = [_lone_layers(remark.only_a, "a"), _lone_layers(remark.only_b, "b")]
    if remark.moved:
        (first_a, first_b), (last_a, last_b) = remark.moved[0], remark.moved[-1]
        verb = "is" if len(remark.moved) == 1 else "are"
        texts.append(f"{_span(first_a, last_a)} of a {verb} {_span(first_b, last_b)} of b")
    return "; ".join(filter(None, texts))


def _lone_layers(layers: tuple[tuple[str, str], ...], side: str) -> str:
    if not layers:
        return ""
    names = [f"{path} {type_}".strip() for path, type_ in layers]
    more = f" and {len(names) - MOST_LAYERS} more" if len(names) > MOST_LAYERS else ""
    return f"only in {side}: {', '.join(names[:MOST_LAYERS])}{more}"


def _span(first: str, last: str) -> str:
    if first == last:
        return first
    return f"{first} … {last}"
