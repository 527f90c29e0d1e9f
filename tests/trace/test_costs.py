"""What calls cost, added up."""

from __future__ import annotations

from insitu.trace.costs import CostLedger, memory
from insitu.trace.event import Call, TensorFacts


def test_own_time_of_a_function_is_without_the_calls_in_it() -> None:
    ledger = CostLedger()
    ledger.add(Call(2, 1, "aten", "aten.mm", duration=10))
    ledger.add(Call(3, 1, "aten", "aten.add", duration=20))
    costs = ledger.add(Call(1, None, "function", "torch.addmm", duration=50))
    assert (costs.time, costs.own) == (50, 20)


def test_own_time_of_a_module_is_without_the_modules_in_it_however_deep() -> None:
    ledger = CostLedger()
    ledger.add(Call(3, 2, "module", "Linear", duration=30))
    ledger.add(Call(2, 1, "function", "torch.utils.checkpoint", duration=45))
    ledger.add(Call(4, 1, "module", "ReLU", duration=5))
    costs = ledger.add(Call(1, None, "module", "Net", duration=100))
    assert (costs.time, costs.own) == (100, 65)


def test_flops_of_nested_calls_are_added_once_and_not_in_backward() -> None:
    ledger = CostLedger()
    ledger.add(Call(2, 1, "aten", "aten.mm", flops=100))
    ledger.add(Call(1, 0, "function", "torch.nn.functional.linear", flops=100))
    ledger.add(Call(3, 0, "aten", "aten.mm", flops=1000, phase="backward"))
    assert ledger.add(Call(0, None, "module", "Net")).flops == 100


def test_memory_is_the_size_of_all_outputs() -> None:
    f32, i64 = TensorFacts(0, (2, 3), "f32", "cpu"), TensorFacts(1, (2, "s0"), "i64", "cpu")
    assert memory(Call(0, None, "function", "f", result=(f32, {"index": f32, "symbolic": i64}))) == 48


def test_call_without_duration_has_no_time() -> None:
    costs = CostLedger().add(Call(0, None, "function", "f", duration=None))
    assert (costs.time, costs.own, costs.memory, costs.flops) == (0, 0, 0, 0)
