"""The programs are what they claim to be, seen without insitu: the fault is real, and stands where it is marked."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from tests.bugs.catalog import Program, faulty, healthy
from tests.bugs.first_bad import FirstBad
from torch import nn

FAULTY = faulty()
EXPLAINED = [program for program in FAULTY if program.found_by == "explain"]
GUARDED = [program for program in FAULTY if program.found_by == "guard"]
NON_FINITE = [program for program in GUARDED if not hasattr(program.module, "SHOWS")]
WORSE = [program for program in GUARDED if getattr(program.module, "SHOWS", None) == "worse"]
UNHEALTHY = [program for program in GUARDED if program not in NON_FINITE and program not in WORSE]
COMPARED = [program for program in FAULTY if program.found_by == "compare"]

each = pytest.mark.parametrize
pytestmark = pytest.mark.usefixtures("one_thread")


def name(program: Program) -> str:
    return program.name


@pytest.fixture(autouse=True)
def torch_may_warn_of_the_fault() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_there_are_enough_of_each_kind() -> None:
    assert len(FAULTY) >= 150 and len(healthy()) >= 20
    assert len(EXPLAINED) >= 50 and len(GUARDED) >= 45 and len(COMPARED) >= 35


@each("program", FAULTY, ids=name)
def test_a_program_says_what_is_wrong_and_where(program: Program) -> None:
    assert program.found_by in {"explain", "guard", "compare"}
    assert len(program.faults) + (program.names is not None) == 1
    assert program.source.count("FAULT") == len(program.faults)


@each("program", [*FAULTY, *healthy()], ids=name)
def test_a_program_is_ordinary_code(program: Program) -> None:
    lines = [line for line in program.source.splitlines() if line.strip()]
    assert 12 <= len(lines) <= 45
    assert "insitu" not in program.source
    told = ast.get_docstring(ast.parse(program.source))
    assert told is not None and len(told.splitlines()) <= 2


@each("program", EXPLAINED, ids=name)
def test_it_raises(program: Program) -> None:
    with pytest.raises(Exception, match=re.escape(program.module.RAISES)) as raised:
        program.module.run()
    shown = [f"{entry.path.name}:{entry.lineno + 1}" for entry in raised.traceback]
    if program.wanted in shown:  # to name the line is not enough then, nor to repeat the message
        assert program.says is not None and program.says not in str(raised.value)
    if program.repair:
        program.repaired()["run"]()


@each("program", NON_FINITE, ids=name)
def test_it_ends_in_nan_or_inf(program: Program) -> None:
    with FirstBad(program.file) as forward:
        result = program.module.run()
    assert not torch.isfinite(result).all()
    if program.repair:  # NumPy makes it, or an operator that is given nothing: the line is further back
        assert torch.isfinite(program.repaired()["run"]()).all()
        return
    # Without a line it is made in backward, by torch itself: then the marked line has nothing but its gradient.
    assert forward.line in (None, *program.faults)


@each("program", WORSE, ids=name)
def test_it_learns_less_than_with_the_line_repaired(program: Program) -> None:
    repaired = program.repaired()
    before = program.module.run(program.module.build())
    after = repaired["run"](repaired["build"]())
    assert torch.isfinite(before) and after < 0.75 * before


@each("program", UNHEALTHY, ids=name)
def test_it_trains_badly(program: Program) -> None:
    model = program.module.build()
    before = {path: parameter.detach().clone() for path, parameter in model.named_parameters()}
    sums = summed_gradients(model)
    program.module.run(model)
    after = dict(model.named_parameters())
    is_sick = SICK[program.module.SHOWS]
    sick = {path for path, parameter in after.items() if is_sick(parameter, before[path], sums[path])}
    assert program.names in sick if program.names else sick == set(after)
    assert program.spares is None or program.spares in set(after) - sick


def summed_gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """For each parameter the sum of the gradients of all backward passes to come."""
    sums = {path: torch.zeros_like(parameter) for path, parameter in model.named_parameters()}
    for path, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_hook(partial(add, sums[path]))  # type: ignore[no-untyped-call]
    return sums


def add(total: torch.Tensor, grad: torch.Tensor) -> None:
    """Returns nothing: what a hook returns would replace the gradient."""
    total += grad


def size(parameter: nn.Parameter) -> float:
    """How large the gradient is beside the parameter."""
    return 0.0 if parameter.grad is None else float(parameter.grad.norm() / parameter.detach().norm())


def is_close(grad: torch.Tensor | None, sums: torch.Tensor) -> bool:
    return grad is not None and torch.allclose(grad, sums, rtol=1e-4, atol=1e-6)


# Of a parameter after the run, its value before, and the sum of its gradients: whether it has the trouble.
SICK: dict[str, Callable[[nn.Parameter, torch.Tensor, torch.Tensor], bool]] = {
    "none": lambda parameter, before, sums: parameter.grad is None,
    "unchanged": lambda parameter, before, sums: torch.equal(parameter, before),
    "vanishing": lambda parameter, before, sums: size(parameter) < 1e-7,
    "exploding": lambda parameter, before, sums: size(parameter) > 1e4,
    "accumulated": lambda parameter, before, sums: is_close(parameter.grad, sums),
}


@each("program", COMPARED, ids=name)
def test_the_two_runs_differ_for_no_other_reason(program: Program) -> None:
    good, bad = program.module.good, program.module.bad
    assert not torch.equal(good(), bad())
    if not getattr(program.module, "TWICE", False):
        assert torch.equal(good(), good()) and torch.equal(bad(), bad())
    if program.repair:
        assert torch.allclose(good(), program.repaired()["bad"](), atol=1e-6)


@each("program", healthy(), ids=name)
def test_a_healthy_program_is_finite_and_repeatable(program: Program) -> None:
    first, second = (program.module.run(program.module.build()) for _ in range(2))
    assert torch.isfinite(first) and torch.equal(first, second)


@each("program", [program for program in healthy() if hasattr(program.module, "port")], ids=name)
def test_a_port_agrees_with_its_original(program: Program) -> None:
    model = program.module.build()
    assert torch.allclose(program.module.run(model), program.module.run(program.module.port(model)))
