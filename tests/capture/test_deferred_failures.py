"""A device that fails before its numbers have come over: the program and the rest of the recording go on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.capture.transfer import ArrivedShipment


@pytest.fixture(autouse=True)
def deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU_DEFERRED", "1")


@pytest.fixture
def failing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(shipment: ArrivedShipment) -> Tensor:
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(ArrivedShipment, "receive", receive)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_tensor_that_numpy_cannot_hold_leaves_the_trace_readable() -> None:
    x = torch.randn(4, 4)
    with pytest.warns(insitu.InsituWarning, match="what was kept of a tensor"), insitu.record(keep="values") as trace:
        torch.nested.nested_tensor([x, x[:2]]) * 2
        x * 2
        names = [call.name for call in trace.calls]
    assert names[-1] == "torch.Tensor.mul"
    assert trace.calls[-1].result.kept.tolist() == (x * 2).tolist()


@pytest.mark.usefixtures("failing_device")
def test_a_trace_of_a_device_that_failed_can_be_read() -> None:
    with insitu.record(keep="values") as trace:
        torch.ones(2) * 2
    with pytest.warns(insitu.InsituWarning, match="what was kept of a tensor .*device-side assert"):
        assert [call.name for call in trace.calls] == ["torch.ones", "torch.Tensor.mul"]
    assert trace.calls[-1].result.kept is None


@pytest.mark.usefixtures("failing_device")
def test_the_error_of_the_program_is_not_hidden_by_the_device(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    with (
        pytest.warns(insitu.InsituWarning, match="device-side assert"),
        pytest.raises(ValueError, match="of the program"),
        insitu.record_run(model, keep="values", to=tmp_path / "run.h5"),
    ):
        model(torch.ones(2))
        raise ValueError("of the program")
