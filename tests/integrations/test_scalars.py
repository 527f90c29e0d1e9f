"""Live sinks: a server that does not answer does not end the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import insitu
from insitu.integrations.scalars import LiveSteps


class Server(LiveSteps):
    """Answers from a step on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first
        self.steps: list[int] = []

    def hand_on(self, step: int, numbers: dict[str, float]) -> None:
        if step < self.first:
            raise ConnectionError("no route to the host")
        self.steps.append(step)


def test_a_server_that_fails_is_told_once_and_the_program_goes_on() -> None:
    model = nn.Linear(2, 1)
    live = Server(first=2)
    with (
        pytest.warns(insitu.InsituWarning, match="Server could not write the numbers of step 0") as told,
        live,
        insitu.record_run(model, only="**.weight", keep="stats", to=live),
    ):
        for _ in range(4):
            model(torch.ones(2))
    assert len(told) == 1
    assert live.steps == [2, 3]


def test_the_error_of_the_program_is_not_hidden_by_the_server() -> None:
    with pytest.warns(insitu.InsituWarning), pytest.raises(ValueError, match="of the program"), Server(first=9) as live:
        live("loss", 1.0, 0, 0)
        raise ValueError("of the program")
