"""Paths that have another name in the other run: `{"encoder.layer.*": "encoder.layers.*"}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from insitu.errors import ChoiceError, PatternError, SubjectError
from insitu.trace.path import Pattern, suggestion


@dataclass(frozen=True, slots=True)
class Rule:
    """Paths that match `old`, or are in one that does, are called `new` in the other run."""

    old: Pattern
    new: str


@dataclass(frozen=True, slots=True)
class Renamer:
    """Gives paths their new names."""

    rules: list[Rule]

    def __call__(self, path: str) -> str:
        """The new name of a path."""
        for rule in self.rules:
            found = rule.old.begin(path)
            if found is not None:
                return (_filled(rule.new, found) + found.string[found.end() :]).lstrip(".")
        return path

    def names(self, path: str, length: int) -> bool:
        """Whether a rule says what the first so many characters of a path become."""
        matches = filter(None, [rule.old.begin(path) for rule in self.rules])
        return any(found.end() > length for found in matches)


def renamer(rename: Mapping[str, str] | None, paths: Collection[str]) -> Renamer:
    """What gives paths their new names; what lies below a renamed path goes with it.

    A pattern that fits none of the paths raises `PatternError`.

    >>> renamed = renamer({"encoder.layer.*": "blocks.*", "emb": "wte"}, ["emb", "encoder.layer.0.attn"])
    >>> renamed("encoder.layer.0.attn"), renamed("emb"), renamed("head")
    ('blocks.0.attn', 'wte', 'head')
    """
    rules = [Rule(Pattern.of(old), new) for old, new in _checked(rename or {}).items()]
    for rule in rules:
        if not any(map(rule.old.covers, paths)):
            text = rule.old.text
            raise PatternError(f"rename: no path of a matches {text!r}{suggestion(text, paths)}")
    return Renamer(rules)


def _checked(rename: object) -> Mapping[str, str]:
    if not isinstance(rename, Mapping):
        raise SubjectError(f"rename={rename!r:.80} is not a dict of path patterns: {{'old.*': 'new.*'}}")
    for old, new in rename.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise SubjectError(f"rename: {old!r:.40}: {new!r:.40} is not from pattern to pattern: {{'old.*': 'new.*'}}")
        Pattern.of(old), Pattern.of(new)
        if _wildcards(old) != _wildcards(new):
            raise ChoiceError(f"rename: {old!r} and {new!r} need the same wildcards: the text that `*` matches is kept")
    return rename


def _wildcards(pattern: str) -> list[str]:
    return re.findall(r"\*+", pattern)


def _filled(new: str, found: re.Match[str]) -> str:
    texts = iter(found.groups())
    return re.sub(r"\*+", lambda _: next(texts).lstrip("."), new)
