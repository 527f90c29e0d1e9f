"""The table and the texts of values."""

from __future__ import annotations

from tests.view.build import Run, linear, tensor

from insitu.trace.costs import size
from insitu.trace.event import Opaque
from insitu.view import render
from insitu.view.value import safe, value_text

TABLE = """\
module   type           parameters  output       time    own  share  calls  memory
(root)   Net                    30  f32[2, 6]   3.0ms  1.0ms  75.0%      2    96 B
  fc.0   Linear(4 → 6)          30  f32[2, 6]   2.0ms  2.0ms  50.0%      2    96 B
    act  ReLU                       bf16[2, 6]                           2    48 B
total    3 modules              30              4.0ms                    6    48 B"""


def test_the_table() -> None:
    run, x = Run(), tensor(2, 4)
    for run.step in range(2):
        with run.inside(run.module("", "Net", x, leaf=False, out=tensor(2, 6), duration=1_500_000, parameters=30)):
            fc = linear(run, "fc.0", 4, 6, x, duration=1_000_000, parameters=30)
            with run.inside(fc):
                run.module("fc.0.act", "ReLU", x, out=tensor(2, 6, dtype="bf16"))
        run.call("function", "torch.Tensor.sum", x, duration=500_000)
    assert render(run.trace, "table") == TABLE


MODELS = """\
module    type           parameters  output     calls  memory
(root)    Net                    30  f32[2, 6]      1    48 B
  Linear  Linear(4 → 6)          30  f32[2, 6]      1    48 B
  Head    Stack                   7  f32[2, 6]      1    48 B
Net       Net                     5  f32[2, 6]      2    96 B
  fc      Linear(4 → 6)           5  f32[2, 6]      2    96 B
Net#2     Net                     2  f32[2, 6]      1    48 B
total     6 modules              37                 8    48 B"""


def test_each_of_several_models_is_an_outermost_row() -> None:
    run, x, y = Run(), tensor(2, 4), tensor(2, 6)
    whole = run.module("", "Net", x, leaf=False, out=y, parameters=30)
    with run.inside(whole), run.inside(run.call("function", "torch.utils.checkpoint", x)):
        linear(run, "Linear", 4, 6, x, parameters=30)  # made while it runs
    run.module("Head", "Stack", x, leaf=False, out=y, parameters=7)  # a part of the first, called alone
    for _ in range(2):
        with run.inside(run.python("train")), run.inside(run.module("Net", "Net", x, leaf=False, out=y, parameters=5)):
            linear(run, "Net.fc", 4, 6, x, parameters=5)
    run.module("Net#2", "Net", x, out=y, parameters=2)
    assert render(run.trace, "table") == MODELS


WITH_BACKWARD = """\
module  type           parameters  output      time    own  backward   share  calls  memory  flops
(root)  Net                    30  f32[2, 6]  9.0ms  4.0ms     3.0ms  100.0%      1    48 B     96
  fc    Linear(4 → 6)          30  f32[2, 6]  5.0ms  5.0ms     2.0ms   55.6%      1    48 B     96
total   2 modules              30             9.0ms            3.0ms              2    48 B     96"""


def test_backward_times_and_flops_are_columns() -> None:
    run, x = Run(), tensor(2, 4)
    with run.inside(run.module("", "Net", x, leaf=False, out=tensor(2, 6), duration=9_000_000, parameters=30)) as net:
        fc = linear(run, "fc", 4, 6, x, duration=5_000_000, parameters=30)
        with run.inside(fc), run.inside(run.call("function", "torch.nn.functional.linear", x, duration=4_000_000)) as f:
            run.call("aten", "aten.mm", x, duration=1_000_000, flops=96)
        f.flops = 96  # the function and its operator are the same work
        relu = run.call("function", "torch.relu", x, duration=500_000)
    for call, duration in ((f, 1_500_000), (f, 500_000), (relu, 1_000_000)):
        backward = {"phase": "backward", "forward": call.id, "module": call.module}
        run.call("aten", "aten.mm", x, duration=duration, flops=96, **backward).parent = net.id
    run.events[-1].parent = run.events[-2].parent = run.events[-3].parent = 999  # in a call that is not recorded
    assert render(run.trace, "table") == WITH_BACKWARD


def with_a_backward_pass() -> Run:
    run, x = Run(), tensor(2, 4)
    with run.inside(run.module("", "Net", x, leaf=False, out=tensor(2, 6), duration=9_000_000, parameters=60)):
        calls = []
        for path in ("body", "head"):
            with run.inside(linear(run, path, 4, 6, x, duration=3_000_000, parameters=30)):
                calls.append(run.call("aten", "aten.mm", x, duration=1_000_000, flops=96))
    with run.inside(run.call("function", "torch.Tensor.backward", x, duration=6_000_000)):
        for call in calls:
            backward = {"phase": "backward", "forward": call.id, "module": call.module}
            run.call("aten", "aten.mm", x, duration=2_000_000, flops=96, **backward)
    return run


PART = """\
module  type            parameters  output       time    own  backward  share  calls  memory  flops
(root)  Net                     60  f32[2, 6]   9.0ms  3.0ms     4.0ms  60.0%      1    48 B    192
  head  Linear(4 → 6)           30  f32[2, 6]   3.0ms  3.0ms     2.0ms  20.0%      1    48 B     96
total   2 of 3 modules          60             15.0ms            4.0ms             3    48 B    192"""


def test_a_part_of_the_table_has_the_numbers_of_the_whole() -> None:
    trace = with_a_backward_pass().trace
    assert render(trace, "table", only="head") == PART
    whole, part = render(trace, "table").splitlines(), PART.splitlines()
    assert [line.split() for line in part[1:3]] == [whole[1].split(), whole[3].split()]


def test_a_part_of_a_tree_has_the_costs_of_the_whole() -> None:
    trace = with_a_backward_pass().trace
    whole = render(trace, costs=True, backward=True).splitlines()
    part = render(trace, only="head", costs=True, backward=True).splitlines()
    assert part[1].split() == whole[1].split() and "192" in part[1] and "4.0ms" in part[1]
    assert any(line.split()[1:] == part[2].split()[1:] for line in whole)


def test_a_trace_without_a_backward_pass_says_what_to_record() -> None:
    run = Run()
    run.call("function", "torch.relu", out=tensor(2))
    assert render(run.trace, backward=True).splitlines()[-1] == (
        'no backward pass was recorded: use level="aten", and call loss.backward() inside the block'
    )
    assert "no backward pass" not in render(with_a_backward_pass().trace, backward=True) + render(run.trace, costs=True)


def test_a_part_of_two_models_has_the_backward_pass_of_its_own() -> None:
    run, x = with_a_backward_pass(), tensor(2, 4)
    with run.inside(run.module("Other", "Other", x, leaf=False, out=x, duration=1_000_000)):
        other = linear(run, "Other.fc", 4, 6, x, duration=1_000_000)
    backward = {"phase": "backward", "forward": other.id, "module": other.module}
    run.call("aten", "aten.mm", x, duration=5_000_000, **backward)
    assert "4.0ms" in render(run.trace, "table", only="head").splitlines()[1]


def test_safe_texts() -> None:
    assert safe("日本 → x") == "日本 → x"
    assert safe("\x00\u202e\ud800\u2028") == r"\x00\u202e\ud800\u2028"


def test_values_never_raise() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert "…" in value_text(deep)
    assert value_text(10**5000).startswith("<int of ")
    assert value_text([10**5000]).startswith("[<int of ")
    assert value_text(object()) == "<object>"
    assert value_text(Opaque("a\nb")) == r"<a\nb>"
    assert value_text(list(range(100))).endswith("31, … 68 more]")
    assert value_text({"a\n": "b\n"}) == r"{a\n: 'b\n'}"
    assert size(tensor("s0", 2)) == 0


def test_several_output_shapes_and_exceptions_are_marked() -> None:
    run = Run()
    for width in (1, 2, 2):
        run.module("a", "Grow", out=tensor(width))
        run.module("b", "Same", out=tensor(3))
        run.module("c", "Fails", out=tensor(width), raised="ValueError" if width == 1 else None)
    rows = [row.split("  ") for row in render(run.trace, "table").splitlines()[1:4]]
    outputs = [next(cell.strip() for cell in row if "[" in cell or "✗" in cell) for row in rows]
    assert outputs == ["f32[1] and others", "f32[3]", "✗ raised ValueError"]
