"""The tree in terminals of every width: NaN, names, shapes and sources stay, one long cell costs nobody a column."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tests.view.build import Run, linear, site, stats, tensor

from insitu.trace.event import Site
from insitu.trace.order import completion_order
from insitu.view import Terminal, make, render
from insitu.view.terminal import places_of

WIDTHS = (20, 40, 60, 80, 100, 120, 160, 200)
ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
BERT = "/venv/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py"


def encoder(*, nan: int = 0, depth: int = 12) -> Run:
    """A model like those of transformers: one name and one output are far longer than all others."""
    run, x = Run(), tensor(2, 12, 64, stats=stats(-3.03, 2.99))
    place, inner = Site("/me/train.py", 124, "main"), Site(BERT, 175, "BertLayer.forward")
    many = {"last_hidden_state": x, "pooler_output": tensor(2, 64), "hidden_states": (x,) * 20}
    with run.inside(run.module("", "BertModel", x, leaf=False, out=many, site=place, duration=5_300_000)):
        for number in range(depth):
            linear(run, f"layer{number}", 64, 64, x, site=inner, duration=185_000, stats=stats(-0.569, 0.645))
            run.call("function", "torch.Tensor.transpose", x, 1, 2, out=x, site=inner, duration=14_600)
        bad = tensor(2, 12, 64, id=7, stats=stats(-0.3, 0.277, nan=nan))
        flags = {"attn_mask": tensor(2, 1, 12, 12, dtype="b8"), "dropout_p": 0.0, "is_causal": False, "scale": 0.25}
        run.call("function", ATTENTION, x, x, x, kwargs=flags, out=bad, site=inner, duration=179_000)
    return run


def rows(run: Run, width: int, **options: Any) -> list[str]:
    return render(run.trace, width=width, **options).splitlines()


def row(found: list[str], word: str) -> str:
    return next(each for each in found if word in each)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    for run in (encoder(), encoder(nan=48)):
        table = [each for each in rows(run, width) if "first NaN" not in each and "calls ·" not in each]
        assert max(map(places_of, table)) <= width and len(table) == 26
        assert not any(each.endswith(" ") for each in table)


@pytest.mark.parametrize("width", WIDTHS)
def test_nan_is_seen_at_every_width(width: int) -> None:
    found = rows(encoder(nan=48), width)
    assert sum("✗ 48 NaN" in each for each in found) == 1
    reason = "a row is masked completely, or a score overflows"
    assert found[-2] == f"first NaN: F.scaled_dot_product_attention (transformers/…/modeling_bert.py:175): {reason}"
    assert found[-1].endswith("48 NaN in 1 call")


@pytest.mark.parametrize("width", [80, 120])
def test_inf_is_seen_and_a_mask_is_not_a_fault(width: int) -> None:
    run, x, net = Run(), tensor(2, stats=stats(0, 1)), Run().module("net", "Net", leaf=False).module
    run.call("function", "torch.Tensor.masked_fill", x, float("-inf"), out=tensor(2, id=1, stats=stats(0, 1, inf=2)))
    large = tensor(2, id=2, stats=stats(0, 100), requires_grad=True)
    out = tensor(2, id=3, stats=stats(0, 1, inf=3), requires_grad=True)
    run.call("function", "torch.exp", large, out=out, module=net, site=site("y = x.exp()", 7, "f"))
    found = rows(run, width)
    assert "✗" not in found[0] and "0 … 1, 2 Inf" in found[0]
    assert "f32[2]  ✗ 3 Inf" in found[1]
    assert found[2].startswith("first Inf: net torch.exp (model.py:7): overflow: f32 ends at 3.4028e+38")


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_one_long_cell_costs_no_row_its_columns(width: int) -> None:
    found = rows(encoder(), width)
    typical = row(found, "layer3")
    assert "layer3  Linear(64 → 64)" in typical and "f32[2, 12, 64]" in typical and "185µs" in typical
    assert typical.endswith("/modeling_bert.py:175")
    assert ("-0.569 … 0.645" in typical) == (width >= 120)
    assert found[0].endswith("train.py:124")


@pytest.mark.parametrize("width", [80, 120])
def test_of_a_long_name_the_arguments_are_shortened_first(width: int) -> None:
    assert "└─ F.scaled_dot" in row(rows(encoder(), width), "scaled")
    assert "attention(…)  " in row(rows(encoder(), width), "scaled")


@pytest.mark.parametrize("width", [80, 120])
def test_outputs_of_many_tensors_are_shortened(width: int) -> None:
    assert "  last_hidden_s" in rows(encoder(), width)[0] and "…  " in rows(encoder(), width)[0]
    assert "last_hidden_state: f32[2, 12, 64], … 2 more" in render(encoder().trace)
    run = Run()
    run.call("function", "torch.chunk", tensor(9), out=tuple(tensor(number) for number in range(20)))
    assert render(run.trace) == "torch.chunk  f32[0], f32[1], f32[2], f32[3], f32[4], f32[5], … 14 more"


@pytest.mark.parametrize("width", [40, 50, 60])
def test_names_shapes_and_sources_stay_in_narrow_terminals(width: int) -> None:
    found = row(rows(encoder(), width), "layer3")
    assert "layer3" in found and "f32[2, 12," in found and found.endswith(".py:175")


def test_a_part_of_a_number_is_never_shown() -> None:
    run = Run()
    run.call("function", "torch.f", out=tensor(1234, 5678, 9012, 3456), site=site("f()", 7, "f"))
    for width in range(24, 48):
        shown = rows(run, width)[0].partition("f32[")[2].partition("…")[0]
        sizes = shown.partition("]")[0].replace(",", " ").split()
        assert sizes == ["1234", "5678", "9012", "3456"][: len(sizes)], width


def test_a_deep_call_shows_its_name_in_a_narrow_terminal() -> None:
    run, x = Run(), tensor(2)
    for depth in range(60):
        run._open.append(run.module(".".join("a" * (depth + 1)), "Nest", x, leaf=False, out=x))
    last = rows(run, 80)[59]
    assert "└─ a  Nest" in last and last.startswith("…") and last.endswith("f32[2]") and len(last) <= 80


@pytest.mark.parametrize("width", [20, 80, 120])
def test_ascii_streams_get_the_same_columns(width: int) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    view = make("tree", live=False)
    for event in completion_order(encoder(nan=48).events):
        list(view(event))
    Terminal(file, width=width).write(view.finish())
    file.flush()
    found = raw.getvalue().decode("ascii").splitlines()
    assert max(map(len, found[:-2])) <= width and sum("! 48 NaN" in each for each in found) == 1
    assert found[-2].startswith("first NaN: F.scaled_dot_product_attention (transformers/.../modeling_bert.py:175)")


def test_live_rows_line_up_with_those_before() -> None:
    file = io.StringIO()
    terminal, view = Terminal(file, width=80), make("tree")
    run, x = Run(), tensor(2, 12, 64)
    for number in range(30):
        name = "torch.f" if number != 20 else f"torch.{'g' * 100}"
        run.call("function", name, x, out=x, duration=14_600, site=site("f(x)", 3, "f"))
    for event in completion_order(run.events):
        terminal.write(view(event))
    found = file.getvalue().splitlines()
    ends = [each.index("f32[") for each in found]
    assert ends == sorted(ends) and all(each.endswith("14.6µs  model.py:3") for each in found)


# Inputs.


def layers() -> Run:
    run, x = Run(), tensor(2, 24, 96)
    with run.inside(run.module("", "Net", x, leaf=False, out=x, duration=9_000_000)):
        linear(run, "fc", 96, 288, x)
        run.module("act", "ReLU", tensor(2, 24, 288), out=tensor(2, 24, 288))
        run.call("function", "torch.Tensor.__add__", tensor(2, 24, 96), tensor(96), operator="+", out=x)
        run.call("function", "torch.matmul", x, kwargs={"other": x}, raised="RuntimeError")
    return run


def test_inputs_are_shown_where_the_terminal_has_room_and_they_say_something() -> None:
    for width in (90, 120):
        assert inputs(rows(layers(), width)) == ["", "f32[2, 24, 96]", "", "f32[2, 24, 96], f32[96]"]
    assert inputs(rows(layers(), 60)) == [""] * 4


def inputs(found: list[str]) -> list[str]:
    """The inputs of the calls that did not raise."""
    return [each.partition("← ")[2].split("  ")[0] for each in found if "raised" not in each]


def test_inputs_cost_no_other_column_its_place() -> None:
    narrow = rows(encoder(), 120)
    assert not any("←" in each for each in narrow) and all("185µs" in each for each in narrow if "layer" in each)


def test_inputs_on_request_are_those_of_each_call() -> None:
    for width in (80, 120):
        found = inputs(rows(layers(), width, inputs=True))
        assert found[:3] == ["f32[2, 24, 96]", "f32[2, 24, 96]", "f32[2, 24, 288]"]
        assert found[3].startswith("f32[2, 24, 96], f32[")
    assert "← f32[2, 24, 288]" in render(layers().trace, inputs=True)


def test_files_have_no_column_of_inputs_unless_it_is_asked_for() -> None:
    assert render(layers().trace).count("←") == 1  # of the call that raised
    assert "←" not in "".join(rows(layers(), 200, inputs=False)[:4])
