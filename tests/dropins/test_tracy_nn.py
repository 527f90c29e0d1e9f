"""The drop-in for Tracy NN: seeds 000 and 001 to the letter, and every way to start and stop."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.dropins.running import expected, names_of, own_files_in, snippets
from torch import nn

import insitu
from tracy_nn import Tracer, trace_model

Check = Callable[[str, str], None]
NAMES = ["MHA", "Before", "My Model", "MHA", "MyModel", "MyModel"]
LINEAR = """\
  ● TRACING {name} STARTED
  │
  ● (Linear) (in_features: 3, out_features: 2)
  ├─ Input: Tensor [4, 3] @ cpu
  └─ Output: Tensor [4, 2] @ cpu
  │
  ● TRACING {name} COMPLETE
"""


def heading(name: str) -> str:
    return "".join(LINEAR.format(name=name).splitlines(keepends=True)[:2])


def footing(name: str) -> str:
    return LINEAR.format(name=name).splitlines(keepends=True)[-1]


BLOCK = "".join(LINEAR.splitlines(keepends=True)[2:-1])


@pytest.fixture
def model() -> nn.Module:
    return nn.Linear(3, 2)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(4, 3)


def blocks(text: str) -> list[str]:
    """The blocks of a printed text, without what stands between them."""
    return [block.strip("\n") for block in text.split("\n  │\n")]


def test_the_program_of_the_seed_prints_what_is_expected(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    names_of("mha.py")
    check("mha.txt", capsys.readouterr().out)


def test_the_expected_text_is_that_of_the_original() -> None:
    first, last = (part.rstrip("\n") for part in expected("seed_000.txt").split("  [...]\n  │\n"))
    whole = expected("mha.txt")
    assert whole.startswith(first)
    rest = iter(blocks(whole.removeprefix(first)))
    assert [block for block in blocks(last) if block not in rest] == []


SNIPPETS = list(zip(snippets("000.txt") + snippets("001.txt"), NAMES, strict=True))


@pytest.mark.parametrize(("snippet", "name"), SNIPPETS)
def test_every_snippet_runs_as_written(snippet: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = names_of("mha.py")
    printed = capsys.readouterr().out
    names |= {"model": names["mha"], "input_tensor": names["x"], "tracer": Tracer("Before")}
    exec(compile(snippet, "snippet.py", "exec"), names)
    assert capsys.readouterr().out == printed.replace("TRACING MHA", f"TRACING {name}")
    assert names["output"].shape == (10, 20, 6)


def test_default_names(model: nn.Module) -> None:
    assert Tracer().name == "Neural Network"
    assert trace_model(model).name == "Quick Trace"


def test_trace_returns_the_tracer(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    tracer = Tracer("A")
    with tracer.trace(model) as given:
        assert given is tracer
    assert capsys.readouterr().out == heading("A") + footing("A")


def test_a_tracer_is_a_context_manager(model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    with Tracer("A") as tracer:
        tracer.start(model)
        model(x)
    model(x)
    assert capsys.readouterr().out == LINEAR.format(name="A")


def test_a_tracer_can_be_used_twice(model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    tracer = Tracer("A")
    for _ in range(2):
        with tracer.trace(model):
            model(x)
    tracer.start(model)
    model(x)
    tracer.stop()
    assert capsys.readouterr().out == 3 * LINEAR.format(name="A")


def test_stop_without_start_does_nothing(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    tracer = Tracer("A")
    tracer.stop()
    with tracer:
        pass
    assert capsys.readouterr().out == ""
    tracer.start(model)
    tracer.stop()
    tracer.stop()
    assert capsys.readouterr().out == heading("A") + footing("A")


def test_start_when_active_prints_a_message(
    model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer = Tracer("A")
    tracer.start(model)
    tracer.start(nn.ReLU())
    model(x)
    tracer.stop()
    assert capsys.readouterr().out == heading("A") + "Tracer A is already active!\n" + BLOCK + footing("A")


def test_a_block_in_a_block_of_the_same_tracer(
    model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer = Tracer("A")
    with tracer.trace(model):
        with tracer.trace(model):
            model(x)
        model(x)
    said = "Tracer A is already active!\n"
    assert capsys.readouterr().out == heading("A") + said + 2 * BLOCK + footing("A")


def test_stop_inside_the_block(model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    with Tracer("A").trace(model) as tracer:
        tracer.stop()
        model(x)
    assert capsys.readouterr().out == heading("A") + footing("A")


def test_nested_tracers(model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    with Tracer("A").trace(model):
        with Tracer("B").trace(model):
            model(x)
        model(x)
    inner = heading("B") + 2 * BLOCK + footing("B")
    assert capsys.readouterr().out == heading("A") + inner + BLOCK + footing("A")


def test_overlapping_tracers(model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = Tracer("A"), Tracer("B")
    a.start(model)
    b.start(model)
    model(x)
    a.stop()
    model(x)
    b.stop()
    model(x)
    both = heading("A") + heading("B") + 2 * BLOCK + footing("A")
    assert capsys.readouterr().out == both + BLOCK + footing("B")


def test_tracers_of_different_models_keep_apart(x: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = nn.Linear(3, 2), nn.ReLU()
    with Tracer("A").trace(one), Tracer("B").trace(other):
        one(x)
    assert capsys.readouterr().out == heading("A") + heading("B") + BLOCK + footing("B") + footing("A")


def test_start_and_stop_in_different_functions(
    model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer = Tracer("A")

    def begin() -> None:
        tracer.start(model)

    def end() -> None:
        tracer.stop()

    begin()
    model(x)
    end()
    model(x)
    assert capsys.readouterr().out == LINEAR.format(name="A")


class Broken(nn.Module):
    """A model whose product cannot be."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x


@pytest.mark.parametrize("way", ["trace", "with", "finally"])
def test_an_exception_passes_and_the_failing_call_is_shown(
    way: str, x: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tracer = Broken(), Tracer("A")
    with pytest.raises(RuntimeError) as plain:
        model(x)
    with pytest.raises(RuntimeError) as traced:
        run(way, tracer, model, x)
    assert type(traced.value) is type(plain.value) and traced.value.args == plain.value.args
    assert own_files_in(traced.value) == []
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "  ● Tensor.@ @ [Broken.forward]"
    assert lines[5] == "  └─ Raised: RuntimeError"
    assert lines[-1] == "  ● TRACING A COMPLETE"


def run(way: str, tracer: Tracer, model: nn.Module, x: torch.Tensor) -> None:
    """Call the model while it is traced, in each of the ways there are."""
    if way == "trace":
        with tracer.trace(model):
            model(x)
    elif way == "with":
        with tracer:
            tracer.start(model)
            model(x)
    else:
        tracer.start(model)
        try:
            model(x)
        finally:
            tracer.stop()


def test_the_users_own_exception_is_the_same_object(model: nn.Module) -> None:
    error = KeyboardInterrupt("enough")
    with pytest.raises(KeyboardInterrupt) as caught, Tracer().trace(model):
        raise error
    assert caught.value is error


def test_a_subject_that_is_not_a_model_is_refused(
    model: nn.Module, x: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer, no_model = Tracer("A"), nn.Linear
    with pytest.raises(insitu.SubjectError, match="pass an instance"):
        tracer.start(no_model)  # type: ignore[arg-type]
    with tracer.trace(model):
        model(x)
    assert capsys.readouterr().out == LINEAR.format(name="A")


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_goes_to_terminals_only(model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    texts: list[str] = []
    for stream in (io.StringIO(), Screen()):
        monkeypatch.setattr(sys, "stdout", stream)
        with Tracer("A").trace(model):
            model(x)
        texts.append(stream.getvalue())
    assert texts[0] == LINEAR.format(name="A")
    assert texts[1].startswith("  \033[92m●\033[0m \033[1mTRACING A STARTED\033[0m\n\033[90m  │\033[0m\n")


def test_the_environment_variable_switches_it_off(
    model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSITU", "0")
    with Tracer("A").trace(model):
        model(x)
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_calls_that_the_original_missed_are_shown(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = names_of("everything.py")
    model, x = names["model"], names["x"]
    with torch.no_grad():
        plain = model(x)
        with Tracer("Everything").trace(model):
            traced = model(x)
    assert torch.equal(plain, traced)
    check("everything.txt", capsys.readouterr().out)
