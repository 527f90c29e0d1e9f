"""Models are checked in a process of their own, which may hang, run out of memory or die: the others go on."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from tests.zoo.check import Result, check
from tests.zoo.families import models
from tests.zoo.model import Model

BATCH = 100  # a new process for so many: what libraries keep for ever does not pile up
SECONDS = 600  # of a machine that may be busy
BYTES = 6 << 30
TRACED = "it is traced"
Source = Callable[[], Iterable[Model]]


def check_all(names: Sequence[str], source: Source = models) -> Iterator[Result]:
    """Check models by name, one after the other."""
    left = list(names)
    while left:
        for number, result in enumerate(checked_in_process(left[:BATCH], source)):
            if number and is_starved(result):  # those before it may have taken the memory: again, in a new process
                break
            left.remove(result.name)
            yield result


def is_starved(result: Result) -> bool:
    """Whether a model had too little memory."""
    return any("MemoryError" in reason or "allocate memory" in reason for reason in result.reasons)


def checked_in_process(names: Sequence[str], source: Source) -> Iterator[Result]:
    """Check models in one process, up to the first that ends it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(list(names), source, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        for name in names:
            stage, result = awaited(ours)
            yield result or lost(name, process, stage)
            if result is None:
                return
    finally:
        process.kill()
        process.join()


def awaited(connection: Connection) -> tuple[str, Result | None]:
    """How far a model came, and its result if there is one."""
    stage = ""
    try:
        while connection.poll(SECONDS):
            message = connection.recv()
            if isinstance(message, Result):
                return stage, message
            stage = message
    except EOFError:
        pass
    return stage, None


def lost(name: str, process: BaseProcess, stage: str) -> Result:
    """The result of a model whose process gave none: the tool's fault only if the model had run alone before."""
    process.join(1)
    code = process.exitcode
    why = f"takes more than {SECONDS} s" if code is None else f"ends the process with {code}"
    if stage == TRACED:
        return Result(name, "failed", [f"{why} when {TRACED}"])
    return Result(name, "not built", [why])


def work(names: list[str], source: Source, connection: Connection) -> None:
    """Check models and send what becomes of them: what runs in the process."""
    limited()
    found = {model.name: model for model in source()}
    gc.freeze()  # the libraries are large, and would be walked again and again
    for name in names:
        connection.send(check(found[name], begun=lambda: connection.send(TRACED)))
        gc.collect()  # errors hold their frames, and those a model


def limited() -> None:
    """One thread, so much memory, and no word of the libraries."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
