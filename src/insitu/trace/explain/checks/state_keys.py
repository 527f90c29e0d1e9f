"""The keys of a state_dict that do not fit those of the model: how the two sets differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from insitu.trace.explain.case import Case
from insitu.trace.explain.checks.registry import Checks
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.messages import STATE_KEYS

CHECKS = Checks()
QUOTED = re.compile(r'"([^"]+)"')
LAYER = re.compile(r"^((?:.*?\.)?\d+)\.")
MOST_LAYERS = 4


@dataclass(slots=True, frozen=True)
class KeySets:
    """The keys that the model has and the dict lacks, and those that only the dict has."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def key_sets(message: str) -> KeySets:
    """The keys that the message of `load_state_dict` lists.

    >>> key_sets('Missing key(s) in state_dict: "a.b". \\n\\tUnexpected key(s) in state_dict: "m.a.b". ')
    KeySets(missing=('a.b',), unexpected=('m.a.b',))
    """
    missing, _, unexpected = message.partition("Unexpected key(s)")
    before = missing.partition("Missing key(s)")[2]
    return KeySets(_quoted(before), _quoted(unexpected.partition("size mismatch")[0]))


def _quoted(text: str) -> tuple[str, ...]:
    return tuple(QUOTED.findall(text.partition("size mismatch")[0]))


@CHECKS.add(says=STATE_KEYS)
def keys_differ(case: Case, match: re.Match[str]) -> Misfit | None:
    """Keys that the model does not have, or that it lacks."""
    sets = key_sets(case.message)
    for relation in RELATIONS:
        text = relation(sets)
        if text:
            return Misfit(text)
    return None


def _extra_prefix(sets: KeySets) -> str:
    prefix = _prefix(sets.unexpected, sets.missing)
    return f"the given keys have the prefix {prefix!r}, which the model does not have" if prefix else ""


def _lacking_prefix(sets: KeySets) -> str:
    prefix = _prefix(sets.missing, sets.unexpected)
    if not prefix:
        return ""
    if prefix.endswith("."):
        return f"the given keys lack the prefix {prefix!r}"
    return f"{len(sets.missing)} of the given keys lack the first {_letters(prefix)}: {_pair(sets)}"


def _letters(prefix: str) -> str:
    return f"letter {prefix!r}" if len(prefix) == 1 else f"letters {prefix!r}"


def _pair(sets: KeySets) -> str:
    return f"{sets.unexpected[0]!r} for {sets.missing[0]!r}"


def _prefix(longer: Sequence[str], shorter: Sequence[str]) -> str:
    """The text that each of some keys has before one of others; empty if there is none."""
    if not longer or not shorter or not longer[0].endswith(shorter[0]):
        return ""
    prefix = longer[0].removesuffix(shorter[0])
    return prefix if {prefix + key for key in shorter} == set(longer) else ""


def _renamed_part(sets: KeySets) -> str:
    """One part of each key has another name: `enc.weight` for `encoder.weight`."""
    if len(sets.missing) != len(sets.unexpected):
        return ""
    changes = set[tuple[str, str]]()
    for wanted, found in zip(sets.missing, sets.unexpected, strict=True):
        parts = list(zip(wanted.split("."), found.split("."), strict=False))
        different = {pair for pair in parts if pair[0] != pair[1]}
        if wanted.count(".") != found.count(".") or len(different) != 1:
            return ""
        changes |= different
    names = ", ".join(f"{found!r} for {wanted!r}" for wanted, found in sorted(changes)[:MOST_LAYERS])
    return f"the given keys have other names: {names}"


def _more_layers(sets: KeySets) -> str:
    """Only one side has some layers of a list."""
    if sets.missing and sets.unexpected:
        return ""
    layers = [found[1] if (found := LAYER.match(key)) else "" for key in sets.missing or sets.unexpected]
    names = list(dict.fromkeys(layers))
    if not names or "" in names:
        return ""
    owner = "the model" if sets.missing else "the given dict"
    noun = "layer" if len(names) == 1 else "layers"
    return f"{owner} has {len(names)} {noun} more: {', '.join(names[:MOST_LAYERS])}"


def _listed(sets: KeySets) -> str:
    """The first key of each side."""
    parts = []
    if sets.missing:
        parts.append(f"the model has {_first(sets.missing)}, and the given dict does not")
    if sets.unexpected:
        parts.append(f"the given dict has {_first(sets.unexpected)}, and the model does not")
    return "; ".join(parts)


def _first(keys: Sequence[str]) -> str:
    if len(keys) == 1:
        return repr(keys[0])
    return f"{keys[0]!r} and {len(keys) - 1} more"


RELATIONS: tuple[Callable[[KeySets], str], ...] = (
    _extra_prefix,
    _lacking_prefix,
    _renamed_part,
    _more_layers,
    _listed,
)
