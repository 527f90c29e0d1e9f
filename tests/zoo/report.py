"""The results of the zoo as text: a line for each model, counts for each family, a page."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from tests.zoo.check import Result


def line(result: Result, number: int, count: int) -> str:
    """One model as it goes."""
    cost = f"{result.operators:6} operators  {result.slowdown:5.2f} times" if result.slowdown else ""
    return f"{number:4}/{count}  {result.state:10} {result.name:50} {cost or '; '.join(result.reasons)}"


def families(results: Sequence[Result]) -> list[str]:
    """The families in order."""
    return list(dict.fromkeys(result.family for result in results))


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The table: counts and slowdown of each family, and of all."""
    found = [row(name, [result for result in results if result.family == name]) for name in families(results)]
    return [*found, row("all", results)] if len(found) > 1 else found


def row(name: str, results: Sequence[Result]) -> tuple[str, ...]:
    """A line of the table."""
    counts = [sum(result.state == state for result in results) for state in ("passed", "failed", "not built")]
    costs = sorted(result.slowdown for result in results if result.slowdown)
    operators = sum(result.operators for result in results)
    quartiles = statistics.quantiles(costs, n=4) if len(costs) > 1 else costs * 3
    return name, *map(str, counts), f"{operators:,}", *(f"{cost:.2f}" for cost in quartiles)


HEAD = ("family", "passed", "failed", "not built", "operators", "slowdown, quartile", "median", "quartile")


def summary(results: Sequence[Result]) -> str:
    """Counts for each family, what could not be built, what failed."""
    table = [HEAD, *rows(results)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["", *("  ".join(map(str.rjust, each, widths)) for each in table)]
    for state, head in (("not built", "cannot be built here"), ("failed", "failed")):
        found = [result for result in results if result.state == state]
        if found:
            lines += ["", f"{head}:", *(f"  {result.name}  {reason}" for result in found for reason in result.reasons)]
    return "\n".join(lines)


def markdown(results: Sequence[Result], count: int) -> str:
    """The page of the documentation, of the results of so many models."""
    table = "\n".join(f"| {' | '.join(each)} |" for each in [HEAD, ("---",) * len(HEAD), *rows(results)])
    failed = [f"- `{result.name}`: {'; '.join(result.reasons)}" for result in results if result.state == "failed"]
    return PAGE.format(
        table=table,
        failed="\n".join(["", "## What failed", "", *failed, ""]) if failed else "",
        ran=f"{len(results)} of the {count} models of the zoo were run"
        if len(results) < count
        else f"All {count} models were run",
        passed=sum(result.state == "passed" for result in results),
        versions=versions(results),
        date=time.strftime("%Y-%m-%d"),
    )


def versions(results: Sequence[Result]) -> str:
    """What the results were made with."""
    found = []
    for name in ("torch", *families(results)):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([f"Python {platform.python_version()}", *found])


PAGE = """# The zoo

{passed} architectures of five libraries, built from small random configs, behave the same with and without insitu.
Each model runs alone, under `record` (at level `functions`, and at level `aten` with statistics) and under `guard`:
forward and, if it trains, backward. A model passes if

- nothing fails, and no trace reports an error of insitu itself;
- outputs, gradients and the random state are the same, bit for bit;
- the trace has exactly the ATen operators that a plain `TorchDispatchMode` sees, in the same order;
- the views can show the traces;
- the guard finds nothing;
- no patch is left.

{ran}, on {date}, with {versions}.

{table}

"Not built" counts the models that cannot be built or run here even without insitu: no small config was found, or they
need a package or files that are not there. They count neither as passed nor as failed. The slowdown is the time of a
run under `insitu.record(model)` divided by the time of a run without insitu, in turn and on one thread. The tensors
are tiny: this is the cost of insitu, not the slowdown of a real model.
{failed}
To repeat it:

```text
make zoo
.venv-zoo/bin/python -m tests.zoo --markdown docs/zoo.md
.venv-zoo/bin/python -m tests.zoo 'transformers/*llama*' --json results.json
```

[Limits](limits.md) lists the limits that were found.
"""
