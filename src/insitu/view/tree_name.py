"""The names of the rows of the tree: a module, a function, an expression, a pass of a loop, a step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site
from insitu.trace.fold import Fold
from insitu.trace.folded_steps import Steps
from insitu.trace.path import relative
from insitu.view.collective_text import collective_part
from insitu.view.common_call import common_call
from insitu.view.line import DETAIL, Span
from insitu.view.name import call_marks, compact_parts, settings_text
from insitu.view.value import safe

COMPILED = "torch.compile."  # before the name of a compiled function, which has a mark
INKS = {"function": "cyan", "python": "teal", "module": "purple"}


def step_spans(group: Steps, ranked: bool) -> tuple[Span, ...]:
    """The number of a step, or of the first and the last of several that are alike."""
    title = step_title(group, ranked)
    if group.count == 1:
        return ((title, "grey"),)
    return ((title, "grey"), (f"  × {group.count} alike", "yellow"))


def step_title(group: Steps, ranked: bool) -> str:
    """The name of a step, or of several that are alike, with its rank if there are several ranks."""
    title = f"step {group.first}"
    if group.count > 1:
        title = f"{title} … {group.last}"
    if ranked:
        return f"rank {group.folds[0].nodes[0].first.rank} {title}"
    return title


def site_of(event: Event) -> Site | None:
    """Where an event happened; marks have no site."""
    if isinstance(event, Mark):
        return None
    return event.site


def call_spans(call: Call, item: Fold, parent: Call | None) -> tuple[Span, ...]:
    """The name of a call, how many are alike, and what is unusual about it unless the call around it says so."""
    if call.kind == "module" and call.module is not None:
        spans = _module_spans(call.module, item, _path(parent))
    else:
        spans = _function_spans(call, item)
    if call.phase == "forward" and call.mode == "eager":  # as most often
        return spans
    return (*spans, *[(f"  {text}", "grey") for text in _remarks(call, item, parent)])


def _path(parent: Call | None) -> str:
    if parent is None:
        return ""
    return parent.path


def _module_spans(module: ModuleFacts, item: Fold, base: str) -> tuple[Span, ...]:
    """The path from the module around it, and the class; of several modules, the first path and the last."""
    path = safe(relative(module.path, base))
    if item.near > 1:
        path = _range(path, item, base)
    type, settings = _type(module)
    spans: list[Span] = []
    if path and path != type:  # a module outside of all others is named by its class
        spans.append((path, "bold"))
    if item.count > 1:
        spans.append((_apart(f"× {item.count} alike", spans), "yellow"))
    spans.append((_apart(type, spans), "purple"))
    if settings:
        spans.append((settings, DETAIL))
    return tuple(spans)


def _apart(text: str, before: list[Span]) -> str:
    """A text with a gap before it, unless it is the first; a cut at the end of a part then leaves the gap."""
    if before:
        return f"  {text}"
    return text


def _range(path: str, item: Fold, base: str) -> str:
    """The first path and the last one of several modules that are alike."""
    last = item.nodes[item.near - 1].event
    if not isinstance(last, Call):
        return path
    final = safe(relative(last.path, base))
    if final == path:
        return path
    return f"{path} … {final}"


@lru_cache(maxsize=4096)
def _type(module: ModuleFacts) -> tuple[str, str]:
    return safe(module.type), settings_text(module)


def _function_spans(call: Call, item: Fold) -> tuple[Span, ...]:
    """A function in a few words; an operator by its full name."""
    if call.kind == "aten":
        spans: tuple[Span, ...] = ((safe(call.name), "orange"),)
        if part := collective_part(call):
            spans = (*spans, (part, DETAIL))
    else:
        name, arguments = compact_parts(_common(call, item))
        spans = ((name.removeprefix(COMPILED), INKS[call.kind]),)
        if arguments:
            spans = (*spans, (arguments, DETAIL))
    if item.count > 1:
        return (*spans, (f"  × {item.count} alike", "yellow"))
    return spans


def _common(call: Call, item: Fold) -> Call:
    """The call, with a sign for arguments that differ from those of others in its row."""
    if len(item.nodes) == 1:
        return call
    return common_call([node.event for node in item.nodes if isinstance(node.event, Call)])


def _remarks(call: Call, item: Fold, parent: Call | None) -> Iterator[str]:
    """The marks of a call and, in the backward pass, the modules whose forward calls it belongs to."""
    if call.phase == "backward":
        yield _backward(call, item)
    known: list[str] = []
    if parent is not None:
        known = call_marks(parent)
    yield from (mark for mark in call_marks(call) if mark not in known)


def _backward(call: Call, item: Fold) -> str:
    if call.forward is None or call.path == "":
        return "backward"
    return f"backward of {_paths(item)}"


def _paths(item: Fold) -> str:
    """The path of the module, or of the first and the last of several."""
    ends = [node.event for node in (item.nodes[0], item.nodes[-1]) if isinstance(node.event, Call)]
    return " … ".join(dict.fromkeys(safe(call.path) for call in ends))
