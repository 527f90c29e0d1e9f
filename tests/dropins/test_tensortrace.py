"""The drop-in for TensorTracer in one process: paths, iterations, changes, callbacks, files."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest
import torch
from tests.dropins.running import snippets
from torch import Tensor, nn, optim

import insitu
import tensortrace
from tensortrace import (
    H5PYSaverCallback,
    ModelTracer,
    ResultEntry,
    TracedModel,
    stack_padded_tensors,
    stack_tensors,
    trace_model,
)


@dataclass
class Pair:
    a: Tensor
    b: int


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.line(x)
        return self.bn(h)


class Model(nn.Module):
    """A variable of every kind that the paths of TensorTracer name."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(), Block())
        self.variable = 0

    def forward(self, x: Tensor) -> Tensor:
        d = {"nest": {"q": x + 1, "r": x + 2}}
        pair = Pair(x * 3, 7)
        for number in range(3):
            loop = x * number
        self.variable += 1
        return self.method(self.encoder(x)) + d["nest"]["q"] + pair.a + loop

    def method(self, y: Tensor) -> Tensor:
        local = y * 2
        return local + 1


class Same(nn.Module):
    """Gives what it gets."""

    def forward(self, x: Any) -> Any:
        return x


def traced(values: list[Any], *variables: str, **options: Any) -> ModelTracer:
    """Give values to a model that gives them back, one in each iteration."""
    model = Same()
    with ModelTracer(model, list(variables) or ["forward"], **options) as tracer:
        for value in values:
            model(value)
    return tracer


def saved(path: Path, values: list[Any], **options: Any) -> dict[str, Any]:
    """Save values, and read all that is in the file."""
    with H5PYSaverCallback(path, **options) as saver:
        traced(values, post_gather_callbacks=[saver])
    with h5py.File(path) as file:
        return {name: (file[name].asstr()[()] if file[name].dtype.kind == "O" else file[name][()]) for name in file}


def floats(*numbers: float) -> list[Tensor]:
    return [torch.tensor([number]) for number in numbers]


def test_the_public_names() -> None:
    assert tensortrace.__all__ == sorted(tensortrace.__all__)
    assert tensortrace.__version__ == insitu.__version__
    from tensortrace.h5py_tracer import H5PYSaverCallback as same

    assert same is H5PYSaverCallback


@pytest.mark.parametrize("index", [0, 2])
def test_the_seed_runs_in_one_process(index: int) -> None:
    class Simple(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Linear(20, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x)

    class Sampler:
        def set_epoch(self, epoch: int) -> None:
            pass

    model = Simple()
    names = {"model": model, "ddp_model": model, "rank": 0, "device_id": "cpu", "sampler": Sampler()}
    names |= {"dataloader": [(torch.randn(4, 20), torch.zeros(4)) for _ in range(2)]}
    names |= {"optimizer": optim.SGD(model.parameters(), lr=0.1), "loss_fn": nn.CrossEntropyLoss()}
    exec("from tensortrace import *\n" + snippets("003.txt")[index], names)
    results = names["tracer"].results  # type: ignore[attr-defined]
    expected = {0: (2, 1, 4, 4), 2: (50,)}[index]
    assert {name: entry.values[0].shape for name, entry in results.items()} == {
        "forward.x": (*expected, 20),
        "forward": (*expected, 2),
    }


def test_the_paths_of_tensortracer() -> None:
    variables = ["forward", "forward.x", "encoder.1", "encoder.*.forward.h", "forward.self.variable", "forward.pair.a"]
    variables += [
        "forward.d.nest.q",
        "forward.d.nest.*",
        "method",
        "method.local",
        "forward.self.encoder.*.bn.running_var",
    ]
    model = Model()
    with ModelTracer(model, variables) as tracer:
        for _ in range(3):
            model(torch.randn(5, 4))
    assert set(tracer.results) == {
        *("forward", "forward.x", "encoder.1", "encoder.0.forward.h", "encoder.1.forward.h", "forward.self.variable"),
        *("forward.d.nest.q", "forward.d.nest.r", "method", "method.local", "forward.pair.a"),
        *("forward.self.encoder.0.bn.running_var", "forward.self.encoder.1.bn.running_var"),
    }
    assert tracer.results["forward.self.variable"] == ResultEntry([1, 1, 2, 3], [0] * 4, [0, 1, 2, 3])
    assert [value.shape for value in tracer.results["encoder.1"].values] == [(5, 4)] * 3
    # The last one is what the model has now, and not what it had before its last batch.
    running = tracer.results["forward.self.encoder.1.bn.running_var"].values[-1]
    assert torch.equal(running, model.encoder[1].bn.running_var)  # type: ignore[arg-type, union-attr]


def test_several_values_in_one_iteration() -> None:
    model = Model()
    with ModelTracer(model, ["forward.loop", "forward.number"]) as tracer:
        model(torch.ones(2, 4))
    assert tracer.results["forward.number"] == ResultEntry([1, 1, 1], [0, 0, 0], [0, 1, 2])
    assert [value[0, 0].item() for value in tracer.results["forward.loop"].values] == [0, 1, 2]


def test_only_changed_values_are_saved() -> None:
    nan = float("nan")
    assert traced(floats(1, 1, 2, 2, 1)).results["forward"].iterations == [1, 3, 5]
    assert traced(floats(nan, nan, 0.0, -0.0)).results["forward"].iterations == [1, 3, 4]
    assert traced([1, True, 1.0, 1, nan, nan]).results["forward"].iterations == [1, 2, 3, 4, 5]
    assert traced([torch.ones(2, 1), torch.ones(1, 2), torch.ones(1, 2).double()]).results["forward"].iterations == [
        1,
        2,
        3,
    ]
    assert traced([numpy.zeros(2), numpy.zeros(2), numpy.ones(2)]).results["forward"].iterations == [1, 3]


def test_a_change_without_a_version_bump_is_saved() -> None:
    model, x = Same(), torch.zeros(1)
    with ModelTracer(model, ["forward"]) as tracer:
        model(x)
        x.data.add_(1)
        model(x)
        x.numpy()[0] = 5
        model(x)
        model(x)
    assert tracer.results["forward"].iterations == [1, 2, 3]
    assert torch.cat(tracer.results["forward"].values).tolist() == [0, 1, 5]


def test_a_weight_is_saved_when_it_changes() -> None:
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with ModelTracer(model, ["weight"]) as tracer:
        for number in range(4):
            model(torch.ones(1)).sum().backward()
            if number == 2:
                optimizer.step()
    assert tracer.results["weight"].iterations == [1, 3]


def test_the_last_group_is_kept_though_it_is_not_full() -> None:
    tracer = traced(floats(*range(10)), gathering_interval=4, pre_gather_callbacks=[stack_tensors])
    assert [value.flatten().tolist() for value in tracer.results["forward"].values] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert tracer.results["forward"].iterations == list(range(1, 11))


def test_the_intervals_count_iterations_from_one() -> None:
    tracer = traced(floats(*range(9)), trace_interval=2, gathering_interval=4, post_gather_callbacks=[stack_tensors])
    assert tracer.results["forward"].iterations == [2, 4, 6, 8]
    assert [len(value) for value in tracer.results["forward"].values] == [2, 2]
    tracer = traced(list(range(9)), trace_interval=4)
    assert tracer.results["forward"] == ResultEntry([4, 8], [0, 0], [3, 7])


@pytest.mark.parametrize(("option", "expected"), [("train_only", [0, 2, 4]), ("eval_only", [1, 3])])
def test_only_one_mode(option: str, expected: list[int]) -> None:
    model = Same()
    with ModelTracer(model, ["forward"], **{option: True}) as tracer:  # type: ignore[arg-type]
        for number in range(5):
            model.train(number % 2 == 0)
            model(number)
    assert tracer.results["forward"].values == expected
    assert tracer.results["forward"].iterations == list(range(1, len(expected) + 1))
    assert tracer.current_iteration == len(expected)


def test_invalid_choices_are_refused() -> None:
    with pytest.raises(insitu.ChoiceError, match="leave nothing to trace"):
        ModelTracer(Same(), ["forward"], eval_only=True, train_only=True)
    with pytest.raises(insitu.ChoiceError, match="gathering_interval=0"):
        ModelTracer(Same(), ["forward"], gathering_interval=0)
    with pytest.raises(insitu.PatternError, match=r"forward\.y"):
        ModelTracer(Same(), ["forward.y"])


def test_each_stage_gets_the_arguments_of_the_original() -> None:
    seen: list[Any] = []

    def half(name: str, value: Any, iteration: int) -> Any:
        seen.append(("pre_save", name, value, iteration))
        return value / 2

    def stage(label: str) -> Callable[..., None]:
        def callback(*given: Any) -> None:
            seen.append((label, *(list(each) if isinstance(each, list) else each for each in given)))

        return callback

    traced(
        [2, 4],
        gathering_interval=2,
        pre_save_callbacks=[half],
        pre_gather_callbacks=[stage("pre_gather")],
        post_gather_callbacks=[stage("post_gather")],
        post_trace_callbacks=[stage("post_trace")],
    )
    assert seen == [
        ("pre_save", "forward", 2, 1),
        ("pre_save", "forward", 4, 2),
        ("pre_gather", "forward", [1.0, 2.0], [1, 2]),
        ("post_gather", "forward", [1.0, 2.0], [1, 2], [0, 0]),
        ("post_trace", "forward", [1.0, 2.0], [1, 2], [0, 0]),
    ]


def test_a_callback_that_fails_changes_nothing() -> None:
    def fail(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        values.clear()
        raise ZeroDivisionError("no")

    with pytest.warns(insitu.InsituWarning, match="fail failed on 'forward'.*ZeroDivisionError: no") as told:
        tracer = traced([1, 2, 3], post_gather_callbacks=[fail])
    assert tracer.results["forward"].values == [1, 2, 3]
    assert len(told) == 1


def test_an_exception_passes_and_earlier_values_are_kept() -> None:
    model, undisturbed = Model(), Model()
    tracer = ModelTracer(model, ["forward.x"], gathering_interval=4, post_trace_callbacks=[stack_tensors])
    with pytest.raises(RuntimeError, match="mat1 and mat2"), tracer:
        model(torch.ones(2, 4))
        model(torch.ones(2, 5))
    assert tracer.results["forward.x"].iterations == [1, 2]
    assert model._forward_hooks == undisturbed._forward_hooks
    assert model._forward_pre_hooks == undisturbed._forward_pre_hooks
    with tracer:
        model(torch.zeros(2, 4))
    assert tracer.results["forward.x"].iterations == [1, 2, 3]


def test_a_copy_of_the_model_is_not_traced(tmp_path: Path) -> None:
    model = Same()
    with ModelTracer(model, ["forward"]) as tracer:
        model(1)
        twin = copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
        twin(2)
        torch.load(tmp_path / "model.pt", weights_only=False)(3)
        model(4)
    assert tracer.results["forward"] == ResultEntry([1, 2], [0, 0], [1, 4])
    assert pickle.loads(pickle.dumps(tracer.results)) == tracer.results


def test_a_model_that_calls_itself_is_one_iteration() -> None:
    class Tree(nn.Module):
        def forward(self, depth: int) -> int:
            return 1 if depth == 0 else self(depth - 1) + 1  # type: ignore[no-any-return]

    model = Tree()
    with ModelTracer(model, ["forward.depth"]) as tracer:
        model(2)
        model(1)
    assert tracer.results["forward.depth"] == ResultEntry([1, 1, 1, 2, 2], [0] * 5, [2, 1, 0, 1, 0])


def test_the_run_is_the_same_with_and_without() -> None:
    def run(trace: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = Model()
        optimizer = optim.Adam(model.parameters())
        tracer = ModelTracer(model, ["forward.*", "encoder.**"], gathering_interval=2)
        if trace:
            tracer.__enter__()
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().sum().backward()
            optimizer.step()
        if trace:
            tracer.__exit__(None, None, None)
        return [*(parameter.detach() for parameter in model.parameters()), torch.get_rng_state()]

    assert all(map(torch.equal, run(False), run(True)))


def test_trace_model_and_traced_model() -> None:
    model = Same()
    output, tracer = trace_model(model, ["forward"], 5)
    assert (output, tracer.results["forward"].values) == (5, [5])
    model = TracedModel(model, ["forward"], trace_interval=2)
    assert [model(number) for number in range(5)] == list(range(5))
    assert model.tracer.results["forward"] == ResultEntry([2, 4], [0, 0], [1, 3])
    model = TracedModel(Same(), ["forward"], gathering_interval=4)
    for number in range(5):
        model(number)
    assert model.tracer.results["forward"].values == [0, 1, 2, 3]
    model.close()
    assert model.tracer.results["forward"].values == [0, 1, 2, 3, 4]


def test_stacking() -> None:
    values: list[Any] = [torch.ones(2, 1, dtype=torch.bfloat16), torch.ones(1, 3, dtype=torch.bfloat16), torch.ones(())]
    stack_padded_tensors("x", values, [1, 2, 3])
    assert values[0].tolist() == [[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]]
    assert values[0].dtype is torch.float32
    values = [1, 2.5, numpy.float32(3)]
    stack_tensors("x", values, [1, 2, 3])
    assert values[0].tolist() == [1, 2.5, 3]
    values = []
    stack_padded_tensors("x", values, [])
    assert values[0].shape == (0,)
    with pytest.raises(TypeError, match="a NoneType among them"):
        stack_padded_tensors("x", [1, None], [1, 2])


def test_the_file_has_values_iterations_and_ranks(tmp_path: Path) -> None:
    found = saved(tmp_path / "new" / "a.h5", floats(1, 1, 2))
    assert found["forward"].tolist() == [[1], [2]]
    assert found["forward_iterations"].tolist() == [1, 3]
    assert found["forward_ranks"].tolist() == [0, 0]
    assert found["forward_iterations"].dtype == numpy.int64


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (torch.tensor([2**40 + 1]), "int64"),
        (torch.tensor([0.1], dtype=torch.float64), "float64"),
        (torch.tensor([1 + 2j]), "complex64"),
        (torch.tensor([True, False]), "bool"),
        (torch.tensor([200], dtype=torch.uint8), "uint8"),
        (torch.tensor([2**63 + 5], dtype=torch.uint64), "uint64"),
        (numpy.array([2**40 + 1]), "int64"),
        (torch.tensor(1.5, dtype=torch.float16), "float16"),
        (2**40 + 1, "int64"),
        (0.1, "float64"),
        (True, "bool"),
        (torch.zeros(0, 3), "float32"),
    ],
)
def test_numbers_are_saved_as_they_are(tmp_path: Path, value: Any, dtype: str) -> None:
    found = saved(tmp_path / "a.h5", [value])["forward"]
    assert found.dtype == dtype
    assert numpy.array_equal(found[0], value.numpy() if isinstance(value, Tensor) else value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_floats_without_a_numpy_dtype_are_exact(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = torch.arange(2 ** (8 * dtype.itemsize)).to(torch.int16 if dtype.itemsize == 2 else torch.uint8)
    found = saved(tmp_path / "a.h5", [bits.view(dtype)])["forward"][0]
    back = torch.from_numpy(found).to(dtype)
    assert torch.equal(back.float().nan_to_num(7), bits.view(dtype).float().nan_to_num(7))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["forward"].attrs["torch_dtype"] == str(dtype).removeprefix("torch.")


def test_texts_and_values_without_an_array_form_are_saved(tmp_path: Path) -> None:
    found = saved(tmp_path / "a.h5", ["ä", "b\0c", None, 2**70, 3])
    assert found["forward"].tolist() == ["ä", "b\\x00c", "None", str(2**70)]
    assert found["forward_iterations"].tolist() == [1, 2, 3, 4]
    assert (found["forward@int64"].tolist(), found["forward@int64_iterations"].tolist()) == ([3], [5])


def test_shapes_may_grow_and_shrink(tmp_path: Path) -> None:
    found = saved(tmp_path / "a.h5", [torch.ones(2, 2), torch.ones(1, 3), torch.ones(3, 1), torch.ones(4)])
    assert found["forward"].shape == (3, 3, 3)
    assert found["forward_shapes"].tolist() == [[2, 2], [1, 3], [3, 1]]
    rows = [row[tuple(map(slice, shape))] for row, shape in zip(found["forward"], found["forward_shapes"], strict=True)]
    assert all((row == 1).all() for row in rows)
    assert found["forward"].sum() == sum(row.size for row in rows)
    assert found["forward@float32@1d"].tolist() == [[1, 1, 1, 1]]


def test_the_dtypes_and_the_compression_that_were_asked_for(tmp_path: Path) -> None:
    options = {"float_dtype": numpy.float16, "compression": "gzip", "compression_opts": 9, "shuffle": True}
    options |= {"iteration_dtype": numpy.int32}
    assert saved(tmp_path / "a.h5", floats(1.5, 2.5), **options)["forward"].dtype == numpy.float16
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["forward"].compression, file["forward"].compression_opts, file["forward"].shuffle) == (
            "gzip",
            9,
            True,
        )
        assert file["forward_iterations"].dtype == numpy.int32


def test_a_number_too_large_for_the_dtype_asked_for_is_not_cut(tmp_path: Path) -> None:
    values = [torch.tensor([5]), torch.tensor([2**40 + 1])]
    with pytest.warns(insitu.InsituWarning, match="does not fit in int32 and is saved as int64"):
        found = saved(tmp_path / "a.h5", values, int_dtype=numpy.int32)
    assert (found["forward"].dtype, found["forward"].tolist()) == (numpy.int32, [[5]])
    assert (found["forward@int64"].tolist(), found["forward@int64_iterations"].tolist()) == ([[2**40 + 1]], [2])


def test_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    saved(path, floats(1))
    with pytest.raises(ValueError, match="exists already"):
        H5PYSaverCallback(str(path), existing_ok=False)
    assert h5py.File(path)["forward"].shape == (1, 1)
    assert saved(path, floats(2, 3))["forward"].tolist() == [[2], [3]]
    H5PYSaverCallback(path).close()
    with h5py.File(path) as file:
        assert list(file) == []


def test_names_that_hdf5_does_not_allow_are_escaped(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: int) -> int:
            x_iterations = x + 1
            d = {"a/b": x, "%": x}
            return x_iterations + len(d)

    model = Odd()
    with H5PYSaverCallback(tmp_path / "a.h5") as saver:
        with ModelTracer(model, ["forward.x", "forward.x_iterations", "forward.d.*"], post_gather_callbacks=[saver]):
            model(5)
        assert saver.datasets["forward.d.a/b"][()].tolist() == [5]
    with h5py.File(tmp_path / "a.h5") as file:
        assert {item.attrs["name"]: item[0] for item in file.values() if "name" in item.attrs} == {
            "forward.x": 5,
            "forward.x_iterations": 6,
            "forward.d.a/b": 5,
            "forward.d.%": 5,
        }


def test_the_file_survives_a_kill(tmp_path: Path) -> None:
    program = """
import os, signal, torch, tensortrace
model = torch.nn.Identity()
saver = tensortrace.H5PYSaverCallback("a.h5")
with tensortrace.ModelTracer(model, ["forward"], post_gather_callbacks=[saver]):
    for number in range(50):
        model(torch.full((300,), float(number)))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True)
    assert done.returncode == -9, done.stderr
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["forward"][:, 0].tolist() == list(range(49))  # the last one had not begun to be handed on


def test_a_full_disk_leaves_the_values_in_the_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(tmp_path).free
    saver = H5PYSaverCallback(tmp_path / "a.h5")
    model = Same()
    # A value that the disk has no room for: one row, repeated without memory.
    large = torch.zeros(1).expand(free // 4 + 1)
    with pytest.raises(OSError, match="are left"):
        saver("forward", [large], [1], [0])
    with pytest.warns(insitu.InsituWarning, match="H5PYSaverCallback failed on 'forward'"):
        monkeypatch.setattr("tensortrace.h5py_tracer.SPARE", free * 2)
        with ModelTracer(model, ["forward"], post_gather_callbacks=[saver]) as tracer:
            model(1)
    assert tracer.results["forward"].values == [1]


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    assert dict(traced([1, 2]).results) == {}


def test_the_readme_names_the_package() -> None:
    text = (Path(tensortrace.__file__).parents[2] / "README.md").read_text("utf-8")
    assert re.search(r"`tensortrace` \| TensorTracer \|", text)
