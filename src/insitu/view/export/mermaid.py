"""Mermaid: the modules of a model and what flows between them, small enough for a README."""

from __future__ import annotations

import re
from collections.abc import Iterator

from insitu.trace.collector import collector_paused
from insitu.trace.trace import Trace
from insitu.view.export.flow import Flow, Key
from insitu.view.missing_text import missing_text
from insitu.view.value import short

MOST_NODES = 300  # Mermaid refuses more than 500 arrows, or 50,000 characters
MOST_ARROWS = 450
MOST_TEXT = 48
SPECIAL = re.compile(r"[^\w ()\[\].,×→…]")  # a colon or a percent sign is special to Mermaid even between quotes


@collector_paused()
def to_mermaid(trace: Trace) -> str:
    """The forward pass at the level of modules, as a flowchart; identical blocks and steps are drawn once.

    Boxes are the innermost modules, circles the functions in which what several modules made comes together. Dotted
    arrows only tell the order of the calls: a trace with `level="modules"` does not know what flows between them.

    >>> from insitu.trace.event import Call, ModuleFacts
    >>> print(to_mermaid(Trace([Call(0, None, "module", "Linear", ModuleFacts("fc", "Linear"))])))
    flowchart TD
      m0["fc  Linear"]
    """
    flow = Flow(trace)
    if not flow.nodes:
        return 'flowchart TD\n  note["no module was called"]\n'
    missing = trace.missing
    notes = [f"%% {missing_text(missing)}"] if missing is not None else []
    return "\n".join(["flowchart TD", *notes, *_Drawing(flow).lines(), ""])


class _Drawing:
    """Boxes in the frames of the modules around them, and arrows, each as a line."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._ids = {key: f"m{number}" for number, key in enumerate(list(flow.nodes)[:MOST_NODES])}
        self._inside: dict[str | None, dict[str, None]] = {}
        self._held: dict[str | None, list[Key]] = {}
        for key in self._ids:
            frames = flow.frames(key)
            for around, path in zip([None, *frames], frames, strict=False):
                self._inside.setdefault(around, {})[path] = None
            self._held.setdefault(frames[-1] if frames else None, []).append(key)

    def lines(self) -> Iterator[str]:
        yield from self._boxes()
        arrows = [(source, target) for source, target in self._flow.arrows if {source, target} <= self._ids.keys()]
        for source, target in arrows[:MOST_ARROWS]:
            yield f"  {self._ids[source]} {self._flow.arrows[source, target]} {self._ids[target]}"
        nodes, lost = len(self._flow.nodes) - len(self._ids), len(self._flow.arrows) - len(arrows[:MOST_ARROWS])
        if nodes or lost:
            yield f'  note["{nodes:,} more modules and {lost:,} arrows are left out, export .dot or .graph.json"]'

    def _boxes(self) -> Iterator[str]:
        """The boxes and the frames around them; a stack, because models nest deeper than Python."""
        count = 0
        waiting: list[tuple[str | None, str, bool]] = [(None, "", False)]
        while waiting:
            path, indent, ends = waiting.pop()
            if ends:
                yield f"{indent}end"
                continue
            if path is not None:
                yield f'{indent}subgraph f{count}["{_escaped(self._flow.title(path))}"]'
                count += 1
                waiting.append((path, indent, True))
            inner = indent + "  "
            yield from (f"{inner}{self._box(key)}" for key in self._held.get(path, ()))
            waiting += [(deeper, inner, False) for deeper in reversed(self._inside.get(path, {}))]

    def _box(self, key: Key) -> str:
        lines = [_escaped(line) for line in self._flow.label(key) if line]
        text = "<br/>".join(lines)
        return f'{self._ids[key]}["{text}"]' if isinstance(key, str) else f'{self._ids[key]}(("{text}"))'


def _escaped(text: str) -> str:
    """The text with all that Mermaid might read as more than text by its number.

    >>> _escaped('a"b')
    'a#34;b'
    """
    return SPECIAL.sub(lambda sign: f"#{ord(sign[0])};", short(text, MOST_TEXT))
