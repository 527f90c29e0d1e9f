"""Boxes in nested frames, as the languages of Graphviz and Mermaid write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

Place = tuple[str, ...]  # the frames around a box, the outermost first


class Frames:
    """Boxes in the frames of the modules around them, each a line of text.

    >>> frames = Frames()
    >>> frames.add(["h", "h.0"], "box")
    >>> print(*frames.lines(lambda path, indent: [f"{indent}frame {path}"], "end"), sep=chr(10))
      frame h
        frame h.0
          box
        end
      end
    """

    def __init__(self) -> None:
        self._boxes: dict[Place, list[str]] = {}
        self._inside: dict[Place, dict[Place, None]] = {}

    def add(self, around: Sequence[str], box: str) -> None:
        """Put a box into the innermost of these frames."""
        place: Place = ()
        for frame in around:
            inner = (*place, frame)
            self._inside.setdefault(place, {})[inner] = None
            place = inner
        self._boxes.setdefault(place, []).append(box)

    def lines(self, opening: Callable[[str, str], Iterable[str]], closing: str, indent: str = "  ") -> Iterator[str]:
        """The lines; `opening` gets the frame and its indent. A stack, because models nest deeper than Python."""
        waiting: list[tuple[Place | None, str]] = [((), indent)]
        while waiting:
            place, indent = waiting.pop()
            if place is None:
                yield indent + closing
                continue
            inner = indent
            if place:
                inner = indent + "  "
                yield from opening(place[-1], indent)
                waiting.append((None, indent))
            yield from (inner + box for box in self._boxes.get(place, ()))
            waiting += [(deeper, inner) for deeper in reversed(self._inside.get(place, {}))]
