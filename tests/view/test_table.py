"""The table and the texts of values."""

from __future__ import annotations

from tests.view.build import Run, linear, tensor

from insitu.trace.costs import size
from insitu.trace.event import Opaque
from insitu.view import render
from insitu.view.value import safe, value

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


def test_models_beside_each_other() -> None:
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


def test_the_backward_pass_and_the_operations_stand_beside_the_modules() -> None:
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


def test_safe_texts() -> None:
    assert safe("日本 → x") == "日本 → x"
    assert safe("\x00\u202e\ud800\u2028") == r"\x00\u202e\ud800\u2028"


def test_values_never_raise() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert "…" in value(deep)
    assert value(10**5000).startswith("<int of ")
    assert value([10**5000]).startswith("[<int of ")
    assert value(object()) == "<object>"
    assert value(Opaque("a\nb")) == r"<a\nb>"
    assert value(list(range(100))).endswith("31, … 68 more]")
    assert value({"a\n": "b\n"}) == r"{a\n: 'b\n'}"
    assert size(tensor("s0", 2)) == 0
