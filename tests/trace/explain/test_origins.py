"""Where values come from, in histories that are made by hand."""

from __future__ import annotations

from tests.trace.explain.programs import PastCall, Source, function, in_call, module, tensor

from insitu.trace.explain.explanation import Explanation, OriginKind
from insitu.trace.explain.failure import LiveTensors
from insitu.trace.explain.failure_history import CalleeFacts, TensorToken
from insitu.trace.explain.pipeline import explain


def origins(found: Explanation) -> list[tuple[OriginKind, str, int]]:
    return [(each.kind, each.name, each.site.line if each.site else 0) for each in found.origins]


def test_input_of_a_module_is_traced_to_its_call_and_assignment() -> None:
    source = Source("""
        def forward(x):
            return x.view(7)
        data = load()
        net(data)
    """)
    x = tensor(3)
    net = PastCall(module("", "Net"), "net(data)", (x,))
    view = PastCall(function("torch.Tensor.view"), "x.view(7)", (x, 7), parent=0, raised=True)
    found = explain(in_call(source, "shape '[7]' is invalid for input of size 3", net, view))
    assert origins(found) == [(OriginKind.PASSED, "x", 4), (OriginKind.ASSIGNED, "data", 3)]
    assert found.origins[0].receiver == "Net"


def test_wrong_elements_are_traced_behind_calls_that_only_move_them() -> None:
    source = Source("ids = tokens()\nids2 = ids.reshape(2, 5)\nout = embedding(ids2, table)\n")
    ids, ids2, table = tensor(10, dtype="i64"), tensor(2, 5, dtype="i64"), tensor(10, 4)
    found = explain(
        in_call(
            source,
            "index out of range in self",
            PastCall(function("torch.arange"), "tokens()", (10,), ids),
            PastCall(function("torch.Tensor.reshape"), "ids.reshape(2, 5)", (ids, 2, 5), ids2),
            PastCall(function("torch.nn.functional.embedding"), "embedding(ids2, table)", (ids2, table), raised=True),
        )
    )
    assert (OriginKind.PRODUCED, "ids2", 2) in origins(found)
    assert (OriginKind.VALUES_PRODUCED, "", 1) in origins(found)


class OneParameter(LiveTensors):
    """A parameter that the first call has initialized."""

    def __init__(self, parameter: TensorToken) -> None:
        self.parameter = parameter

    def parameter_path(self, tensor: TensorToken) -> str:
        return "fc.weight" if tensor is self.parameter else ""

    def initializer(self, tensor: TensorToken) -> int:
        return 0


def test_parameter_has_an_origin_only_if_a_misfit_mentions_it() -> None:
    source = Source("fc = Linear(12, 4)\ny = linear(x, w)\nz = linear(y, w)\n")
    weight = tensor(4, 12)

    def explained(last: int) -> Explanation:
        init = PastCall(function("torch.Tensor.uniform_"), "Linear(12, 4)", (), weight)
        call = PastCall(function("torch.nn.functional.linear"), "linear(x, w)", (tensor(8, last), weight), raised=True)
        return explain(in_call(source, "shapes cannot be multiplied", init, call, live=OneParameter(weight)))

    assert (OriginKind.PRODUCED, "w", 1) in origins(explained(10))
    assert OriginKind.PRODUCED not in [kind for kind, *_ in origins(explained(12))]


NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"


def test_call_that_cuts_the_graph_is_named() -> None:
    source = Source("y = x.detach()\nloss = y.sum()\nloss.backward()\n")
    x, y, loss = tensor(3, requires_grad=True), tensor(3), tensor()
    found = explain(
        in_call(
            source,
            NO_GRAPH,
            PastCall(function("torch.Tensor.detach"), "x.detach()", (x,), y),
            PastCall(function("torch.Tensor.sum"), "y.sum()", (y,), loss),
            PastCall(function("torch.Tensor.backward"), "loss.backward()", (loss,), raised=True),
        )
    )
    assert (OriginKind.GRADIENT_LOST, "", 1) in origins(found)


def test_values_that_never_had_a_gradient_are_traced_to_their_assignment() -> None:
    source = Source("x = load()\nloss = x.sum()\nloss.backward()\n")
    x, loss = tensor(3), tensor()
    found = explain(
        in_call(
            source,
            NO_GRAPH,
            PastCall(function("torch.Tensor.sum"), "x.sum()", (x,), loss),
            PastCall(function("torch.Tensor.backward"), "loss.backward()", (loss,), raised=True),
        )
    )
    assert (OriginKind.NO_GRADIENT_ASSIGNED, "x", 1) in origins(found)


def test_graph_is_freed_by_the_last_backward_that_did_not_retain_it() -> None:
    source = Source("loss.backward()\nother.backward(retain_graph=True)\nfinal.backward()\n")
    loss = tensor()
    keep = {"retain_graph": True}
    found = explain(
        in_call(
            source,
            "Trying to backward through the graph a second time",
            PastCall(function("torch.Tensor.backward"), "loss.backward()", (loss,)),
            PastCall(function("torch.Tensor.backward"), "other.backward(retain_graph=True)", (loss,), kwargs=keep),
            PastCall(function("torch.Tensor.backward"), "final.backward()", (loss,), raised=True),
        )
    )
    assert (OriginKind.GRAPH_FREED, "", 1) in origins(found)


def test_operator_of_a_backward_pass_names_its_forward_call() -> None:
    source = Source("y = x @ w\ny.sum().backward()\n")
    found = explain(
        in_call(
            source,
            "mat1 and mat2 shapes cannot be multiplied",
            PastCall(
                function("torch.Tensor.matmul"), "x @ w", (tensor(2, 3), tensor(3, 4)), tensor(2, 4), makes_node=5
            ),
            PastCall(function("torch.Tensor.backward"), "y.sum().backward()", (tensor(),)),
            PastCall(CalleeFacts("aten", "aten.mm"), "", (tensor(2, 4), tensor(7, 7)), parent=1, backward_node=5),
        )
    )
    assert origins(found)[0] == (OriginKind.BACKWARD_OF, "", 1)
