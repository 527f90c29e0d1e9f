"""The view of errors, on explanations made by hand."""

from __future__ import annotations

import io

from insitu.trace.event import TensorFacts
from insitu.trace.explain.explanation import (
    Explanation,
    ExpressionSite,
    Misfit,
    Origin,
    OriginKind,
    ShapeRow,
    Underline,
)
from insitu.view.error import lines, note, text
from insitu.view.terminal import Terminal


def facts(*shape: int) -> TensorFacts:
    return TensorFacts(0, shape, "f32", "cpu")


def attention() -> Explanation:
    source = "        att = (q @ k.transpose(-2, -1)) / 4.0 + bias"
    rows = (ShapeRow("left", (2, 6, 24, 24), "(q @ k.transpose(-2, -1)) / 4.0"), ShapeRow("right", (6, 24, 25), "bias"))
    return Explanation(
        "RuntimeError",
        "The size of tensor a (24) must match the size of tensor b (25) at non-singleton dimension 3",
        ExpressionSite("/home/me/attn.py", 4, "forward"),
        ("GPT", "h.3", "h.3.attn"),
        ((4, source),),
        (
            Underline(4, source.index("q"), source.index("q") + 1, facts(2, 6, 24, 16)),
            Underline(4, source.index("k"), source.index("k") + 1, facts(2, 6, 24, 16)),
            Underline(4, source.index("bias"), len(source), facts(6, 24, 25)),
        ),
        (Misfit("dimension -1: 24 and 25 differ and neither is 1", rows, -1),),
        (Origin(OriginKind.PRODUCED, ExpressionSite("model.py", 18, "", "torch.zeros(6, T, T + 1)"), "bias"),),
    )


DESIGNED = """\
RuntimeError: The size of tensor a (24) must match the size of tensor b (25) at non-singleton dimension 3
  attn.py:4 in forward    GPT ▸ h.3 ▸ h.3.attn
     4 │ att = (q @ k.transpose(-2, -1)) / 4.0 + bias
                ┬   ┬                            ┬───
                │   ╰ f32[2, 6, 24, 16]          ╰ f32[6, 24, 25]
                ╰ f32[2, 6, 24, 16]
    left   2, 6, 24, 24    (q @ k.transpose(-2, -1)) / 4.0
    right     6, 24, 25    bias
                     ✗ dimension -1: 24 and 25 differ and neither is 1
    bias  made at model.py:18   torch.zeros(6, T, T + 1)"""


def test_an_error_looks_as_it_was_designed() -> None:
    assert text(attention()) == DESIGNED
    assert str(attention()) == repr(attention()) == DESIGNED


def test_the_note_leaves_out_the_exception_itself() -> None:
    assert note(attention()) == DESIGNED.partition("\n")[2]


def test_a_misfit_stands_under_its_dimension_whatever_the_sizes() -> None:
    rows = (ShapeRow("input", (3, 1024, 7), "x"), ShapeRow("w", (64, 7)))
    shown = note(Explanation("E", "", misfits=(Misfit("wrong", rows, -2),))).splitlines()
    assert shown == [
        "    input  3, 1024, 7    x",
        "    w           64, 7",
        "              ✗ wrong",
    ]


def test_marks_keep_apart_and_stand_under_wide_characters() -> None:
    source = "形 = a + b"
    marks = (Underline(7, 4, 5, facts(2)), Underline(7, 8, 9, facts(3)))
    shown = note(Explanation("E", "", ExpressionSite("m.py", 7), source=((7, source),), underlines=marks)).splitlines()
    assert shown[1:] == [
        "     7 │ 形 = a + b",
        "              ┬   ┬",
        "              │   ╰ f32[3]",
        "              ╰ f32[2]",
    ]


def test_each_line_of_a_long_expression_has_its_marks() -> None:
    source = ((3, "    x = torch.cat("), (4, "        [a, b]"), (5, "    )"))
    marks = (Underline(4, 9, 10, facts(2)), Underline(4, 12, 13, None))
    shown = note(Explanation("E", "", source=source, underlines=marks)).splitlines()
    assert shown == [
        "     3 │ x = torch.cat(",
        "     4 │     [a, b]",
        "              ┬  ┬",
        "              │  ╰ None",
        "              ╰ f32[2]",
        "     5 │ )",
    ]


def test_what_a_program_says_stays_on_its_line() -> None:
    place = ExpressionSite("m\n.py", 1, "f", "x\x1b[31m")
    shown = text(Explanation("E", "one\ntwo", place, ("a\x1b",), origins=(Origin(OriginKind.PRODUCED, place, "n\r"),)))
    assert shown.splitlines() == ["E: one", "  m\\n.py:1 in f    a\\x1b", "    n\\r  made at m\\n.py:1   x\\x1b[31m"]


def test_it_is_coloured_in_a_terminal_and_plain_where_that_has_no_signs() -> None:
    coloured = io.StringIO()
    Terminal(coloured, color=True).write(lines(attention()))
    assert "\033[91mRuntimeError\033[0m" in coloured.getvalue()
    raw = io.BytesIO()
    plain = io.TextIOWrapper(raw, encoding="ascii")
    Terminal(plain, color=False).write(lines(attention()))
    plain.flush()
    assert b"+   +" in raw.getvalue()
    assert b"! dimension -1" in raw.getvalue()
    assert b"\\u" not in raw.getvalue()
