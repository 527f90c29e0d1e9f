"""A pytest plugin: the fixture `golden_trace` keeps the trace of a test in a file and fails when it changes.

    def test_model(golden_trace):
        torch.manual_seed(0)
        model, x = Net(), torch.randn(2, 3)
        with golden_trace(model):
            model(x)

The first run stores `golden/test_file/test_model.trace` next to the test, to be committed with it; later ones compare,
and fail with the first call that differs. `pytest --update` writes those anew that differ. Where `CI` is set nothing is
stored without `--update`: a file that is missing there was not committed, and the test fails.

Statistics may differ as much as another machine makes them: see `OTHER_MACHINE`. `rtol=` and `atol=` say it otherwise.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

# Nothing here imports torch, or more of insitu than errors, before the fixture is used.
if TYPE_CHECKING:
    from torch import Tensor, nn

    from insitu.trace.compare.closeness import Tolerance
    from insitu.trace.trace import Trace

# Where more is allowed than `torch.testing` does, relative and absolute: sums in another order, as another machine
# makes them, add up from layer to layer.
OTHER_MACHINE = {"f32": (1e-4, 1e-5), "c64": (1e-4, 1e-5)}
_OPTION = "--update"
_PROPERTY = "golden_trace"
_LONGEST = 100
_OWNERS = pytest.StashKey[dict[str, str]]()


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(args: list[str], parser: pytest.Parser) -> Generator[None, object, object]:
    """Add `--update` if it is asked for and no conftest.py has one: in many projects it renews other files as well."""
    result = yield
    if {_OPTION, "-h", "--help"} & set(args) and not _is_known(parser):
        help = "write the golden traces that differ anew instead of failing"
        parser.getgroup("insitu").addoption(_OPTION, action="store_true", default=False, help=help)
    return result


def _is_known(parser: pytest.Parser) -> bool:
    try:
        return _OPTION not in parser.parse_known_and_unknown_args([_OPTION])[1]
    except pytest.UsageError:  # theirs takes a value
        return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files were written. The reports carry their names, because a test may run in another process."""
    every = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [item for report in every for item in getattr(report, "user_properties", ())]
    texts = dict.fromkeys(text for name, text in properties if name == _PROPERTY)
    if texts:
        terminalreporter.section("golden traces")
        for text in texts:
            terminalreporter.write_line(str(text))


@pytest.fixture
def golden_trace(request: pytest.FixtureRequest) -> GoldenTraces:
    """Compare the trace of a block with the one in a file: `with golden_trace(model): model(x)`."""
    return GoldenTraces(request)


class GoldenTraces:
    """Makes the blocks of one test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._paths: set[Path] = set()

    def __call__(
        self,
        subject: nn.Module | None = None,
        *,
        name: str = "",
        level: str = "functions",
        keep: str | Callable[[Tensor], Any] = "stats",
        only: str | Iterable[str] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> GoldenTrace:
        """A `with` block that is recorded as by `insitu.record`, and compared; a second one in a test needs a name."""
        from insitu.session.record import TraceSession
        from insitu.trace.compare.closeness import TOLERANCES, Tolerance

        tolerance = Tolerance(rtol, atol, {**TOLERANCES, **OTHER_MACHINE})
        session = TraceSession("record", subject, level=level, keep=keep, only=only)
        return GoldenTrace(session, self._request, self._path(name), tolerance)

    def _path(self, name: str) -> Path:
        """The file, which belongs to this block alone."""
        from insitu.errors import ChoiceError

        path = golden_file(self._request.node, name)
        owners = self._request.config.stash.setdefault(_OWNERS, {})
        owner = owners.setdefault(str(path).casefold(), self._request.node.nodeid)
        if path in self._paths or owner != self._request.node.nodeid:
            raise ChoiceError(f"{path.name!r} is the golden trace of another block, in {owner}: give this one a name=")
        self._paths.add(path)
        return path


def golden_file(node: pytest.Item, name: str = "") -> Path:
    """Where the golden trace of a test is: `tests/golden/test_file/Class.test_name[parameter].name.trace`."""
    chain = [part.name for part in node.listchain() if isinstance(part, (pytest.Class, pytest.Item))]
    return (
        node.path.parent / "golden" / node.path.stem / f"{file_name('.'.join([*chain, name] if name else chain))}.trace"
    )


def file_name(text: str) -> str:
    """A name that every file system takes; texts that would get the same one are told apart.

    >>> file_name("test_net[2-relu]"), file_name("test_net[a/b]")
    ('test_net[2-relu]', 'test_net[a_b]-c4d0fc80')
    """
    safe = re.sub(r"[^\w.,=+\[\]-]", "_", text, flags=re.ASCII)
    if safe == text and len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_LONGEST]}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


class GoldenTrace:
    """A block whose trace is compared when it ends; an exception in it goes on as it is, and nothing is stored."""

    def __init__(self, session: Any, request: pytest.FixtureRequest, path: Path, tolerance: Tolerance) -> None:
        self._session, self._request, self._path, self._tolerance = session, request, path, tolerance
        self._trace: Trace | None = None

    def __enter__(self) -> Trace:
        trace: Trace = self._session.enter(sys._getframe(1)).trace
        self._trace = trace
        return trace

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        __tracebackhide__ = True
        self._session.__exit__(kind, error, tb)
        trace, self._trace = self._trace, None
        if kind is None and trace is not None:
            self._check(trace)

    def _check(self, trace: Trace) -> None:
        from insitu.session.switch import is_off

        __tracebackhide__ = True
        if is_off():
            return self._say("not checked: INSITU=0 turns insitu off")
        if not trace.events:
            pytest.fail("the block of golden_trace made no call, so there is nothing to keep", pytrace=False)
        update = bool(self._request.config.getoption(_OPTION, default=False))
        if not self._path.exists():
            if _on_ci() and not update:
                pytest.fail(
                    f"{self._place()} does not exist: run the test where CI is not set, and commit the file",
                    pytrace=False,
                )
            return self._store(trace, "stored")
        trouble = self._trouble(trace)
        if trouble is not None:
            if not update:
                pytest.fail(trouble, pytrace=False)
            self._store(trace, "renewed")

    def _trouble(self, trace: Trace) -> str | None:
        """The difference between the trace and the file, or the error in the file; None if they agree."""
        import insitu
        from insitu.store.text.trace_text_writer import to_text
        from insitu.trace.compare.traces import compare_traces

        if self._path.read_bytes() == to_text(trace).encode():
            return None
        renew = f"if that is as it should be: pytest {_OPTION}"
        try:
            golden = insitu.load(self._path)
        except insitu.StoreError as error:
            return f"{error}\n\n{renew}"
        diff = compare_traces(golden, trace, tolerance=self._tolerance, labels=("golden", "now"))
        if diff.close:
            return None
        return f"the trace is not that of {self._place()}\n\n{diff}\n\n{renew}"

    def _store(self, trace: Trace, verb: str) -> None:
        from insitu.store.files import write_whole
        from insitu.store.text.trace_text_writer import to_text

        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, to_text(trace).encode(), overwrite=True)
        self._path.chmod(0o644)  # as the test beside it: others who work on the project read it as well
        self._say(verb)

    def _say(self, verb: str) -> None:
        self._request.node.user_properties.append((_PROPERTY, f"{self._place()}: {verb}"))

    def _place(self) -> str:
        root = self._request.config.rootpath
        return str(self._path.relative_to(root) if self._path.is_relative_to(root) else self._path)


def _on_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
