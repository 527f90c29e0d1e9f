"""Paths that have another name in the other run: `{"encoder.layer.*": "encoder.layers.*"}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from insitu.errors import ChoiceError, PatternError, SubjectError
from insitu.trace.path import compiled, suggestion

Rule = tuple[str, re.Pattern[str], str]


@dataclass(frozen=True, slots=True)
class Renamer:
    """Gives paths their new names."""

    rules: list[Rule]

    def __call__(self, path: str) -> str:
        """The new name of a path."""
        for _, expression, new in self.rules:
            found = expression.match("." + path)
            if found is not None:
                return (_filled(new, found) + path[found.end() - 1 :]).lstrip(".")
        return path

    def names(self, path: str, length: int) -> bool:
        """Whether a rule says what the first so many characters of a path become."""
        matches = (expression.match("." + path) for _, expression, _ in self.rules)
        return any(found is not None and found.end() > length for found in matches)


def renamer(rename: Mapping[str, str] | None, paths: Collection[str]) -> Renamer:
    """What gives paths their new names; what lies below a renamed path goes with it.

    A pattern that fits none of the paths raises `PatternError`.

    >>> renamed = renamer({"encoder.layer.*": "blocks.*", "emb": "wte"}, ["emb", "encoder.layer.0.attn"])
    >>> renamed("encoder.layer.0.attn"), renamed("emb"), renamed("head")
    ('blocks.0.attn', 'wte', 'head')
    """
    rules = [_rule(old, new) for old, new in _checked(rename or {}).items()]
    for old, expression, _ in rules:
        if not any(expression.match("." + path) for path in paths):
            raise PatternError(f"rename: no path of a matches {old!r}{suggestion(old, paths)}")
    return Renamer(rules)


def _checked(rename: object) -> Mapping[str, str]:
    if not isinstance(rename, Mapping):
        raise SubjectError(f"rename={rename!r:.80} is no dict of path patterns: {{'old.*': 'new.*'}}")
    for old, new in rename.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise SubjectError(f"rename: {old!r:.40}: {new!r:.40} is not from pattern to pattern: {{'old.*': 'new.*'}}")
        compiled(old), compiled(new)
        if _wildcards(old) != _wildcards(new):
            raise ChoiceError(f"rename: {old!r} and {new!r} have not the same wildcards: what `*` stands for is kept")
    return rename


def _wildcards(pattern: str) -> list[str]:
    return re.findall(r"\*+", pattern)


def _rule(old: str, new: str) -> Rule:
    """A pattern that matches a path or the beginning of one, with a group for each wildcard."""
    expression = ""
    for segment in old.split(".") if old else ():
        if segment == "**":
            expression += r"((?:\.[^.]+)*?)"
        else:
            text = re.escape(segment).replace(r"\?", "[^.]")
            expression += r"\." + text.replace(r"\*", "([^.]+)" if segment == "*" else "([^.]*)")
    return old, re.compile(expression + r"(?=\.|$)"), new


def _filled(new: str, found: re.Match[str]) -> str:
    texts = iter(found.groups())
    return re.sub(r"\*+", lambda _: next(texts).lstrip("."), new)
