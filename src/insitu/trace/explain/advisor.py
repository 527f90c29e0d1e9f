"""The advice on a failure, built last: from the misfits and from where their values come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from insitu.trace.advice import Advice, Certainty, SuspectLine
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import Misfit, Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.remedies import element_remedies, gradient_remedies, name_remedies, shape_remedies
from insitu.trace.explain.remedies.name_remedies import BY_MESSAGE
from insitu.trace.explain.remedies.origin_remedies import size_at_its_origin
from insitu.trace.explain.remedies.situation import Remedy, Situation
from insitu.trace.explain.remedies.source_part import attempt

THEMES = (name_remedies, gradient_remedies, element_remedies, shape_remedies)
BY_CHECK: dict[str, Remedy] = {name: remedy for theme in THEMES for name, remedy in theme.REMEDIES.items()}
# Errors about names, files and syntax: without a fix, there is nothing to say about them.
NOT_ABOUT_TENSORS = frozenset(
    (
        *("KeyError", "NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "TabError"),
        *("ImportError", "ModuleNotFoundError", "SystemExit", "KeyboardInterrupt"),
        *("OSError", "FileNotFoundError", "PermissionError", "IsADirectoryError", "NotADirectoryError"),
    )
)
NO_MISFIT = Misfit("")
VALUES = (OriginKind.PRODUCED, OriginKind.ASSIGNED)
# The origins that say the most about what to look at, the first the most.
TELLING = (
    OriginKind.GRADIENT_OFF,
    OriginKind.GRADIENT_LOST,
    OriginKind.FROZEN,
    OriginKind.NUMBER,
    OriginKind.NO_GRADIENT_ASSIGNED,
    OriginKind.NO_GRADIENT_PRODUCED,
    OriginKind.CUSTOM_GRADIENT,
    OriginKind.CHANGED_IN_PLACE,
    OriginKind.STORED,
    OriginKind.CARRIED,
    OriginKind.GRAPH_FREED,
    OriginKind.EARLIER,
    OriginKind.RANGE,
    OriginKind.SOURCE,
    OriginKind.NAN_PRODUCED,
    OriginKind.SIZE,
    OriginKind.FACT,
    OriginKind.SOURCE,
    OriginKind.VALUES_PRODUCED,
    OriginKind.VALUE,
    OriginKind.ASSIGNED,
    OriginKind.PRODUCED,
)


def find_advice(
    failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...], origins: tuple[Origin, ...]
) -> Advice | None:
    """The most likely fix; where none is known, the line to look at.

    None if the program raised the error itself, or the error is not about tensors or calls of the user.
    """
    if isinstance(line.statement.expression.statement, ast.Raise | ast.Assert):
        return None
    situations = [Situation(failure, line, case, misfit, origins) for misfit in misfits or (NO_MISFIT,)]
    found = chain.from_iterable(map(_advice, situations))
    advice = next(found, None) or _way_out(misfits)
    if advice is not None or failure.error in NOT_ABOUT_TENSORS:
        return advice
    suspect = _line_to_look_at(misfits, origins)
    if suspect is None and not misfits and not _concerns_user(line, case):
        return None
    return Advice(Certainty.UNKNOWN, look_at=suspect)


def _concerns_user(line: FailedLine, case: Case) -> bool:
    """Whether a tensor or a call may be on the line that failed; an `import`, which runs a library, has neither."""
    statement = line.statement.expression.statement
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return False
    is_unread = not line.source
    has_call = line.at is not None or any(isinstance(node, ast.Call) for node in ast.walk(statement))
    has_tensor = bool(case.operands or line.tensors())
    return is_unread or has_call or has_tensor


def _advice(situation: Situation) -> Iterator[Advice]:
    """The advice of each remedy that applies: at the origin of a size, for the check, for any failure."""
    own = [remedy for name, remedy in BY_CHECK.items() if name == situation.misfit.check]
    for remedy in (size_at_its_origin, *own, *BY_MESSAGE):
        advice = attempt(remedy, situation)
        if advice is not None:
            yield advice


def _way_out(misfits: tuple[Misfit, ...]) -> Advice | None:
    """What a check says in words."""
    words = next((misfit.way_out for misfit in misfits if misfit.way_out), "")
    if words:
        return Advice(Certainty.POSSIBLE, words=words)
    return None


def _line_to_look_at(misfits: tuple[Misfit, ...], origins: tuple[Origin, ...]) -> SuspectLine | None:
    """The line of the origin that says the most."""
    known = [origin for origin in origins if origin.site is not None and origin.kind in TELLING]
    sites = [origin for origin in known if _is_telling(origin, misfits)]
    if not sites:
        return None
    origin = min(sites, key=lambda each: TELLING.index(each.kind))
    assert origin.site is not None
    return SuspectLine(origin.site.file, origin.site.line, origins.index(origin))


def _is_telling(origin: Origin, misfits: tuple[Misfit, ...]) -> bool:
    """Whether an origin is about what does not fit; that of a value that no misfit mentions is not."""
    if origin.kind not in VALUES or not misfits:
        return True
    return any(misfit.mentions(origin.name) for misfit in misfits)
