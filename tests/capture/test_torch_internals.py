"""Private parts of torch: all are there in this torch, and each may be missing in another one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from insitu.capture import torch_internals

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


@pytest.fixture(scope="module")
def without() -> dict[str, Any]:
    """What happens without each part, by its name."""
    names = [name for name in torch_internals.INTERNALS if not name.startswith("torch._dynamo")]
    command = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in rows}


def test_this_torch_has_every_part() -> None:
    assert [part.name for part in torch_internals.INTERNALS.values() if part.is_missing] == []


def test_each_part_says_why_it_is_needed_and_what_is_off_without_it() -> None:
    for part in torch_internals.INTERNALS.values():
        assert part.why and part.since and part.without, part.name


def test_a_missing_part_breaks_nothing(without: dict[str, Any]) -> None:
    assert {name: row["error"] for name, row in without.items() if "error" in row} == {}


def test_a_missing_part_is_reported_once(without: dict[str, Any]) -> None:
    for name, row in without.items():
        part = torch_internals.INTERNALS[name]
        expected = f"torch {torch.__version__} does not have {name}, so {part.without}"
        assert row["messages"] == [expected], name


def test_recording_goes_on_at_the_levels_that_need_nothing_missing(without: dict[str, Any]) -> None:
    counts = {name: row["counts"] for name, row in without.items()}
    modules, functions, operators = 3, 5, 20
    assert counts["torch._mkldnn"] == {"modules": modules, "functions": functions, "aten": operators}
    assert counts["torch._C._push_on_torch_function_stack"] == {"modules": 3, "functions": 3, "aten": 3}
    assert counts["torch._C._push_on_torch_dispatch_stack"] == {"modules": 3, "functions": functions, "aten": 6}
    assert counts["torch.nn.Module._call_impl"]["modules"] == 0
