"""Strategies that write programs: their source, as somebody might have written it on a bad day."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from tests.hostile import grammar
from tests.hostile.cast import KINDS

MOST_DEEP = 3
WORD = re.compile(r"\{(\w+)(?:!r)?\}")
Draw = st.DrawFn


@dataclass(frozen=True)
class Place:
    """Where statements stand: in what kind of function, how deep, and what can be called there."""

    kind: str = "plain"
    depth: int = 0
    net: tuple[str, ...] = ("world.spare",)
    child: tuple[str, ...] = ("world.spare",)
    function: tuple[str, ...] = ("twice",)
    generator: tuple[str, ...] = ("twos",)
    coroutine: tuple[str, ...] = ("sleepy",)

    def deeper(self, kind: str | None = None) -> Place:
        """A block inside."""
        return replace(self, depth=self.depth + 1, kind=kind or self.kind)


def filled(draw: Draw, text: str, place: Place) -> str:
    """A template with something in the place of each word in braces; the two variables are the same all over it."""
    v, w = draw(st.sampled_from([("x", "y"), ("y", "x")]))

    def one(match: re.Match[str]) -> str:
        word = match[1]
        if word in ("v", "w"):
            return v if word == "v" else w
        if word == "kind":
            return repr(draw(st.sampled_from(KINDS)))
        if word in ("net", "child", "function", "generator", "coroutine"):
            return draw(st.sampled_from(getattr(place, word)))
        return WORD.sub(one, draw(st.sampled_from(grammar.FILLS[word])))

    return WORD.sub(one, text)


def statement(draw: Draw, place: Place) -> list[str]:
    """The lines of one statement, with those that are nested in it."""
    simple = grammar.SIMPLE
    simple = simple + 4 * grammar.YIELDING if place.kind == "generator" else simple
    simple = simple + 4 * grammar.AWAITING if place.kind == "coroutine" else simple
    if place.depth >= MOST_DEEP or draw(st.integers(0, 3)) != 3:
        return filled(draw, draw(st.sampled_from(simple)), place).split("\n")
    lines: list[str] = []
    v, w = draw(st.sampled_from([("x", "y"), ("y", "x")]))
    for line in draw(st.sampled_from(grammar.NESTING)).replace("{v}", v).replace("{w}", w).split("\n"):
        word = line.strip()
        if word in ("{body}", "{plain}"):
            inner = place.deeper("plain" if word == "{plain}" else None)
            lines += indented(block(draw, inner))
        else:
            lines.append(filled(draw, line, place))
    return lines


def block(draw: Draw, place: Place) -> list[str]:
    """Some statements."""
    return [line for _ in range(draw(st.integers(1, 4 - place.depth))) for line in statement(draw, place)]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def net(draw: Draw, number: int, place: Place) -> list[str]:
    """A class of modules."""
    children = draw(st.lists(st.sampled_from([*grammar.CHILDREN, *place.net[1:]]), min_size=1, max_size=3))
    made = [f"self.part{i} = {child}" + ("()" if child.startswith("Net") else "") for i, child in enumerate(children)]
    names = tuple(f"self.part{i}" for i in range(len(children)))
    nets = tuple(name for name, child in zip(names, children, strict=True) if child.startswith("Net"))
    manner = draw(st.sampled_from(grammar.MANNERS)) if draw(st.integers(0, 3)) == 3 else "pass"
    inside = replace(place, kind="plain", net=nets or ("world.spare",), child=names)
    return [
        f"class Net{number}(nn.Module):",
        *indented(manner.split("\n")),
        "    def __init__(self):",
        "        super().__init__()",
        *indented(indented(made)),
        "    def forward(self, x, y=None, *more, **named):",
        "        x, y = fit(x), fit(y)",
        *indented(indented(block(draw, inside))),
        f"        return pack({draw(st.sampled_from(KINDS))!r}, x, y)",
    ]


def function(draw: Draw, name: str, place: Place) -> list[str]:
    """A function, a generator or a coroutine."""
    head = "async def" if place.kind == "coroutine" else "def"
    last = ["yield x"] if place.kind == "generator" else []
    body = [*block(draw, place), *last, "return x"]
    return [f"{head} {name}(x, y=None):", "    x, y = fit(x), fit(y)", *indented(body)]


@st.composite
def programs(draw: Draw) -> str:
    """The source of a program: classes, functions, `build` and `main`."""
    place, lines = Place(), grammar.HEAD.strip().split("\n")
    for kind in draw(st.lists(st.sampled_from(["plain", "generator", "coroutine"]), max_size=3)):
        name = f"{kind}{len(lines)}"
        lines += function(draw, name, replace(place, kind=kind))
        known = "function" if kind == "plain" else kind
        place = replace(place, **{known: (*getattr(place, known), name)})
    for number in range(draw(st.integers(1, 3))):
        lines += net(draw, number, place)
        place = replace(place, net=(*place.net, f"Net{number}"))
    lines += ["def build():", f"    return Net{number}()"]
    main = replace(place, net=("model", "model", "world.spare"), child=("model", "model.part0"))
    calls = [
        f"x = fit(model(x, pack({draw(st.sampled_from(KINDS))!r}, x, y)))",
        "x.requires_grad and x.sum().backward()",
    ]
    body = [*block(draw, main), *calls, *block(draw, main)]
    lines += ["def main(model, x):", "    y = x.sin()", *indented(body), "    return x"]
    return textwrap.dedent("\n".join(lines)) + "\n"
