"""A guard finds layers in plain containers, which no optimizer gets, at the line that assigns the container."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.trace.findings import Finding
from insitu.trace.step_findings import HiddenParameters

pytestmark = pytest.mark.usefixtures("one_thread")


def layers(count: int = 2) -> list[nn.Module]:
    return [nn.Linear(4, 4) for _ in range(count)]


class Listed(nn.Module):
    """Layers in a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)
        self.parts: list[nn.Module] = []  # the list
        for layer in layers():
            self.parts.append(layer)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x).tanh()
        return self.head(x)  # type: ignore[no-any-return]


class Keyed(nn.Module):
    """Layers in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)
        self.parts = dict(zip("ab", layers(), strict=True))  # the dict

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.parts["b"](self.parts["a"](x)))  # type: ignore[no-any-return]


class Assigned(nn.Module):
    """Layers in a container that somebody else assigns."""

    parts: Iterable[nn.Module]

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(sum(part(x) for part in self.parts))  # type: ignore[no-any-return]


def fit(model: nn.Module, *more: Tensor, steps: int = 4) -> None:
    optimizer = torch.optim.SGD([*model.parameters(), *more], 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


def findings(
    model: nn.Module, *, run: Callable[..., Any] = fit, has_model: bool = True, **options: Any
) -> list[Finding]:
    with insitu.guard(model if has_model else None, action="record", **options) as guard:
        run(model)
    return guard.findings


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if line.rstrip().endswith(text))


@pytest.mark.parametrize("has_model", [True, False])
def test_layers_in_a_list_are_found_at_its_assignment(has_model: bool) -> None:
    (finding,) = findings(Listed(), has_model=has_model)
    assert isinstance(finding, HiddenParameters)
    assert finding.site is not None and finding.site.line == line_of("# the list")
    assert finding.paths == ("parts.0.weight", "parts.0.bias", "parts.1.weight", "parts.1.bias")
    assert "make parts an nn.ModuleList" in finding.text


def test_layers_in_a_dict_of_a_part_are_found_with_a_fix() -> None:
    (finding,) = findings(nn.Sequential(nn.Linear(4, 4), Keyed()))
    assert isinstance(finding, HiddenParameters)
    assert finding.path == "1.parts" and finding.paths[0] == "1.parts.a.weight"
    assert f":{line_of('# the dict')}: self.parts = nn.ModuleDict(dict(" in finding.text


def test_a_container_that_somebody_else_assigns_is_found_without_a_line() -> None:
    model = Assigned()
    model.parts = tuple(layers())
    (finding,) = findings(model)
    assert isinstance(finding, HiddenParameters) and finding.site is None
    assert finding.text.startswith("2 layers are in a plain tuple, parts: ")


@pytest.mark.parametrize("container", [nn.ModuleList, list])
def test_registered_layers_may_be_in_a_list_as_well(container: Callable[..., Any]) -> None:
    model = Assigned()
    parts = layers()
    model.more = nn.ModuleList(parts)
    model.parts = container(parts)
    assert findings(model) == []


def test_a_single_module_in_a_list_is_hidden_on_purpose() -> None:
    model = Assigned()
    model.parts = layers(1)
    assert findings(model) == []


def test_layers_that_an_optimizer_has_may_be_in_a_list() -> None:
    model = Listed()
    more = [parameter for part in model.parts for parameter in part.parameters()]
    assert findings(model, run=lambda model: fit(model, *more)) == []


def test_layers_that_the_program_moves_itself_may_be_in_a_list() -> None:
    def run(model: Listed) -> None:
        for _ in range(4):
            fit(model, steps=1)
            with torch.no_grad():
                for part in model.parts:
                    for parameter in part.parameters():
                        parameter -= 0.1

    assert [type(each) for each in findings(Listed(), run=run)] == []


@pytest.mark.parametrize("has_model", [True, False])
def test_layers_of_a_loss_that_is_not_trained_may_be_in_a_list(has_model: bool) -> None:
    loss = Listed()

    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            loss(model(torch.randn(8, 4))).mean().backward()
            optimizer.step()

    assert findings(nn.Linear(4, 4), run=run, has_model=has_model) == []


def test_hidden_layers_may_be_allowed() -> None:
    assert findings(Listed(), has_model=False, allow="parts") == []
