"""The table of operations: spellings, forms, and what torch itself says about them."""

import inspect

import pytest
import torch

from insitu.trace import operation as table
from insitu.trace.operation import UNKNOWN, Operation, operation


def of(name: str) -> Operation:
    return operation("function", f"torch.{name}")


def find(name: str) -> object:
    """The function of torch with this name, wherever torch has it."""
    owners = (torch, torch.nn.functional, torch.Tensor, torch.nn.init, torch.nn.utils.rnn, torch.linalg, torch.ops.aten)
    names = (name, f"{name}_", f"__{name}__")
    found = (getattr(owner, form, None) for owner in owners for form in names)
    return next((function for function in found if function is not None), None)


@pytest.mark.parametrize("name", sorted(table._TABLE))
def test_every_row_names_something_of_torch(name: str) -> None:
    python_only = {"idiv", "slice", "shuffle", "requires_grad="}
    assert name in python_only or find(name.removeprefix("autograd.")) is not None or hasattr(torch.autograd, name)


def test_defaults_of_arguments_are_those_of_torch() -> None:
    """As far as Python can tell: functions of C++ do not say what their defaults are."""
    checked = 0
    for name, row in table._TABLE.items():
        function = getattr(torch.nn.functional, name, None) or getattr(torch, name, None)
        try:
            parameters = inspect.signature(function).parameters if function is not None and row.defaults else {}
        except ValueError:
            continue
        known = {argument: parameters[argument].default for argument in row.defaults if parameters}
        assert not parameters or known == row.defaults, name
        checked += bool(parameters)
    assert checked > 15


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        *[("Tensor.__add__", "add"), ("Tensor.__radd__", "add"), ("Tensor.__iadd__", "add_"), ("add", "add")],
        *[("Tensor.__rsub__", "rsub"), ("rsub", "rsub"), ("Tensor.__truediv__", "div"), ("true_divide", "div")],
        *[("Tensor.__rtruediv__", "rdiv"), ("Tensor.__and__", "bitwise_and"), ("Tensor.__invert__", "bitwise_not")],
        *[("Tensor.view", "reshape"), ("Tensor.half", "to"), ("Tensor.cuda", "to"), ("mm", "matmul")],
        *[("Tensor.__float__", "item"), ("Tensor.__setitem__", "setitem"), ("Tensor.requires_grad=", "requires_grad_")],
        *[("nn.init.ones_", "ones_"), ("Tensor.__repr__", "__repr__"), ("something_new_", "something_new_")],
    ],
)
def test_spellings_of_one_operation_have_one_name(spelling: str, name: str) -> None:
    assert of(spelling).name == name


def test_forms_in_place_are_known_by_their_names() -> None:
    names = ("Tensor.add_", "Tensor.__iadd__", "Tensor.__setitem__", "Tensor.add", "Tensor.__invert__", "Tensor.data")
    assert [of(name).is_in_place for name in names] == [True, True, True, False, False, False]


def test_only_forms_in_place_overwrite() -> None:
    assert of("nn.init.ones_").overwrites and not of("ones").overwrites
    assert of("Tensor.normal_").overwrites and not of("normal").overwrites


def test_grad_of_a_tensor_is_read_and_grad_of_autograd_runs_backward() -> None:
    attribute, function = of("Tensor.grad"), of("autograd.grad")
    assert attribute.reads_attribute and not attribute.runs_backward
    assert function.runs_backward and not function.reads_attribute
    assert not of("Tensor.grad=").reads_attribute and of("Tensor.grad=").is_incidental


def test_operands_of_a_division_by_a_tensor_are_reflected() -> None:
    assert of("Tensor.__rtruediv__").is_reflected and of("Tensor.__rtruediv__").arithmetic == "div"
    assert not of("Tensor.__truediv__").is_reflected


def test_operators_and_functions_share_rows() -> None:
    assert operation("aten", "aten.native_dropout.default").draws == "always"
    assert operation("aten", "aten.copy_.default").is_move
    assert operation("aten", "mylib.add.default").commutes
    assert operation("aten", "profiler._record_function_enter_new").is_incidental


@pytest.mark.parametrize("kind", ["module", "python"])
def test_modules_and_python_functions_are_not_looked_up(kind: str) -> None:
    found = operation(kind, "add")  # type: ignore[arg-type]
    assert found.name == "add" and not found.commutes


def test_unknown_functions_get_cautious_answers() -> None:
    assert (UNKNOWN.risk, UNKNOWN.hides, UNKNOWN.is_move, UNKNOWN.is_random) == ("any", True, False, False)


def test_moves_return_values_of_their_inputs() -> None:
    """Run each function that takes one tensor alone, and look for values that were not in it."""
    given = torch.arange(1.0, 10.0).reshape(3, 3)
    checked = 0
    for name, row in table._TABLE.items():
        function = getattr(torch.Tensor, name, None)
        if not row.is_move or not callable(function) or name in ("cuda", "pin_memory", "copy"):
            continue
        try:
            result = function(given)
        except (TypeError, RuntimeError, IndexError):  # it needs more arguments
            continue
        parts = result if isinstance(result, tuple) else (result,)
        values = [part for part in parts if isinstance(part, torch.Tensor)][:1]
        assert all(torch.isin(part.float(), given).all() or part.dtype == torch.bool for part in values), name
        checked += bool(values)
    assert checked > 20
