"""What a guard found, as plain data; view/finding.py turns it into text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from insitu.trace.event import Call, Phase, Site, TensorFacts

FindingKind = Literal["nan", "inf", "given", "update", "none", "vanishing", "exploding", "unchanged", "accumulated"]


@dataclass(slots=True, eq=False)
class Operand:
    """A tensor that went into a call: facts, with statistics where it could be read; its name; who made it.

    `source` is the call that computed its numbers, behind calls that only move them (indexing, reshaping, `1 - x`).
    """

    facts: TensorFacts
    name: str = ""
    made: Call | None = None
    source: Call | None = None


@dataclass(slots=True, eq=False)
class Finding:
    """One thing that a guard found, at one place of the program.

    `kind` is "nan" or "inf" for a call that produced it, in the `phase` "forward" or "backward"; "given" for NaN or Inf
    that was there before, or was written down and has reached the loss; "update" for what an optimizer wrote into a
    parameter. About training: "none" (parameters that never got a gradient), "vanishing", "exploding", "unchanged"
    (weights), "accumulated" (gradients that were not set to zero). `call` is the call at fault; in a backward pass it
    is the forward call whose gradient the autograd `node` computed, for "none" the call that cuts the graph, if it is
    known. `site` is its line, `path` its module, or a parameter. `output` is the result, with statistics, and `index`
    its first bad element. `times` is how often it was found at this place, and `text` says it all in words.

    `details` holds more names and numbers: `finite` (all inputs were finite), `positive` (an input contained +inf),
    `entered` (the incoming gradient was not finite), `follows` (the forward call was not finite already), `entry` (the
    call introduced a number that is not finite), `hook` (the name of a hook on the gradient of `call`, or of the
    parameter `path`), `reached` ("nan", "model", "loss", "gradient", "number" or "unused": why a number that might have
    healed is reported) and `user` (the call that shows it), `metric` (it did not reach the training).

    >>> Finding("nan", path="head").kind
    'nan'
    """

    kind: FindingKind
    phase: Phase = "forward"
    path: str = ""
    call: Call | None = None
    site: Site | None = None
    output: TensorFacts | None = None
    index: tuple[int, ...] | None = None
    operands: tuple[Operand, ...] = ()
    node: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    times: int = 1
    text: str = ""

    def __repr__(self) -> str:
        where = f" at {self.site.file}:{self.site.line}" if self.site is not None else ""
        return f"<Finding {self.kind} {self.path or (self.call.name if self.call else '')}{where}>"
