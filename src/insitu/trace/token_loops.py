"""Loops of libraries that make one token in each pass, as `model.generate(ids)` of transformers does."""

from __future__ import annotations

from insitu.trace.bundle import Bundle, Entry, indices
from insitu.trace.forest import MODEL, Node
from insitu.trace.place import Place
from insitu.trace.statement_entries import with_rest, without_rest

# The functions whose outermost loop makes a token in each pass, by the file that they are in. A pass of assisted
# decoding makes several tokens: its loop is shown as a loop.
TOKEN_FUNCTIONS = {
    "transformers/generation/utils.py": frozenset(
        {"_beam_search", "_constrained_beam_search", "_contrastive_search", "_group_beam_search", "_sample"}
    ),
}


def makes_tokens(place: Place) -> bool:
    """Whether a place is in a function whose outermost loop makes tokens."""
    file = place.site.file.replace("\\", "/")
    for name, functions in TOKEN_FUNCTIONS.items():
        if file.endswith(f"/{name}"):
            return place.function_name in functions
    return False


def token_entries(before: list[Entry], loop: Bundle, nodes: list[Node]) -> list[Entry]:
    """The entries of a function up to the end of its loop, with one for each token.

    The call of the model that reads the prompt may come before the loop. It makes the first token.
    """
    first, *others = [step.entries for step in loop.entries if isinstance(step, Bundle)]
    start = len(before)
    if not _calls_model(first, nodes):
        start = _last_model_call(before, nodes)
        first = with_rest(without_rest([*before[start:], *first]), nodes, loop.site)
    tokens = [_token(entries, number, loop) for number, entries in enumerate([first, *others], 1)]
    return [*before[:start], *tokens]


def _token(entries: list[Entry], number: int, loop: Bundle) -> Bundle:
    """What was done for a token."""
    return Bundle("token", entries, site=loop.site, loop=loop.loop, matters=True, number=number)


def _calls_model(entries: list[Entry], nodes: list[Node]) -> bool:
    """Whether there is a call of a model in entries."""
    return any(nodes[index].marks & MODEL for index in indices(entries))


def _last_model_call(entries: list[Entry], nodes: list[Node]) -> int:
    """The place of the last entry that calls a model; the end if none does."""
    for place in reversed(range(len(entries))):
        if _calls_model([entries[place]], nodes):
            return place
    return len(entries)
