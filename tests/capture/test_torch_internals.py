"""Private parts of torch: this torch has all that are known of it, and each may be missing in another one."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import insitu
from insitu.capture import torch_internals, torch_parts, torch_versions
from insitu.capture.torch_versions import release

# Runs in a process of its own, which forks one child for each part. The child removes the part before insitu is
# imported, records a small training step at each level, and prints what it was warned about.
PROGRAM = '''
import builtins, json, os, sys, warnings
import torch
from torch import nn
import torch.utils.checkpoint, torch.utils.flop_counter

def import_without(name):
    """Import insitu while torch does not have a part. It is put back afterwards, for torch itself uses many of them."""
    path, _, own = name.rpartition(".")
    owner = torch
    for part in path.split(".")[1:]:
        owner = getattr(owner, part)
    found = getattr(owner, own)
    try:
        delattr(owner, own)
    except (TypeError, AttributeError):  # an attribute of a class written in C: hide it from the look-up
        usual = builtins.getattr
        builtins.getattr = lambda item, key, *rest: (
            rest[0] if item is owner and key == own and rest else usual(item, key, *rest)
        )
        import insitu.capture.torch_internals
        builtins.getattr = usual
    else:
        import insitu.capture.torch_internals
        setattr(owner, own, found)

def record():
    import insitu
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    counts = {}
    for level in ("modules", "functions", "aten"):
        with insitu.record(net, level=level, keep="stats") as trace:
            net(torch.ones(1, 2)).sum().backward()
        counts[level] = len(trace.events)
    with insitu.guard(net):
        net(torch.ones(1, 2)).sum().backward()
    return counts

def child(name):
    import_without(name)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        counts = record()
    messages = [text for each in heard if (text := str(each.message)).startswith("torch ")]
    print(json.dumps({"name": name, "counts": counts, "messages": messages}), flush=True)

for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        try:
            child(name)
        except BaseException as error:
            print(json.dumps({"name": name, "error": repr(error)}), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
'''


HERE = release(torch.__version__)
pytestmark = pytest.mark.timeout(500)  # a process for each part


@pytest.fixture(scope="module")
def without() -> dict[str, Any]:
    """What happens without each part, by its name."""
    names = [
        part.name
        for part in torch_internals.INTERNALS.values()
        if not part.is_missing and not part.name.startswith("torch._dynamo")
    ]
    command = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in rows}


def test_this_torch_has_every_part() -> None:
    """A part that is gone from a new torch: what is off there, by the name of the part."""
    parts = torch_internals.INTERNALS.values()
    off = {part.name: part.without for part in parts if part.is_missing and release(part.since) <= HERE}
    assert off == {}


def test_an_older_torch_lacks_a_part_only_where_the_table_says_so() -> None:
    parts = torch_internals.INTERNALS.values()
    assert [part.name for part in parts if not part.is_missing and release(part.since) > HERE] == []


def test_each_part_says_why_it_is_needed_and_what_is_off_without_it() -> None:
    for part in torch_internals.INTERNALS.values():
        assert part.why and part.since and part.without, part.name


def test_a_missing_part_breaks_nothing(without: dict[str, Any]) -> None:
    assert {name: row["error"] for name, row in without.items() if "error" in row} == {}


def test_a_missing_part_is_reported_once(without: dict[str, Any]) -> None:
    for name, row in without.items():
        part = torch_internals.INTERNALS[name]
        expected = f"torch {torch.__version__} does not have {name}, so {part.without}"
        assert row["messages"] == ([] if part.is_rare else [expected]), name


def test_a_part_that_is_rarely_used_is_reported_when_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    name = torch_internals.UNPACK_HOOK
    part = replace(torch_internals.INTERNALS[name], is_missing=True)
    monkeypatch.setitem(torch_internals.INTERNALS, name, part)
    monkeypatch.setattr(torch_parts, "_told", set())
    with pytest.warns(insitu.InsituWarning, match="changed in place do not name the call that changed them"):
        assert torch_internals.is_packed_by_hook(object())


def test_a_part_with_an_earlier_form_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_parts, "_told", set())
    gone = torch_parts.Internal("torch._gone", "is gone", "2.6", "nothing works", is_missing=True, earlier="torch.add")
    torch_parts.report_part(gone)
    with pytest.warns(insitu.InsituWarning, match=r"does not have torch._gone, so nothing works"):
        torch_parts.report_part(replace(gone, earlier="torch.not_there"))


def test_recording_goes_on_at_the_levels_that_need_nothing_missing(without: dict[str, Any]) -> None:
    counts = {name: row["counts"] for name, row in without.items()}
    modules, functions, operators = 3, 5, 20
    if HERE < (2, 9):
        operators = counts["torch._mkldnn"]["aten"]
    assert counts["torch._mkldnn"] == {"modules": modules, "functions": functions, "aten": operators}
    assert counts["torch._C._push_on_torch_function_stack"] == {"modules": 3, "functions": 3, "aten": 3}
    assert counts["torch._C._push_on_torch_dispatch_stack"] == {"modules": 3, "functions": functions, "aten": 6}
    assert counts["torch.nn.Module._call_impl"]["modules"] == 0


# --- Names that are read from frames and objects, and not looked up in the table -------------------------------------


def test_the_wrapper_of_a_compiled_function_is_known() -> None:
    """The names of the wrapper and of its variables: without them a compiled call is not recorded as one call."""

    @torch.compile(backend="eager")
    def double(x: Tensor) -> Tensor:
        return x * 2

    with insitu.record() as trace:
        double(torch.ones(2))
    calls = [call for call in trace.calls if call.mode == "compiled" and call.parent is None]
    assert [(call.name, [facts.shape for facts in call.outputs]) for call in calls] == [
        ("torch.compile." + double.__qualname__, [(2,)])
    ]
    assert [facts.shape for call in calls for facts in call.inputs] == [(2,)]


def test_the_parts_of_a_jagged_tensor_are_known() -> None:
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged)
    assert torch_internals.jagged_parts(jagged)[1:] == ([0, 2, 5], None, 0)


def test_the_names_of_operators_are_known() -> None:
    add = torch.ops.aten.add
    assert torch_internals.packet_name(add) == "aten::add"
    assert torch_internals.overload_names(add.Tensor) == ("add", "Tensor")
    assert torch_internals.operator_call(add.Tensor) is not add.Tensor
    assert [schema.name for schema in torch_internals.schemas(add.Tensor)] == ["aten::add"]
    assert len(torch_internals.schemas(add)) > 1


def test_the_attributes_of_autograd_nodes_are_known() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    assert getattr(type(Twice.apply(x).grad_fn), torch_internals.FORWARD_CLASS) is Twice
    node = x.exp().grad_fn
    assert torch_internals.saved_names(node) == ["_saved_result"]
    assert list(torch_internals.packed_names(node)) == [("_raw_saved_result", "_saved_result")]


def test_the_wrappers_of_torch_are_known() -> None:
    lacking = []
    for name, attribute in torch_internals.WRAPPERS.items():
        module, _, own = name.rpartition(".")
        source = inspect.getsource(getattr(import_module(module), own))
        if attribute not in source and attribute not in inspect.getsource(import_module(module)):
            lacking.append(name)
    assert lacking == []


def test_the_error_that_stops_a_recomputation_is_known() -> None:
    module, name = torch_internals.STOP_RECOMPUTATION
    assert issubclass(getattr(import_module(module), name), Exception)


# --- Versions that were never tried -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.5.1", "2.16.0a0+git1", "3.0.0", "unknown"])
def test_a_torch_that_was_never_tried_is_reported_once(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_versions, "_reported", set())
    with pytest.warns(insitu.InsituWarning, match=re.escape(f"never with torch {version}")) as heard:
        torch_versions.report_untried(version)
        torch_versions.report_untried(version)
    assert len(heard) == 1
    assert "docs/versions.md has the table" in str(heard[0].message)


def test_the_first_session_reports_a_torch_that_was_never_tried() -> None:
    program = """if True:
        import torch
        torch.__version__ = "2.99.0"
        import insitu
        for _ in range(2):
            with insitu.record():
                torch.ones(2) + 1
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert done.stderr.count("insitu was tried with torch") == 1
    assert "never with torch 2.99.0" in done.stderr


@pytest.mark.parametrize("version", ["2.6.0", "2.13.0+cpu", "2.15.3"])
def test_a_torch_between_those_that_were_tried_is_not_reported(version: str) -> None:
    torch_versions.report_untried(version)


def test_the_versions_that_were_tried_are_those_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text("utf-8")
    tried = sorted(release(version) for version in re.findall(r"^\| (\d\S+) \| 3\.", page, re.MULTILINE))
    assert (tried[0], tried[-1]) == (release(torch_versions.OLDEST), release(torch_versions.NEWEST))
