"""What holds for the project as a whole: which folder may import which, sizes, versions."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.versions.interpreters import other_interpreters

import insitu
import insitu.view

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "insitu"
DROPINS = ROOT / "dropins" / "src"
FILES = sorted([*SOURCE.rglob("*.py"), *DROPINS.rglob("*.py")])

# What the files of a folder may import besides the standard library and their own folder.
ALLOWED = {
    "trace": {"insitu.errors", "numpy", "pandas"},
    "view": {"insitu.errors", "insitu.ipython", "insitu.trace"},
    "store": {
        "insitu.errors",
        "insitu.operating_system",
        "insitu.trace",
        "numpy",
        "h5py",
        "xxhash",
        "ml_dtypes",
        "hdf5plugin",
        "pandas",
    },
    "capture/variables/follow": {"insitu.errors"},
    "capture": {
        *("insitu.errors", "insitu.ipython", "insitu.operating_system", "insitu.trace", "insitu.tracebacks"),
        *("numpy", "torch", "xxhash"),
    },
}
# The one step back, inside a function: print(trace) shows the tree, print(diff) the difference, a notebook all of them.
BACK = {
    ("trace/event.py", "insitu.view.notebook"),
    ("trace/trace.py", "insitu.view"),
    ("trace/diff.py", "insitu.view.diff"),
    ("trace/diff.py", "insitu.view.reason"),
    ("trace/diff.py", "insitu.view.notebook"),
    ("trace/trace.py", "insitu.view.notebook"),
    ("trace/explain/explanation.py", "insitu.view.error"),
    ("trace/explain/explanation.py", "insitu.view.notebook"),
    ("trace/findings.py", "insitu.view.finding"),
    ("trace/findings.py", "insitu.view.notebook"),
    ("store/run/run.py", "insitu.view.notebook"),
    ("store/run/series.py", "insitu.view.notebook"),
}
# Only these import torch as soon as they are imported themselves.
WITH_TORCH = ("capture", "session", "demo.py")


@dataclass(frozen=True)
class Import:
    """One import statement: the module, the names taken from it, and whether importing the file runs it."""

    module: str
    names: tuple[str, ...]
    at_once: bool
    line: int


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file, those inside functions too; what only a type checker sees is left out."""
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text("utf-8")), True)]
    while waiting:
        node, at_once = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, (), at_once, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import(_absolute(node, path), tuple(alias.name for alias in node.names), at_once, node.lineno)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += [(child, at_once) for child in node.orelse]
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            waiting += [(child, at_once and not inside) for child in ast.iter_child_nodes(node)]


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = path.relative_to(DROPINS if path.is_relative_to(DROPINS) else SOURCE.parent).parts[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def modules(found: Import) -> list[str]:
    """The modules that are meant: `from insitu import store` means insitu.store."""
    return [f"insitu.{name}" for name in found.names] if found.module == "insitu" else [found.module]


def is_standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


def within(module: str, allowed: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


@pytest.mark.parametrize("folder", ALLOWED)
def test_data_goes_one_way(folder: str) -> None:
    allowed = ALLOWED[folder] | {f"insitu.{folder.replace('/', '.')}"}
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {module}"
        for path in sorted((SOURCE / folder).rglob("*.py"))
        for found in imports(path)
        for module in modules(found)
        if not is_standard(module) and not within(module, allowed)
        if found.at_once or (path.relative_to(SOURCE).as_posix(), module) not in BACK
    ]
    assert wrong == []


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """Which modules of insitu each of them imports, inside functions too, but for the declared steps back."""
    names = {module_name(path): path for path in SOURCE.rglob("*.py")}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for found in imports(path):
            if (path.relative_to(SOURCE).as_posix(), found.module) in BACK:
                continue
            inner = {f"{found.module}.{each}" for each in found.names}
            graph[name] |= (inner & names.keys()) or ({found.module} & names.keys())
        graph[name].discard(name)  # code that torch runs in place of its own imports the file that it is from
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A way from a module back to itself; empty if there is none."""
    done: set[str] = set()

    def search(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        done.add(name)
        return next((found for each in sorted(graph[name]) if (found := search(each, [*way, name]))), [])

    return next((found for name in graph if (found := search(name, []))), [])


def test_there_is_no_cycle_of_imports_even_inside_functions() -> None:
    assert cycle(import_graph()) == []


def test_the_check_of_cycles_finds_one() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_only_capture_and_the_session_import_torch_at_once() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in WITH_TORCH
        for found in imports(path)
        if found.at_once and within(found.module, {"torch", "insitu.session", "insitu.capture"})
    ]
    assert wrong == []


INTERNALS = (SOURCE / "capture" / "torch_internals.py", SOURCE / "capture" / "torch_compiler_internals.py")
# These must not import torch, so they cannot import the files above. `trace` knows operators by their recorded names;
# `follow` looks for the submodules of any object.
WITHOUT_TORCH = ("trace", "view", "store", "capture/variables/follow")
# Private attributes of Python itself and of other packages, which happen to be names of torch as well.
NOT_OF_TORCH = frozenset({"_fields", "_getframe", "_module", "_actions"})
PRIVATE_OF_TORCH = re.compile(r"\b(?:torch|nn|autograd|dynamo|Tensor|Module)(?:\.\w+)*\._[a-zA-Z]\w*")


def private_names() -> set[str]:
    """The private names of torch that torch_internals.py mentions, and all those of tensors, modules and nodes."""
    node = (torch.ones((), requires_grad=True) + 1).grad_fn
    owners = (
        torch,
        torch._C,
        torch.Tensor,
        torch.nn.Linear(1, 1),
        node,
        torch.ops.aten.add.Tensor,
        torch.UntypedStorage,
    )
    held = {name for owner in owners for name in dir(owner) if name.startswith("_") and not name.startswith("__")}
    return (mentioned_names() | held) - NOT_OF_TORCH


def mentioned_names() -> set[str]:
    """The private names of torch in the texts of torch_internals.py and torch_compiler_internals.py."""
    found = [text for path in INTERNALS for text in texts(ast.parse(path.read_text("utf-8")))]
    return set(re.findall(r"(?<!\w)_[a-z]\w*", " ".join(found)))


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text of a file but docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield node.value


def uses_of_private_torch(tree: ast.AST, private: set[str]) -> Iterator[tuple[int, str]]:
    """Lines that name a private part of torch: imports, attributes of torch or of anything but `self`, texts."""
    private = private - own_attributes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if any(part.startswith("_") for part in parts):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if PRIVATE_OF_TORCH.match(alias.name))
        elif isinstance(node, ast.Attribute) and (
            PRIVATE_OF_TORCH.search(ast.unparse(node)) or is_foreign(node, private)
        ):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and is_private_text(node.value, private):
            yield node.lineno, repr(node.value)


def own_attributes(tree: ast.AST) -> set[str]:
    """The attributes that classes of a file give themselves, but for those that torch_internals.py mentions."""
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {node.attr for node in stored if ast.unparse(node.value) == "self"} - mentioned_names()


def is_private_text(value: object, private: set[str]) -> bool:
    return isinstance(value, str) and bool(private) and (value in private or PRIVATE_OF_TORCH.match(value) is not None)


def is_foreign(node: ast.Attribute, private: set[str]) -> bool:
    """Whether an attribute has a private name of torch and does not belong to a class of the same file."""
    owner = ast.unparse(node.value)
    return node.attr in private and owner.split(".")[0] not in ("self", "cls", "same")  # `same` is the copy of a `self`


def test_private_names_of_torch_are_in_two_files() -> None:
    private = private_names()
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path not in INTERNALS
        for line, text in uses_of_private_torch(
            ast.parse(path.read_text("utf-8")), private if not is_in(path, WITHOUT_TORCH) else set()
        )
    ]
    assert wrong == []


def is_in(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(SOURCE / folder) for folder in folders)


@pytest.mark.parametrize(
    "line",
    [
        "from torch._C import DisableTorchFunction",
        "from torch import _C",
        "import torch._dynamo",
        "x = tensor._version",
        "x = torch.autograd.graph._engine_run_backward",
        "x = node._sequence_nr()",
        "x = getattr(module, '_parameters')",
        "x = 'torch._dynamo.eval_frame'",
        "x = node.grad_fn._saved_alpha",
    ],
)
def test_the_check_of_private_names_sees_every_form(line: str) -> None:
    assert list(uses_of_private_torch(ast.parse(line), private_names()))


def test_no_two_classes_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


# Phrases that readers stumble over. Docstrings, comments and messages say it in plain English.
STUMBLES = re.compile(
    r"\b(?:(?:is|are) no\b(?! longer| more)|stands? (?:in|for itself|there)\b|tells? of\b|also (?:when|where|if)\b"
    r"|who knows\b|no news\b|is said\b|part at\b|in the end\b|of one's own\b|besides(?=[:,.])|made of\b|nobody saw\b"
    r"|what lies in\b)"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_are_plain_english(path: Path) -> None:
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    texts = [(number, line) for number, line in lines if '"' in line or "#" in line]
    assert [(number, line.strip()) for number, line in texts if STUMBLES.search(line)] == []


def test_pandas_waits_until_it_is_asked_for() -> None:
    at_once = [path for path in FILES for found in imports(path) if found.at_once and within(found.module, {"pandas"})]
    assert at_once == []


def test_the_drop_ins_use_nothing_but_the_public_names() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module} {found.names}"
        for path in sorted(DROPINS.rglob("*.py"))
        for found in imports(path)
        if not is_standard(found.module)
        and not within(found.module, {path.relative_to(DROPINS).parts[0]})
        and not within(found.module, {"h5py", "numpy", "torch", "xxhash"})
        and not (found.module == "insitu" and set(found.names) <= set(insitu.__all__))
        and not (found.module == "insitu.view" and set(found.names) <= set(insitu.view.__all__))
    ]
    assert wrong == []


def test_the_check_of_imports_sees_every_form(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(
        "import a.b, c\nfrom d import e, f\nif TYPE_CHECKING:\n import g\nelse:\n import h\n"
        "def i():\n import j\nclass k:\n import m\ntry:\n import n\nexcept ImportError:\n pass\n"
    )
    found = {(item.module, item.names, item.at_once) for item in imports(tmp_path / "file.py")}
    assert found == {
        *(("a.b", (), True), ("c", (), True), ("d", ("e", "f"), True), ("h", (), True)),
        *(("j", (), False), ("m", (), True), ("n", (), True)),
    }


def test_importing_insitu_imports_no_torch() -> None:
    program = (
        "import insitu, sys; print([name for name in ('torch', 'numpy', 'h5py', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_public_names_are_sorted_and_there() -> None:
    assert insitu.__all__ == sorted(insitu.__all__)
    assert [name for name in insitu.__all__ if not hasattr(insitu, name)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_one_idea(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) < 600
    assert path.stem not in {"utils", "util", "common", "helpers", "misc"}


def test_the_versions_agree() -> None:
    project = tomllib.loads((ROOT / "dropins" / "pyproject.toml").read_text())["project"]
    assert project["version"] == insitu.__version__
    assert f"insitu=={insitu.__version__}" in project["dependencies"]


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert next(version for version in versions if version != "Unreleased") == insitu.__version__


def test_the_pinned_torch_is_in_the_declared_range() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pins["torch"].split(".")[0] == "2" and "torch>=2.6,<3" in declared["dependencies"]
    tools = {re.split(r"[><=]", name)[0] for name in declared["optional-dependencies"]["dev"]}
    assert tools <= set(pins)


_CAPTURED = {"capture_output": True, "text": True, "check": False, "timeout": 60}


# Not a script of its own: the Python that runs it has neither numpy nor torch.
ELSEWHERE = """
import sys
from insitu.trace.event import Call, ModuleFacts, Site, TensorFacts
from insitu.trace.trace import Trace
from insitu import view
x = TensorFacts(1, (2, 3), "f32", "cpu")
place = Site("model.py", 3, "forward", "y = x.relu()", 4, 12)
module = ModuleFacts("act", "ReLU")
trace = Trace([
    Call(0, None, "module", "ReLU", module, (x,), {}, x, None, place, 0, 9),
    Call(1, 0, "function", "torch.relu", module, (x,), {}, x, None, place, 1, 5),
])
assert trace.find("act") == [trace[0]] and trace.consumers(x) == trace.calls
for name in view.VIEWS:
    view.show(trace, view=name, color=False, width=100)
assert not {"torch", "numpy", "pandas"} & set(sys.modules)
"""


if OTHERS := other_interpreters():  # without another Python there is no test, rather than one that is skipped

    @pytest.mark.parametrize("python", OTHERS)
    def test_traces_and_views_work_on_other_pythons(python: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run([python, "-W", "error", "-c", ELSEWHERE], env=environment, **_CAPTURED)
        assert done.returncode == 0, done.stderr
        assert "f32[2, 3]" in done.stdout
