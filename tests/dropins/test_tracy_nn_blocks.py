"""The view of Tracy NN prints the blocks of seed 000."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.view.build import Run, linear, site, tensor

from insitu.trace.event import Fields, Opaque, Word
from insitu.view import render
from tracy_nn.blocks import Blocks

EXPECTED = Path(__file__).parent / "expected"


def mha() -> Run:
    """The run of which the seed shows the blocks."""
    run, x = Run(), tensor(10, 20, 6)
    forward = site("self.mha(x)", 40, "MHA.forward")
    split, attend, combine = (
        site("...", line, f"test.<locals>.MHA.{name}", forward)
        for line, name in ((9, "split_heads"), (15, "calculate_attention"), (22, "combine_heads"))
    )
    heads, joined = tensor(10, 3, 20, 2), tensor(10, 20, 3, 2)
    with run.inside(run.module("", "MHA", x, leaf=False, out=x)):
        for name in ("query_weights", "key_weights", "value_weights"):
            linear(run, name, 6, 6, x, site=forward)
        run.call("function", "torch.Tensor.view", x, 10, 20, 3, 2, out=joined, site=split)
        left = tensor(10, 3, 20, 20)
        run.call("function", "torch.Tensor.__matmul__", left, heads, operator="@", out=heads, site=attend)
        view = run.call("function", "torch.Tensor.transpose", heads, 1, 2, out=joined, site=combine)
        with run.inside(view):
            run.call("aten", "aten.transpose.int", heads, 1, 2, out=joined, site=combine)
        run.call("function", "torch.Tensor.view", joined, 10, 20, 6, out=x, site=combine)
        linear(run, "out_projection", 6, 6, x, site=forward)
    return run


def test_the_seed_to_the_letter() -> None:
    assert render(mha().trace, Blocks("MHA")) == (EXPECTED / "tracy_nn_blocks.txt").read_text().rstrip("\n")


def one(name: str, *args: Any, **more: Any) -> list[str]:
    """The block of one function call, without the line after it."""
    run = Run()
    run.call("function", name, *args, **more)
    lines = render(run.trace, Blocks()).split("\n")
    assert lines.pop() == "  │"
    return lines


def test_functional_leaves_out_what_torch_adds() -> None:
    kwargs = {"dim": -1, "_stacklevel": 3, "dtype": None}
    assert one("torch.nn.functional.softmax", tensor(2, 3), kwargs=kwargs, out=tensor(2, 3)) == [
        "  ● F.softmax(dim=-1)",
        "  ├─ Input: Tensor [2, 3] @ cpu",
        "  └─ Output: Tensor [2, 3] @ cpu",
    ]


def test_cat_shows_its_list() -> None:
    assert one("torch.cat", [tensor(2, 3), tensor(2, 3)], kwargs={"dim": 1}, out=tensor(2, 6, device="cuda:0")) == [
        "  ● torch.cat(dim=1)",
        "  ├─ Input: [Tensor [2, 3] @ cpu, Tensor [2, 3] @ cpu]",
        "  └─ Output: Tensor [2, 6] @ cuda:0",
    ]


def test_operands_are_in_the_order_of_the_source() -> None:
    assert one("torch.Tensor.__rsub__", tensor(2), 1, operator="-", out=tensor(2)) == [
        "  ● Tensor.-",
        "  ├─ Left: 1",
        "  ├─ Right: Tensor [2] @ cpu",
        "  └─ Output: Tensor [2] @ cpu",
    ]


def test_indexing_and_factories_and_tensor_arguments() -> None:
    index = one("torch.Tensor.__getitem__", tensor(2, 3), (Word(":"), 0), operator="[]", out=tensor(2))
    assert index[:2] == ["  ● Tensor.[]", "  ├─ Input: Tensor [2, 3] @ cpu"]
    assert one("torch.zeros", 2, 3, out=tensor(2, 3)) == ["  ● torch.zeros(2, 3)", "  └─ Output: Tensor [2, 3] @ cpu"]
    filled = one("torch.Tensor.masked_fill", tensor(2), tensor(2, dtype="b8"), float("-inf"), out=tensor(2))
    assert filled[0] == "  ● Tensor.masked_fill(Tensor [2] @ cpu, -inf)"


def test_results_of_every_kind() -> None:
    result = Fields("Out", {"a": tensor(2), "b": [None, Opaque("Cache")]})
    assert one("torch.f", tensor(2), out=result)[-1] == "  └─ Output: {a: Tensor [2] @ cpu, b: [None, Cache]}"
    assert one("torch.f", tensor(2), out=None, raised="RuntimeError")[-1] == "  └─ Raised: RuntimeError"


def test_functions_of_a_users_leaf_module_are_shown_and_those_of_torchs_are_not() -> None:
    run, x = Run(), tensor(2, 3)
    outer = site("self.norm(x)", 4, "Model.forward")
    with run.inside(run.module("norm", "MyNorm", x, out=x, site=outer)):
        run.call("function", "torch.Tensor.mean", x, -1, out=x, site=site("x.mean(-1)", 9, "MyNorm.forward", outer))
    with run.inside(run.module("ln", "LayerNorm", x, out=x, site=outer)):
        run.call("function", "torch.nn.functional.layer_norm", x, out=x, site=outer)
    text = render(run.trace, Blocks())
    assert "Tensor.mean(-1) @ [MyNorm.forward]" in text
    assert "layer_norm" not in text


def test_heading_comes_once_with_or_without_begin() -> None:
    run = mha()
    begun, plain = Blocks("A"), Blocks("A")
    assert [str(line) for line in begun.begin()] == ["  ● TRACING A STARTED", "  │"]
    assert list(begun.begin()) == []
    first = next(event for event in run.events if event.id == 1)
    assert next(str(line) for line in plain(first)) == "  ● TRACING A STARTED"
    assert [str(line) for line in plain.finish()] == ["  ● TRACING A COMPLETE"]


def test_hostile_names_stay_on_one_line() -> None:
    run = Run()
    run.module("a\nb\x1b[31m", "Evil\r", tensor(2), out="x\ny")
    run.mark("trouble", "line\nline")
    lines = render(run.trace, Blocks()).split("\n")
    assert len(lines) == 6
    assert "\x1b" not in "".join(lines) and "\r" not in "".join(lines)


def test_of_many_items_the_first_are_shown() -> None:
    run = Run()
    run.call("function", "torch.f", out={f"k{n}": tensor(2) for n in range(5000)})
    (output,) = (line for line in render(run.trace, Blocks()).splitlines() if "Output" in line)
    assert output.count("Tensor [2]") == 32 and output.endswith(", …}")


def test_a_watched_function_and_its_variables_have_no_block() -> None:
    run, x = Run(), tensor(2)
    with run.inside(run.python("f", duration=4_000_000, raised="ValueError")):
        run.variable("x", x, "new")
        run.call("function", "torch.relu", tensor(3, type="ndarray"), out=x)
    assert [line for line in render(run.trace, Blocks()).split("\n") if "●" in line] == ["  ● torch.relu"]


def test_the_deepest_models_and_the_largest_numbers_have_a_block() -> None:
    run, x = Run(), tensor(2)
    for depth in range(2000):
        run._open.append(run.module(".".join("a" * depth), "Nest", x, leaf=depth == 1999, out=x))
    assert "(Nest)" in render(run.trace, Blocks())
    run = Run()
    run.call("function", "torch.f", {10**5000: tensor(2)}, out={10**5000: tensor(2)})
    assert "<int of 16610 bits>" in render(run.trace, Blocks())
