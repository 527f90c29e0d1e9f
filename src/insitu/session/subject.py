"""What a session is about: the model, and the path patterns that name parts of it. Bad input is refused here."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from insitu.capture.names import ModuleNames
from insitu.capture.values.targets import targets
from insitu.errors import PatternError, SubjectError, brief
from insitu.trace.path import Pattern


def check_subject(verb: str, subject: object) -> nn.Module | None:
    """The subject if it is a model or nothing; otherwise an error that names what is possible."""
    if subject is None or isinstance(subject, nn.Module):
        return subject
    hint = ""
    if isinstance(subject, type):
        hint = f": pass an instance, {subject.__name__}(...)"
    possible = "a torch.nn.Module, or nothing to trace everything that torch does in the block"
    if verb == "watch":
        possible += "; a function or a class to decorate; or names of variables"
    raise SubjectError(f"insitu.{verb} cannot trace {brief(subject)}{hint}; it takes {possible}")


def pattern_list(option: str, patterns: str | Iterable[str] | None, example: str) -> tuple[str, ...]:
    """The patterns of an option as a tuple; an error names the first that is not well formed."""
    if patterns is None:
        return ()
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        patterns = (patterns,)
    texts = tuple(patterns)
    for pattern in texts:
        if not isinstance(pattern, str):
            raise PatternError(f"{option}={brief(pattern)} is not a path pattern: write text such as {example}")
        Pattern.of(pattern)
    return texts


def module_patterns(only: str | Iterable[str] | None, subject: nn.Module | None) -> tuple[str, ...]:
    """The patterns of `only`, each of which matches a module of the subject, if there is one."""
    patterns = pattern_list("only", only, "'encoder.*'")
    if subject is not None:
        for pattern in patterns:
            require_module(pattern, subject)
    return patterns


def require_module(pattern: str, subject: nn.Module) -> None:
    """Refuse a pattern that matches no module; if it names values, say how to record these."""
    try:
        Pattern.of(pattern).require(module_paths(subject), what="module")
    except PatternError:
        if not names_values(pattern, subject):
            raise
        raise PatternError(
            f"{pattern!r} names values, not a module: insitu.record_run(model, only=...) records them at each step"
        ) from None


def names_values(pattern: str, subject: nn.Module) -> bool:
    """Whether a pattern names outputs, variables, parameters or gradients."""
    try:
        return bool(targets(subject, (pattern,)))
    except PatternError:
        return False


def module_paths(subject: nn.Module) -> list[str]:
    """The clean paths of all modules of a model."""
    return [callee.path for callee in ModuleNames(subject, lambda path: True).callees.values()]
