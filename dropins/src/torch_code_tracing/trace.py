"""One operator of a trace: what ran, and the lines of source that led to it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from dis import Positions
from functools import cached_property

from insitu import Call, Site
from insitu.view import make


@dataclass(eq=False)
class Trace:
    """One operator. `call` has everything that insitu knows of it.

    >>> from insitu import TensorFacts
    >>> x = TensorFacts(0, (2, 3), "f32", "cpu")
    >>> Trace(Call(0, None, "aten", "aten.t", args=(x,), result=x))
    <Trace t(f32[2, 3]) -> f32[2, 3]>
    """

    call: Call

    @cached_property
    def op_str(self) -> str:
        """The operator with its arguments and its result: `mul.Tensor(f32[2], 2) -> f32[2]`."""
        (line,) = make("code", native=False)(replace(self.call, site=None))
        return str(line).removeprefix("# ")

    @cached_property
    def stack(self) -> list[inspect.FrameInfo]:
        """The places in the source, the outermost first; their `frame` is None: no frame is kept alive."""
        if self.call.site is not None:
            return [frame_info(site) for site in self.call.site.chain()]
        return []

    def __repr__(self) -> str:
        return f"<Trace {self.op_str}>"


def frame_info(site: Site) -> inspect.FrameInfo:
    """A place in the source in the form that `inspect.stack` has; columns are counted in bytes there.

    >>> info = frame_info(Site("model.py", 3, "Model.forward", "    é = x.t()", 8, 13))
    >>> info.function, info.code_context, info.positions
    ('forward', ['    é = x.t()\\n'], Positions(lineno=3, end_lineno=3, col_offset=9, end_col_offset=14))
    """
    positions = Positions(site.line, None, None, None)
    if site.start is not None and site.end is not None:
        start, end = (len(site.text[:column].encode()) for column in (site.start, site.end))
        positions = Positions(site.line, site.line, start, end)
    context, index = ([site.text + "\n"], 0) if site.text else (None, None)
    name = site.function.rpartition(".")[2]
    return inspect.FrameInfo(None, site.file, site.line, name, context, index, positions=positions)  # type: ignore[arg-type]
