"""The terminal: colour, width, encoding, broken streams."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
from typing import Any

import pytest
from tests.view.build import Run, linear, tensor

from insitu.errors import ChoiceError, PatternError, SubjectError
from insitu.view import Line, Terminal, make, render, show
from insitu.view.line import Column
from insitu.view.terminal import terminal_width

LINE = Line((("● ", "purple"), ("fc", "")))


class Screen(io.StringIO):
    """A terminal that is none."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def written(file: io.StringIO, **options: Any) -> str:
    Terminal(file, **options).write([LINE])
    return file.getvalue()


def test_colour_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    colored, plain = "\033[95m● \033[0mfc\n", "● fc\n"
    assert (written(Screen()), written(io.StringIO())) == (colored, plain)
    monkeypatch.setenv("TERM", "dumb")
    assert written(Screen()) == plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert written(io.StringIO()) == colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert written(Screen()) == plain
    assert written(io.StringIO(), color=True) == colored


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    linear(run, "a" * 100, 2, 2, tensor(2))
    monkeypatch.setenv("COLUMNS", "40")
    screen, file = Screen(), io.StringIO()
    show(run.trace, file=screen, color=False)
    show(run.trace, file=file)
    assert screen.getvalue() == f"{'a' * 10}…{'a' * 10}  Linear(…)  f32[2]\n"
    assert file.getvalue() == f"{'a' * 100}  Linear(2 → 2)  f32[2]\n"


def test_a_terminal_is_asked_for_its_own_width() -> None:
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 123, 0, 0))
    with open(other, "w") as file:
        assert terminal_width(file) == 123
    os.close(main)


def bytes_in(encoding: str, lines: list[Line], width: int | None = None) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Terminal(file, width=width).write(lines)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_ascii_replaces_signs_that_the_stream_cannot_encode(encoding: str) -> None:
    text = "● ├─ └─ │ × 12 → … ✗ ⬇️"
    assert bytes_in(encoding, [Line(((text, ""),))]) == "* |- `- | x 12 -> ... ! v\n"


def test_columns_line_up_in_ascii_too() -> None:
    columns = (Column("output"),)
    rows = [Line(((text, ""),), (("f32[2]", ""),), columns) for text in ("a → b", "abcdef")]
    assert bytes_in("ascii", rows) == "a -> b  f32[2]\nabcdef  f32[2]\n"


def test_signs_of_every_view_have_ascii_forms() -> None:
    assert bytes_in("ascii", [Line((("≈ 0–7 ▁▄█· ←", ""),))]) == "~ 0-7 _:#. <-\n"


@pytest.mark.parametrize("width", [1, 2, 20])
def test_cut_lines_fit_in_ascii_too(width: int) -> None:
    columns = (Column("output"),)
    (cut,) = bytes_in("ascii", [Line((("→" * 40, ""),), (), ())], width).splitlines()
    assert len(cut) == width and cut.endswith("..."[:width])
    (row,) = bytes_in("ascii", [Line((("a" * 40, ""),), (("f32[2]", ""),), columns)], 20).splitlines()
    assert row == "aaaaaaaaa...  f32[2]"


def test_characters_that_cannot_be_encoded_do_not_raise() -> None:
    assert bytes_in("ascii", [Line((("日本", ""),))]) == "\\u65e5\\u672c\n"
    assert bytes_in("utf-8", [Line((("a\ud800", ""),))]) == "a\\ud800\n"


class Broken(io.StringIO):
    tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise BrokenPipeError


def test_broken_and_closed_streams_are_left_alone() -> None:
    broken = Broken()
    terminal = Terminal(broken)
    terminal.write([LINE])
    terminal.write([LINE])
    assert broken.tries == 1
    closed = io.StringIO()
    closed.close()
    Terminal(closed).write([LINE])


def test_show_raises_the_error_of_a_broken_stream() -> None:
    run = Run()
    linear(run, "fc", 2, 2, tensor(2))
    with pytest.raises(BrokenPipeError):
        show(run.trace, file=Broken())
    with pytest.raises(SubjectError, match=r"file expects an open file or anything with write\(\), got 'out\.txt'"):
        show(run.trace, file="out.txt")  # type: ignore[arg-type]


def test_stdout_is_looked_up_when_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    terminal.write([LINE])
    assert file.getvalue() == "● fc\n"
    monkeypatch.setattr(sys, "stdout", None)
    terminal.write([LINE])


def test_an_error_of_the_lines_is_not_swallowed() -> None:
    def lines() -> Any:
        yield LINE
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        Terminal(io.StringIO()).write(lines())


def test_an_option_that_a_view_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(ChoiceError, match=r"the view 'code' has no option 'unfold': it has succinct, native"):
        make("code", unfold=True)
    with pytest.raises(ChoiceError, match=r"the view 'table' has no option 'unfold': it has none"):
        make("table", unfold=True)


def test_unknown_view_and_pattern_name_the_nearest() -> None:
    with pytest.raises(ChoiceError, match="did you mean 'tree'"):
        make("tre")
    run = Run()
    linear(run, "encoder.fc", 2, 2, tensor(2))
    with pytest.raises(PatternError, match=r"did you mean 'encoder\.fc'"):
        render(run.trace, only="encodr.fc")
