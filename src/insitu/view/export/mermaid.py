"""Mermaid: the modules of a model and what flows between them, small enough for a README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from insitu.trace.collector import pause_collector
from insitu.trace.trace import Trace
from insitu.view.export.flow import Flow, Key
from insitu.view.export.nested_frames import Frames
from insitu.view.missing_text import missing_text
from insitu.view.value import short

MOST_NODES = 300  # Mermaid refuses more than 500 arrows, or 50,000 characters
MOST_ARROWS = 450
MOST_TEXT = 48
SPECIAL = re.compile(r"[^\w ()\[\].,×→…]")  # a colon or a percent sign is special to Mermaid even between quotes


@pause_collector()
def pieces(trace: Trace) -> list[str]:
    """The forward pass at the level of modules, as a flowchart; identical blocks and steps are drawn once.

    Boxes are the innermost modules, circles the functions in which the outputs of several modules come together. Dotted
    arrows only tell the order of the calls: a trace with `level="modules"` does not know what flows between them.

    >>> from insitu.trace.event import Call, ModuleFacts
    >>> print("".join(pieces(Trace([Call(0, None, "module", "Linear", ModuleFacts("fc", "Linear"))]))), end="")
    flowchart TD
      m0["fc  Linear"]
    """
    flow = Flow(trace)
    if not flow.nodes:
        return ['flowchart TD\n  note["no module was called"]\n']
    lines = ["flowchart TD"]
    if trace.missing is not None:
        lines.append(f"%% {missing_text(trace.missing)}")
    lines += _lines(flow)
    return [f"{line}\n" for line in lines]


def _lines(flow: Flow) -> Iterator[str]:
    """The boxes in the frames of the modules around them, then the arrows, then a note on what is left out."""
    ids = {key: f"m{number}" for number, key in enumerate(list(flow.nodes)[:MOST_NODES])}
    frames, numbers = Frames(), count()
    for key, id in ids.items():
        frames.add(flow.frames(key), _box(flow, key, id))
    yield from frames.lines(
        lambda path, indent: (f'{indent}subgraph f{next(numbers)}["{_escaped(flow.title(path))}"]',), "end"
    )
    arrows = [ends for ends in flow.arrows if ids.keys() >= set(ends)][:MOST_ARROWS]
    for source, target in arrows:
        yield f"  {ids[source]} {flow.arrows[source, target]} {ids[target]}"
    nodes, lost = len(flow.nodes) - len(ids), len(flow.arrows) - len(arrows)
    if nodes or lost:
        yield f'  note["{nodes:,} more modules and {lost:,} arrows are left out, export .dot or .graph.json"]'


def _box(flow: Flow, key: Key, id: str) -> str:
    text = "<br/>".join(_escaped(line) for line in flow.label(key) if line)
    if isinstance(key, str):
        return f'{id}["{text}"]'
    return f'{id}(("{text}"))'


def _escaped(text: str) -> str:
    """The text with each character that Mermaid might read as more than text replaced by its number.

    >>> _escaped('a"b')
    'a#34;b'
    """
    return SPECIAL.sub(lambda sign: f"#{ord(sign[0])};", short(text, MOST_TEXT))
