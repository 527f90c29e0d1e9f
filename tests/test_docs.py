"""The documentation is true: its code and its commands run, and print the output that the page shows.

The blocks of a page share their names and a folder, and run in order. A block with a title is a file of that name. In
shown output, a line that is only `…` matches any lines. `pytest --update` rewrites the output that differs.
"""

from __future__ import annotations

import _thread
import ast
import contextlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch

import insitu

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

# The pages that are made when the site is built.
GALLERY = [
    f"gallery/{name}" for name in re.findall(r'"(\w+\.html)":', (DOCS / "site" / "gallery.py").read_text("utf-8"))
]

FENCED = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
STATED = re.compile(r"#.*exit code (\d+)")
CHANGING = re.compile(r"\s+\d+(\.\d+)?(ns|µs|ms|s)\b|\b\d+(\.\d+)?%|0x[0-9a-f]+|\b\d+\.\d+s\b")


@dataclass
class Block:
    """A fenced block, the output that the page shows below it, and the place of this output in the page."""

    language: str
    title: str
    text: str
    shown: str | None = None
    span: tuple[int, int] = (0, 0)


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    end = -1
    for match in FENCED.finditer(page):
        language, words, text = match.groups()
        if not language:
            assert match.start() == end and found[-1].language in ("python", "sh"), f"output without code: {text:.80}"
            found[-1].shown, found[-1].span = text, match.span(3)
        else:
            title = re.search(r'title="([^"]+)"', words)
            found.append(Block(language, title[1] if title else "", text))
        end = match.end()
    return found


# The code runs in a thread of its own: the call chains that it prints then do not begin in pytest.
AROUND = "try:\n    pass\nexcept BaseException as error:\n    ended.put(error)\nelse:\n    ended.put(None)"


def execute(code: str, file: Path, names: dict[str, Any]) -> str:
    """Run code as a program, and return what it prints."""
    tree, around = ast.parse(code), ast.parse(AROUND)
    assert isinstance(around.body[0], ast.Try)
    around.body[0].body = tree.body or around.body[0].body
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    names["ended"] = ended
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        _thread.start_new_thread(exec, (compile(around, file, "exec"), names))
        failure = ended.get(timeout=100)
    if failure is not None:
        raise failure
    return printed.getvalue()


def command(line: str, file: Path) -> str:
    """Run a command, check its exit code against the comment, and return what it prints to stdout and stderr."""
    stated = STATED.search(line)
    names: dict[str, Any] = {"words": shlex.split(line, comments=True)[1:]}
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        printed = execute("import insitu.cli\ncode = insitu.cli.main(words)", file, names)
    assert names["code"] == (int(stated[1]) if stated else 0), (line, printed, errors.getvalue())
    return printed + errors.getvalue()


def pytest_run(line: str) -> str:
    """Run pytest, check its exit code against the comment, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    words = [sys.executable, "-m", *shlex.split(line, comments=True)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)
    stated = STATED.search(line)
    assert done.returncode == (int(stated[1]) if stated else 0), done.stdout + done.stderr
    return done.stdout


def script_run(line: str) -> str:
    """Run a Python script, alone or on several ranks; nothing of what it prints is shown."""
    name, *words = shlex.split(line, comments=True)
    module = ["-m", "torch.distributed.run", "--standalone"] if name == "torchrun" else []
    program = [sys.executable, "-W", "ignore", *module, *words]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ""


def output(block: Block, file: Path, names: dict[str, Any]) -> str:
    """Run a block from a file of its own, and return what it prints, without paths and threads of this machine."""
    file.parent.mkdir(parents=True)
    file.write_text(block.text, encoding="utf-8")
    lines = block.text.splitlines()
    if block.title:
        Path(block.title).write_text(block.text, encoding="utf-8")
        return ""
    if block.language == "python":
        printed = execute(block.text, file, names)
    else:
        runs = [command(line, file) for line in lines if line.startswith("insitu ")]
        runs += [pytest_run(line) for line in lines if line.startswith("pytest")]
        runs += [script_run(line) for line in lines if line.startswith(("python ", "torchrun "))]
        printed = "".join(runs)
    printed = printed.replace(f"{Path(insitu.__file__).parents[1]}/", "site-packages/")
    printed = re.sub(rf"{re.escape(str(file.parents[1]))}/\w+/", "", printed)
    return re.sub(r"  thread \d+$", "", printed, flags=re.MULTILINE)


def steady(text: str) -> list[str]:
    """The lines without times, percentages and addresses; runs of spaces and rules become one space."""
    return [re.sub(r"[\s─]+", " ", CHANGING.sub("", line)).strip() for line in text.strip().splitlines()]


def fits(printed: str, shown: str) -> bool:
    wanted = "".join("(?:.*\n)*" if line == "…" else re.escape(f"{line}\n") for line in steady(shown))
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in steady(printed))) is not None


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run in; afterwards, restore the random state and what `insitu run` changes in this process."""
    folder = tmp_path.resolve()
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    monkeypatch.setattr(sys, "argv", ["example.py"])
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("INSITU", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield folder
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
@pytest.mark.filterwarnings("default")  # as in a program: some libraries that examples use warn
def test_page_shows_the_output_of_its_code(page: Path, program: Path, request: pytest.FixtureRequest) -> None:
    torch.manual_seed(0)
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    differs: list[tuple[Block, str]] = []
    for number, block in enumerate(blocks(text)):
        printed = output(block, program / str(number) / "example.py", names)
        if block.shown is not None and not fits(printed, block.shown):
            differs.append((block, printed))
    if request.config.getoption("--update"):
        for block, printed in reversed(differs):
            text = text[: block.span[0]] + printed.rstrip() + "\n" + text[block.span[1] :]
        page.write_text(text, encoding="utf-8")
    elif differs:
        block, printed = differs[0]
        assert steady(printed) == steady(block.shown or ""), block.text


def test_ellipsis_line_matches_any_lines() -> None:
    assert fits("a  1.5ms\nb\nc\nd\n", "a 20ns\n…\nd\n")
    assert not fits("a\nb\n", "a\n") and not fits("a\nb\nc\n", "a\n…\nb\n")


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_have_targets(page: Path) -> None:
    for target, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        assert "://" not in target, f"{target}: the documentation is complete without a network"
        if target in GALLERY:
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.is_file() and found.is_relative_to(DOCS), target
        assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"([\w/-]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_page_of_names_lists_every_public_name() -> None:
    text = (DOCS / "names.md").read_text(encoding="utf-8")
    assert [name for name in insitu.__all__ if not re.search(rf"`(insitu\.)?{name}`|insitu\.{name}\b", text)] == []


VERBS = re.findall(r"^::: insitu\.(\w+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)


def test_reference_has_every_verb() -> None:
    functions = [name for name in insitu.__all__ if inspect.isfunction(getattr(insitu, name))]
    assert sorted(VERBS) == sorted(functions)


@pytest.mark.parametrize("verb", VERBS)
def test_reference_describes_every_parameter(verb: str) -> None:
    function = getattr(insitu, verb)
    described = re.findall(r"^ {8}\*{0,2}(\w+): ", inspect.getsource(function), re.MULTILINE)
    assert [name for name in described if name != "Examples"] == list(inspect.signature(function).parameters)


# In the documentation, `run.h5` is a recorded run; `insitu.save` and `insitu run --to` write traces.
TRACE_AS_RUN = re.compile(r"""insitu\.save\(\w+, "run\.|insitu run [^\n]*--to run\.""")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_trace_is_named_after_a_run(page: Path) -> None:
    assert TRACE_AS_RUN.findall(page.read_text(encoding="utf-8")) == []


# Phrases of a dialect that a reader has to read twice.
ODD_PHRASES = re.compile(
    r"\b((?<!there )is no [a-z]+|stands? (in|for itself)|lies in|tells? of|also when|in the end|made of|who knows)\b"
)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_page_has_no_odd_phrases(page: Path) -> None:
    assert [match[0] for match in ODD_PHRASES.finditer(FENCED.sub("", page.read_text(encoding="utf-8")))] == []
