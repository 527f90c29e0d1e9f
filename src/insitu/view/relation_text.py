"""What a tensor of b is, if it is a tensor of a in another order or in another place, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

from insitu.trace.compare.arrangement import Arrangement, ArrangementKind
from insitu.trace.compare.relation import Relation, RelationKind
from insitu.trace.event import Call, Site
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.operation import operation
from insitu.view.name import compact, spot
from insitu.view.rank_text import rank_fault_text
from insitu.view.value import safe, short

MOST_ITEMS = 8  # of an order
MOST_MAKERS = 3
_TARGETS = re.compile(r"\s*(\w+(?:\s*,\s*\w+)+)\s*=[^=]")


def relation_text(relation: Relation) -> str:
    """What a tensor of b is, and which calls have made it so.

    >>> relation_text(Relation("equal", "query f32[2, 8]", equal_to="key f32[2, 8]", certainty="statistics"))
    'query f32[2, 8] of b equals key f32[2, 8] of a, as far as statistics show'
    """
    text = _SENTENCES[relation.kind](relation)
    if relation.certainty == "statistics" and relation.kind == "equal":
        text += ", as far as statistics show"
    texts = [text, _makers_text(relation), _example_text(relation), _writer_text(relation)]
    return "; ".join(filter(None, texts))


def _subject(relation: Relation) -> str:
    if relation.subject:
        return f"{safe(relation.subject)} of b"
    return "b"


def _arrangement_text(relation: Relation) -> str:
    found = relation.arrangement
    assert found is not None
    name = "a" if not relation.subject else "that of a"
    return f"{_subject(relation)} equals {name} {_ORDERS[found.kind](found, relation)}"


def _transposed(found: Arrangement, relation: Relation) -> str:
    if len(found.items) == 2:
        first, second = found.items
        if found.items == (0, 1):
            return "transposed"
        return f"with dimensions {first} and {second} swapped"
    return f"with its dimensions in the order {_listed(found.items)}"


def _swapped(found: Arrangement, relation: Relation) -> str:
    first, second = found.items
    return f"with {_units(found, relation)} {first} and {second} swapped{_along(found, relation)}"


def _reversed(found: Arrangement, relation: Relation) -> str:
    return f"with {_units(found, relation)} in reverse order{_along(found, relation)}"


def _reordered(found: Arrangement, relation: Relation) -> str:
    return f"with {_units(found, relation)} in the order {_listed(found.items)}{_along(found, relation)}"


def _interleaved(found: Arrangement, relation: Relation) -> str:
    return f"interleaved: one of each of {found.count} parts in turn, along dimension {found.dimension}"


def _shifted(found: Arrangement, relation: Relation) -> str:
    number = abs(found.offset)
    way = "later" if found.offset > 0 else "earlier"
    positions = "one position" if number == 1 else f"{number} positions"
    return f"shifted by {positions} ({way}) along dimension {found.dimension}"


def _scaled(found: Arrangement, relation: Relation) -> str:
    if found.factor == -1:
        return "with the other sign"
    return f"times {found.factor:.6g}"


def _units(found: Arrangement, relation: Relation) -> str:
    """What is counted along a dimension."""
    if found.size > 1:
        return "chunks"
    if relation.unit == "head":
        return "heads"
    return "items"


def _along(found: Arrangement, relation: Relation) -> str:
    if found.size > 1:
        return f" (of {found.count}, {found.size} each, along dimension {found.dimension})"
    if relation.unit == "head":
        return ""
    return f" along dimension {found.dimension}"


def _listed(items: tuple[int, ...]) -> str:
    more = ", …" if len(items) > MOST_ITEMS else ""
    return ", ".join(map(str, items[:MOST_ITEMS])) + more


_ORDERS: dict[ArrangementKind, Callable[[Arrangement, Relation], str]] = {
    "transposed": _transposed,
    "reshaped": lambda found, relation: "in another shape",
    "swapped": _swapped,
    "reversed": _reversed,
    "reordered": _reordered,
    "interleaved": _interleaved,
    "shifted": _shifted,
    "scaled": _scaled,
}


def _part_text(relation: Relation) -> str:
    part_a, part_b = relation.parts
    text = f"{_subject(relation)} is part {part_b} of what is split, in a it is part {part_a}"
    names = [_target_names(call.site) for call in (*relation.makers_a[:1], *relation.makers_b[:1])]
    if len(names) == 2 and max(part_a, part_b) < min(map(len, names)):
        text += f": {names[0][part_a]} and {names[0][part_b]} are swapped"
    return text


def _target_names(site: Site | None) -> list[str]:
    """The variables to which the parts are assigned, as in `gate, value = x.chunk(2)`."""
    if site is None:
        return []
    match = _TARGETS.match(site.text)
    if match is None:
        return []
    return [name.strip() for name in match.group(1).split(",")]


def _equal_text(relation: Relation) -> str:
    return f"{_subject(relation)} equals {safe(relation.equal_to)} of a"


def _not_turned_text(relation: Relation) -> str:
    return f"{_subject(relation)} equals that of a, but the call of b needs it transposed"


def _statistics_text(relation: Relation) -> str:
    """What statistics say of values and their order: nothing. Another recording says more."""
    subject = safe(relation.subject) or "what comes out"
    return (
        f"{subject} has the same statistics in both; whether the values and their order are the same is not known"
        ' (keep="values" shows it)'
    )


def _input_text(relation: Relation) -> str:
    assert relation.user is not None
    return f"{safe(relation.subject)} of {short(compact(relation.user), 60)} differs, its other inputs agree"


def _origin_text(relation: Relation) -> str:
    text = f"{_subject(relation)} is not the weight of a"
    if relation.user is None:
        return text
    user = f"{relation.user.path} {compact(relation.user)}".lstrip()
    return f"{text}: a ties it to that of {short(user, 60)}, b does not"


def _lookup_text(relation: Relation) -> str:
    """The table entries from which b has the function that it calls."""
    return f"{short(compact(relation.makers_b[0]), 60)} of b comes from {_expressions(relation.sites)}"


def _ranks_text(relation: Relation) -> str:
    assert relation.ranks is not None
    return rank_fault_text(relation.ranks)


def _unfinished_text(relation: Relation) -> str:
    return f"a value before it, {safe(relation.subject)}, is Partial: each rank has only a part of the sum"


_SENTENCES: dict[RelationKind, Callable[[Relation], str]] = {
    "arrangement": _arrangement_text,
    "part": _part_text,
    "equal": _equal_text,
    "not turned": _not_turned_text,
    "statistics": _statistics_text,
    "input": _input_text,
    "origin": _origin_text,
    "lookup": _lookup_text,
    "ranks": _ranks_text,
    "unfinished": _unfinished_text,
}
# What the calls have done that are named beside a tensor; no verb, no calls.
_VERBS: dict[RelationKind, str] = {"equal": "made", "origin": "made", "lookup": ""}


def _makers_text(relation: Relation) -> str:
    """The calls that have given the values their order, in both runs."""
    sides = ((relation.makers_a, "a"), (relation.makers_b, "b"))
    texts = [f"{_calls(calls)} in {side}" for calls, side in sides if calls]
    verb = _VERBS.get(relation.kind, "arranged")
    if not texts or not verb:
        return ""
    return f"{verb} by {', by '.join(texts)}"


def _calls(calls: tuple[Call, ...]) -> str:
    """Calls and their lines, each line once."""
    texts: dict[str, str] = {}
    for call in calls:
        line = _line if operation(call.kind, call.name).is_move else _line_and_caller
        texts.setdefault(line(call.site), short(compact(call), 40))
    named = [f"{name} ({place})" if place else name for place, name in texts.items()]
    return " and ".join(named[:MOST_MAKERS])


def _line(site: Site | None) -> str:
    """The line of a call."""
    if site is None:
        return ""
    return spot(site)


def _line_and_caller(site: Site | None) -> str:
    """The line of a call, and the line that called its function if that is in the same file."""
    if site is None:
        return ""
    caller = site.caller
    if caller is None or caller.file != site.file or caller.function == "<module>":
        return spot(site)
    return f"{spot(site)}, called at {spot(caller)}"


def _example_text(relation: Relation) -> str:
    """The call that arranges another weight, which is set on the same line."""
    if relation.example is None:
        return ""
    return f"no call of b rearranges it, while {_calls((relation.example,))} rearranges another weight"


def _writer_text(relation: Relation) -> str:
    """The call that set a weight which no call rearranges, and the expressions that made its values."""
    if relation.writer is None:
        return ""
    text = f"set by {_calls((relation.writer,))} in b"
    if relation.sites:
        text += f", from {_expressions(relation.sites)}"
    return text


def _expressions(sites: tuple[ExpressionSite, ...]) -> str:
    return " or ".join([f"{short(site.text, 60)} ({spot(site)})" for site in sites])
