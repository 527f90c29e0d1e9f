"""The functions that take labels or indices which count from zero: which argument they are, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Limit = Literal["classes", "rows", "num_classes"]


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """An argument of a function: its position and its name."""

    position: int
    name: str


@dataclass(frozen=True, slots=True)
class IndexUse:
    """How a function takes indices.

    `table` is the argument that limits them: by its second dimension ("classes"), by its first ("rows"), or as a number
    ("num_classes"). `ignored` is the keyword argument with the label that the function leaves out.
    """

    indices: ArgumentPlace
    table: ArgumentPlace
    limit: Limit
    ignored: str = ""


LOSS = IndexUse(ArgumentPlace(1, "target"), ArgumentPlace(0, "input"), "classes", "ignore_index")
LOOKUP = IndexUse(ArgumentPlace(0, "input"), ArgumentPlace(1, "weight"), "rows")

INDEX_USES: dict[str, IndexUse] = {
    "torch.nn.functional.cross_entropy": LOSS,
    "torch.nn.functional.nll_loss": LOSS,
    "torch.nn.functional.embedding": LOOKUP,
    "torch.nn.functional.embedding_bag": LOOKUP,
    "torch.nn.functional.one_hot": IndexUse(ArgumentPlace(0, "input"), ArgumentPlace(1, "num_classes"), "num_classes"),
}
