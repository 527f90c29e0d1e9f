"""From a failure that is made by hand to its explanation, step by step; no torch is needed."""

from __future__ import annotations

from tests.trace.explain.programs import PastCall, Source, function, in_call, in_frame, module, tensor

from insitu.trace.explain.explanation import OriginKind
from insitu.trace.explain.failed_line import read_line
from insitu.trace.explain.failure import InPlaceChange, LiveTensors, ObjectSnapshot
from insitu.trace.explain.failure_history import TensorToken
from insitu.trace.explain.pipeline import build_case, explain, find_call

ADD = """
    import torch
    def bias(n):
        return torch.zeros(n + 1)
    def run(x):
        b = bias(3)
        return x.exp() + b
"""


def test_recorded_call_is_explained_with_names_and_origins() -> None:
    source, x, b = Source(ADD), tensor(2, 3), tensor(4)
    exp = tensor(2, 3)
    found = explain(
        in_call(
            source,
            "The size of tensor a (3) must match the size of tensor b (4)",
            PastCall(function("torch.zeros"), "torch.zeros(n + 1)", (4,), b),
            PastCall(function("torch.Tensor.exp"), "x.exp()", (x,), exp),
            PastCall(function("torch.Tensor.add"), "x.exp() + b", (exp, b), raised=True),
        )
    )
    assert found.site is not None and found.site.line == 6
    assert [(row.name, row.shape) for row in found.misfits[0].rows] == [("x.exp()", (2, 3)), ("b", (4,))]
    assert [(origin.kind, origin.name) for origin in found.origins] == [(OriginKind.PRODUCED, "b")]
    assert [found.source[0][1][each.start : each.end] for each in found.underlines] == ["x", "b"]


def test_call_of_a_frame_is_read_from_its_names() -> None:
    source, x, b = Source(ADD), tensor(2, 3), tensor(4)
    exp = PastCall(function("torch.Tensor.exp"), "x.exp()", (x,), tensor(2, 3))
    failure = in_frame(source, "x.exp() + b", "", exp, x=x, b=b)
    call = find_call(failure, read_line(failure))
    assert call.call is not None
    assert call.call.name == "torch.Tensor.add"
    assert [operand.name for operand in call.operands] == ["x.exp()", "b"]


def test_module_of_a_frame_is_called_by_its_class() -> None:
    source = Source("def run(self, x):\n    return self.fc(x)\n")
    layer = ObjectSnapshot("Linear")
    model = ObjectSnapshot("Net", {"fc": layer}.__getitem__)
    x = tensor(2, 3)
    failure = in_frame(source, "self.fc(x)", "", self=model, x=x)
    call = find_call(failure, read_line(failure))
    assert call.call is not None
    assert (call.call.name, call.call.args) == ("Linear", (x,))


def test_missing_value_names_the_function_that_returned_none() -> None:
    source = Source("def run(self, x):\n    h = self.feed(x)\n    return x + h\n")
    x = tensor(2)
    feed = PastCall(module("feed", "Feed"), "self.feed(x)", (x,), None)
    failure = in_frame(source, "x + h", "unsupported operand: 'Tensor' and 'NoneType'", feed, x=x, h=None)
    line = read_line(failure)
    call = find_call(failure, line)
    case = build_case(failure, line, call, line.underlines(call.operands))
    assert [(each.name, each.returned_by) for each in case.missing] == [("h", "Feed.forward")]
    assert case.missing[0].site is not None and case.missing[0].site.line == 2


def test_unpacked_value_is_the_part_for_the_nested_names() -> None:
    source = Source("def run(batch):\n    x, (y, z) = batch\n")
    inner = tensor(1, 4)
    failure = in_frame(source, "(y, z)", "not enough values to unpack (expected 2, got 1)", batch=[tensor(2), inner])
    line = read_line(failure)
    assert build_case(failure, line, find_call(failure, line), ()).unpacked is inner


class ChangedWeight(LiveTensors):
    """A weight that the third call changed, and that the first one needs."""

    def in_place_change(self, loss: TensorToken | None, message: str, end: int) -> InPlaceChange:
        return InPlaceChange(0, 1, "D.weight")


def test_step_of_an_optimizer_is_recognized_by_its_expression() -> None:
    source = Source("score = D(x)\noptimizer.step()\nscore.backward()\n")
    score = tensor()
    found = explain(
        in_call(
            source,
            "one of the variables needed for gradient computation has been modified by an inplace operation",
            PastCall(module("D", "Linear"), "D(x)", (tensor(2),), score),
            PastCall(function("torch.Tensor.add_"), "optimizer.step()", (tensor(2, 2),)),
            PastCall(function("torch.Tensor.backward"), "score.backward()", (score,), raised=True),
            live=ChangedWeight(),
        )
    )
    assert found.misfits[0].text == "optimizer.step() changed D.weight between forward and backward"
    sites = {origin.kind: origin.site.line for origin in found.origins if origin.site is not None}
    assert sites[OriginKind.CHANGED_IN_PLACE] == 2
    assert sites[OriginKind.NEEDED_FOR_GRADIENT] == 1
