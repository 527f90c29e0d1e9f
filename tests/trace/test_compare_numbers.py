"""Layers that were put in or taken out of a numbered container: those after them are found under their new numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.trace.comparing import Program, compared, given
from torch import Tensor, nn

import insitu
from insitu.trace.diff import Diff
from insitu.trace.event import Call
from insitu.verbs.compare import compare


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln, self.q = nn.LayerNorm(4), nn.Linear(4, 4)
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.mlp(self.q(self.ln(x)))
        return out


class Decoder(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.head(x)
        return out


def recorded(model: nn.Module, **options: Any) -> insitu.Trace:
    options.setdefault("keep", "stats")
    with insitu.record(model, **options) as trace:
        model(torch.linspace(-1, 1, 8).reshape(2, 4))
    return trace


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)]


def blocks(number: int = 4) -> list[nn.Module]:
    torch.manual_seed(1)
    return [Block() for _ in range(number)]


def put_in(into: list[nn.Module], place: int, layer: nn.Module) -> list[nn.Module]:
    return [*into[:place], layer, *into[place:]]


def sequences(layer: nn.Module, **options: Any) -> tuple[insitu.Trace, insitu.Trace]:
    with_it = nn.Sequential(*put_in(layers(), 2, layer))
    return recorded(nn.Sequential(*layers()), **options), recorded(with_it, **options)


def decoders(place: int, **options: Any) -> tuple[insitu.Trace, insitu.Trace]:
    more = Decoder(*put_in(blocks(), place, Block()))
    return recorded(Decoder(*blocks()), **options), recorded(more, **options)


def pairs(diff: Diff) -> set[tuple[str, str]]:
    """The paths that stand side by side and are not the same."""
    both = [(row.a, row.b) for row in diff.differences]
    return {(a.path, b.path) for a, b in both if isinstance(a, Call) and isinstance(b, Call) and a.path != b.path}


def alone(diff: Diff) -> set[tuple[str, str]]:
    """What only one side has: which side, and the path."""
    rows = [(row.status, row.a or row.b) for row in diff.differences if row.status.startswith("only")]
    return {(status, event.path) for status, event in rows if isinstance(event, Call)}


@pytest.mark.parametrize("options", [{}, {"keep": "meta"}, {"keep": torch.clone}, {"level": "modules"}])
def test_a_layer_that_was_put_in(options: dict[str, Any]) -> None:
    diff = compare(*sequences(nn.LayerNorm(4), **options))
    assert diff.remarks == ["only in b: 2 LayerNorm; 2 … 4 of a are 3 … 5 of b"]
    assert alone(diff) == {("only in b", "2")} and pairs(diff) == {("2", "3"), ("3", "4"), ("4", "5")}
    assert len(diff.causes) == 1 and diff.first is not None and diff.first.a is None
    assert isinstance(diff.first.b, Call) and diff.first.b.path == "2"


def test_a_layer_that_was_taken_out() -> None:
    diff = compare(*reversed(sequences(nn.LayerNorm(4))))
    assert diff.remarks == ["only in a: 2 LayerNorm; 3 … 5 of a are 2 … 4 of b"]
    assert alone(diff) == {("only in a", "2")} and diff.first is not None and diff.first.followers == 3
    assert len(diff.causes) == 1 and isinstance(diff.first.a, Call) and diff.first.a.path == "2"


def test_a_layer_without_effect() -> None:
    diff = compare(*sequences(nn.Dropout(0.0)))
    assert diff.first is None and not diff.same and diff.counts == {"same": 5, "only in b": 1}
    assert str(diff).startswith("the results are the same; 1 call is made differently on the way: 6 calls")


@pytest.mark.parametrize("options", [{}, {"keep": torch.clone}, {"level": "aten"}])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_equal_layers_are_known_by_their_weights(place: int, options: dict[str, Any]) -> None:
    diff = compare(*decoders(place, **options))
    (note,) = diff.remarks
    assert note.startswith(f"only in b: layers.{place} Block; layers.{place}")
    assert diff.first is not None and len(diff.causes) == 1 and len(diff.first.calls_b) == 6
    assert {path.split(".")[1] for _, path in alone(diff)} == {str(place)}
    assert (f"layers.{place}.q", f"layers.{place + 1}.q") in pairs(diff)


def test_equal_layers_of_which_nothing_is_known_keep_their_numbers() -> None:
    diff = compare(*decoders(1, keep="meta"))
    assert not pairs(diff) and {path.split(".")[1] for _, path in alone(diff)} == {"4"}


def test_layers_with_other_weights_keep_their_numbers() -> None:
    diff = compare(recorded(Decoder(*blocks())), recorded(Decoder(*blocks(9)[4:])))
    assert not pairs(diff) and not diff.remarks and diff.first is not None and diff.first.why.startswith("weight ")


def test_a_layer_in_the_place_of_another_has_its_number() -> None:
    other = layers()
    other[1] = nn.GELU()
    diff = compare(recorded(nn.Sequential(*layers())), recorded(nn.Sequential(*other), level="functions"))
    assert not diff.remarks and not pairs(diff)


def test_a_container_in_a_layer_that_has_another_number() -> None:
    other = blocks()
    last = other[3]
    assert isinstance(last, Block)
    last.mlp.insert(1, nn.LayerNorm(8))
    diff = compare(recorded(Decoder(*blocks())), recorded(Decoder(*put_in(other, 1, Block()))))
    assert diff.remarks == [
        "only in b: layers.1 Block; layers.1 … layers.3 of a are layers.2 … layers.4 of b",
        "only in b: layers.4.mlp.1 LayerNorm; layers.3.mlp.1 … layers.3.mlp.2 of a are "
        "layers.4.mlp.2 … layers.4.mlp.3 of b",
    ]
    assert ("layers.3.mlp.2", "layers.4.mlp.3") in pairs(diff)


def test_containers_that_all_have_one_more() -> None:
    other = blocks(5)
    for block in other:
        assert isinstance(block, Block)
        block.mlp.insert(1, nn.LayerNorm(8))
    diff = compare(recorded(Decoder(*blocks(5)), keep="meta"), recorded(Decoder(*other), keep="meta"))
    assert diff.remarks[0] == "only in b: layers.0.mlp.1 LayerNorm; layers.0.mlp.1 … layers.0.mlp.2 of a are " + (
        "layers.0.mlp.2 … layers.0.mlp.3 of b"
    )
    assert diff.remarks[3:] == ["other layers in 2 more containers"]


def test_rename_has_the_last_word() -> None:
    a, b = sequences(nn.LayerNorm(4))
    by_hand = compare(a, b, rename={"2": "3", "3": "4", "4": "5"})
    assert not by_hand.remarks and by_hand.counts == compare(a, b).counts
    assert not pairs(compare(a, b, rename={"*": "*"})) and not compare(a, b, rename={"*": "*"}).remarks
    assert not compare(*decoders(1), rename={"layers.1.q": "layers.1.q"}).remarks


def test_rename_of_the_container_alone_leaves_the_numbers_open() -> None:
    a, b = decoders(1)
    for event in b.events:
        if isinstance(event, Call) and event.module is not None:
            event.module.path = event.module.path.replace("layers", "h")
    (note,) = compare(a, b, rename={"layers": "h"}).remarks
    assert note == "only in b: h.1 Block; layers.1 … layers.3 of a are h.2 … h.4 of b"


def test_a_part_of_the_layers_keeps_its_numbers() -> None:
    def run(*numbers: int) -> Program:
        program, x = Program(), given(0.0)
        for number in numbers:
            with program.inside(program.module(f"h.{number}", "Block", x)):
                x = program.made("linear", x, value=float(number))
        return program

    diff = compared(run(0, 1, 2, 3), run(2, 3))
    assert not diff.remarks and not pairs(diff) and alone(diff) == {("only in a", "h.0"), ("only in a", "h.1")}
