"""Where a module around a call was made: what is known about the module, for `trace.module_source` to find its line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from insitu.capture.explain.reading import Reading
from insitu.capture.sites import Sites, is_hidden
from insitu.trace.event import Site
from insitu.trace.module_source import ModuleSource, SourceClass, construction

TORCH = "torch.nn."


def definition_of(reading: Reading, at: int) -> Site | None:
    """Where the innermost module around a call was made; None if it is not one of torch, or its line is not known."""
    modules = [module for callee in reading.modules(at) if (module := callee.ref()) is not None]
    if not modules or not is_own(modules[-1]):
        return None
    line = construction(source_of_module(reading, at, modules))
    if line is None:
        return None
    return Sites().line(line.file, line.line, "", None)


def source_of_module(reading: Reading, at: int, modules: list[nn.Module]) -> ModuleSource:
    """What is known about the last of some modules, each of which is inside the one before."""
    owner, module = [nn.Module(), *modules][-2:]
    names = {id(child): name for name, child in owner.named_children()}
    source = ModuleSource(
        kind=type(module).__name__,
        name=names.get(id(module), ""),
        classes=tuple(classes_around(reversed(modules[:-1]))),
        files=tuple(dict.fromkeys(files_around(reading, at))),
    )
    if not isinstance(owner, nn.Sequential) or not source.name:
        return source
    siblings = tuple(type(child).__name__ for child in owner.children())
    return replace(source, siblings=siblings, index=list(names).index(id(module)))


def is_own(module: nn.Module) -> bool:
    """Whether a module is one of torch."""
    return type(module).__module__.startswith(TORCH)


def classes_around(modules: Iterator[nn.Module]) -> Iterator[SourceClass]:
    """The classes of modules that the user wrote."""
    for module in modules:
        if is_own(module):
            continue
        for kind in type(module).__mro__:
            file = source_file(kind)
            if file:
                yield SourceClass(file, kind.__name__)


def source_file(kind: type) -> str:
    """The file of a class of the user; empty if it is not known."""
    try:
        file = inspect.getsourcefile(kind) or ""
    except (TypeError, OSError):
        return ""
    if is_hidden(file):
        return ""
    return file


def files_around(reading: Reading, at: int) -> Iterator[str]:
    """The files of the user's code that a call was made in, the innermost first."""
    for each in reading.ancestors(at):
        codes = reading.tape.frames(each)[::2]
        yield from (code.co_filename for code in codes if code is not None and not is_hidden(code.co_filename))
