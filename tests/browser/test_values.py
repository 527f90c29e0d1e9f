"""Kept values as pictures, in a real browser: slices, scales, what is not finite, what is reduced, hostile arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import pytest
import torch
from playwright.sync_api import Browser
from tests.browser.conftest import Opened
from tests.view.build import Run, tensor

import insitu
from insitu.commands import export
from insitu.demo import GPT
from insitu.trace.kept_values import statistics_of_values
from insitu.trace.planes import Form, plane_layout, planes
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
nan, inf = float("nan"), float("inf")
WEB = files("insitu.view") / "page" / "web"


def kept(array: Any, **more: Any) -> Trace:
    """A call whose result kept an array."""
    run = Run()
    shape = more.pop("shape", getattr(array, "shape", (2,)))
    run.call("function", "torch.relu", tensor(3), out=tensor(*shape, kept=array, producer=0, **more))
    return run.trace


def attention() -> Any:
    """Attention weights of two sequences and six heads."""
    scores = torch.randn(2, 6, 24, 24, generator=torch.Generator().manual_seed(0))
    later = torch.ones(24, 24, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -inf).softmax(-1).numpy()


def readout(opened: Opened) -> str:
    return " ".join(str(opened("document.querySelector('.readout').textContent")).split())


def labels(opened: Opened) -> str:
    return str(opened("document.querySelector('.heatmap .controls').innerText"))


def scale(opened: Opened) -> list[str]:
    return list(opened("[...document.querySelectorAll('.colours .ends span')].map((end) => end.innerText)"))


def pixel(opened: Opened, cell: tuple[int, int]) -> list[int]:
    """The colour in the middle of a cell of a plane alone, near its corner where no line crosses it."""
    script = """([row, column]) => {
        const canvas = document.querySelector('.heatmap canvas'), size = (canvas.height - 27) / window.rows;
        const pen = new OffscreenCanvas(1, 1).getContext('2d');
        pen.drawImage(canvas, -Math.floor(52 + (column + 0.5) * size), -Math.floor(27 + (row + 0.2) * size));
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    return list(opened(script, list(cell)))


def test_attention_weights_are_shown_for_all_heads_and_one_by_one(open_page: Open) -> None:
    weights = attention()
    opened = open_page(page(kept(weights)))
    assert "all 6 heads (dim 1)" in labels(opened)
    tiled = opened("document.querySelector('.heatmap canvas').getAttribute('aria-label')")
    assert tiled.startswith("values of shape [2, 6, 24, 24], from 0 … 1")
    assert scale(opened) == ["0", "0.5", "1"]
    opened.page.uncheck("text=all 6 heads")
    opened.page.focus("[aria-label='index of dim 1']")
    opened.press("ArrowRight", "ArrowRight")
    assert "slice 0, 2" in opened("document.querySelector('.heatmap canvas').getAttribute('aria-label')")
    opened.page.focus("[aria-label='index of dim 0']")
    opened.press("ArrowRight")
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    index, value = readout(opened).split(" = ")
    assert index == "[1, 2, 2, 1]" and float(value) == pytest.approx(weights[1, 2, 2, 1], rel=1e-3)
    assert opened("document.querySelector('.cell-mark').checkVisibility()")
    opened.page.focus("[aria-label='index of dim 0']")
    opened.press("ArrowLeft")
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowLeft")
    assert readout(opened).startswith("[0, 2, 2, 1] = ")  # the same place in the other slice
    opened.page.check("text=all 6 heads")
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowLeft", "ArrowLeft")
    assert readout(opened).startswith("[0, 1, 2, 23] = ")  # on to the plane beside it


def test_the_value_under_the_pointer_is_shown_with_its_index(open_page: Open) -> None:
    array = numpy.arange(12.0).reshape(3, 4) - 5.5
    opened = open_page(page(kept(array)))
    box = opened("(({x, y}) => [x, y])(document.querySelector('.heatmap canvas').getBoundingClientRect())")
    opened.page.mouse.move(box[0] + 52 + 24 * 2 + 5, box[1] + 27 + 24 + 5)
    assert readout(opened) == "[1, 2] = 0.5"
    opened.page.mouse.move(box[0] + 5, box[1] + 5)
    assert "point at it" in readout(opened)


def test_signed_values_have_zero_in_the_middle_of_the_colours(open_page: Open) -> None:
    array = numpy.array([[-1.0, 4.0], [0.0, -4.0]])
    opened = open_page(page(kept(array)), color_scheme="light")
    opened("window.rows = 2, 0")
    assert scale(opened) == ["-4", "0", "4"]
    zero, below, above = pixel(opened, (1, 0)), pixel(opened, (1, 1)), pixel(opened, (0, 1))
    assert zero == [248, 248, 246] and below == [8, 48, 107] and above == [122, 51, 0]
    opened.press("d")
    assert pixel(opened, (1, 0)) == [21, 23, 27]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (numpy.array([[0.25, 1.0]]), ["0", "0.5", "1"]),
        (numpy.array([[100.0, 104.0]]), ["100", "102", "104"]),
        (numpy.array([[7, 9]]), ["7", "8", "9"]),
        (numpy.array([[0, 3]]), ["0", "3"]),
        (numpy.array([[-7, 3]]), ["-7", "0", "7"]),
        (numpy.array([[True, False]]), ["0", "1"]),
        (numpy.zeros((2, 2)), ["0", "0.5", "1"]),
        (numpy.full((2, 2), nan), []),
        (numpy.array([[1e308, -1e308]]), ["-1e+308", "0", "1e+308"]),
    ],
)
def test_the_scale_fits_the_values(open_page: Open, array: Any, expected: list[str]) -> None:
    assert scale(open_page(page(kept(array)))) == expected


def test_the_scale_can_leave_out_outliers_or_fit_a_slice(open_page: Open) -> None:
    array = numpy.ones((2, 20, 20))
    array[0, 0, 0], array[1] = 500.0, 3.0
    opened = open_page(page(kept(array)))
    opened.page.uncheck("text=all 2 of dim 0")
    assert scale(opened)[-1] == "500"
    opened.page.select_option(".heatmap select", "middle")
    assert scale(opened)[-1] == "2"  # all that is left is 1
    opened.page.select_option(".heatmap select", "slice")
    assert scale(opened)[-1] == "500"


def test_nan_and_inf_are_counted_and_drawn_in_colours_of_their_own(open_page: Open) -> None:
    array = numpy.array([[0.0, nan], [inf, -inf], [1.0, 2.0]])
    opened = open_page(page(kept(array)))
    opened("window.rows = 3, 0")
    assert " ".join(opened("document.querySelector('.legend').innerText").split()) == "1 NaN 2 Inf"
    assert pixel(opened, (0, 1)) == [224, 18, 31]
    assert pixel(opened, (1, 0)) == pixel(opened, (1, 1)) == [141, 148, 158]
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight", "ArrowRight")
    assert readout(opened) == "[0, 1] = NaN"
    opened.press("ArrowDown")
    assert readout(opened) == "[1, 1] = -Inf"
    assert opened.rows == ["torch.relu NaN comes out"]  # found in the values: there are no statistics


def test_a_reduced_picture_says_what_a_cell_is(open_page: Open) -> None:
    array = numpy.zeros((600, 500), "f4")
    array[599, 499] = -9.0
    opened = open_page(page(kept(array)))
    assert "each cell is the value farthest from 0 of 3 × 2 values, NaN if one is" in opened.details
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight", *["ArrowDown"] * 200, *["ArrowRight"] * 250)
    assert readout(opened) == "[597:600, 498:500] farthest from 0 = -9"


def test_values_that_are_rounded_say_so(open_page: Open) -> None:
    array = numpy.random.default_rng(0).normal(size=(40, 40))
    opened = open_page(page(kept(array), value_bytes=4_000))
    assert "rounded to about 3 digits" in opened.details
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight")
    sign, value = readout(opened).removeprefix("[0, 0] = ").split()
    assert sign == "≈" and float(value) == pytest.approx(array[0, 0], rel=1e-2)
    opened = open_page(page(kept(array), value_bytes=2_000))
    assert "rounded to 253 levels from the least value to the largest" in opened.details


def test_leading_dimensions_that_are_too_many_are_cut_and_named(open_page: Open) -> None:
    opened = open_page(page(kept(numpy.zeros((40, 16, 2, 2)))))
    assert "only the first 16 of 40 indices of dim 0 are in this page" in opened.details
    assert opened("document.querySelector(\"[aria-label='index of dim 0']\").max") == "15"


def test_values_that_the_page_has_no_room_for_are_named(open_page: Open) -> None:
    run = Run()
    for number in range(4):
        array = numpy.random.default_rng(number).normal(size=(32, 32))
        run.call("function", f"torch.f{number}", out=tensor(32, 32, id=number, kept=array, producer=number))
    opened = open_page(page(run.trace, value_bytes=2_500))
    assert opened("document.querySelectorAll('.heatmap').length") == 1
    opened.press("G")
    assert 'kept values of 2 tensors, this one too, are not in this page: insitu.save(trace, "x.html", only=…)' in (
        opened.details
    )
    assert opened("document.querySelectorAll('#details .histogram').length") == 2  # the statistics are there


def test_numbers_in_a_row_are_bars_and_many_are_bands(open_page: Open) -> None:
    opened = open_page(page(kept(numpy.array([1.5, -2.0, nan]))))
    assert opened("document.querySelector('.heatmap select')") is None
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight", "ArrowRight")
    assert readout(opened) == "[1] = -2"
    opened = open_page(page(kept(numpy.arange(1200.0))))
    assert "each bar goes from the least to the largest of 3 values" in opened.details
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight", "ArrowRight")
    assert readout(opened) == "[3:6] from 3 to 5"


def test_three_channels_are_an_image_if_they_look_like_one(open_page: Open) -> None:
    image = numpy.zeros((2, 3, 20, 20), "u1")
    image[:, 0] = 255
    opened = open_page(page(kept(image)))
    middle = """(() => { const canvas = document.querySelector('.heatmap canvas'), pen = canvas.getContext('2d');
        return [...pen.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data] })()"""
    assert opened(middle) == [255, 0, 0, 255] and scale(opened) == []
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowRight", "ArrowRight")
    assert readout(opened) == "[0, :, 0, 1] = 255, 0, 0"
    opened.page.uncheck("text=as an image")
    assert scale(opened) == ["0", "255"]
    opened = open_page(page(kept(numpy.random.default_rng(0).normal(size=(3, 20, 20)))))
    assert not opened("[...document.querySelectorAll('.heatmap label')].at(-1).firstChild.checked")
    opened.page.check("text=as an image")


def test_a_click_enlarges_and_the_keys_of_the_page_wait(open_page: Open) -> None:
    run = Run()
    for number in range(3):
        run.call("function", f"torch.f{number}", out=tensor(30, 30, kept=numpy.eye(30) * number, producer=number))
    opened = open_page(page(run.trace))
    before = opened.selected
    opened.page.click(".heatmap canvas")
    assert opened("document.querySelector('dialog.zoom').open")
    sizes = "[...document.querySelectorAll('.heatmap canvas')].map((canvas) => canvas.width)"
    opened.until(f"{sizes}[1] > {sizes}[0]")
    opened.press("j", "f", "/")
    assert opened.selected == before
    opened.press("Escape")
    opened.until("!document.querySelector('dialog.zoom')")
    opened.page.focus(".heatmap canvas")
    opened.press("Enter")
    opened.page.click("dialog.zoom > button")
    opened.until("!document.querySelector('dialog.zoom')")
    assert opened.selected == before


def test_values_of_arguments_are_drawn_on_demand(open_page: Open) -> None:
    run = Run()
    given = tensor(4, 4, id=1, kept=numpy.eye(4))
    weight = tensor(4, 4, id=2, kept=numpy.ones((4, 4)), type="Parameter", requires_grad=True)
    made = tensor(4, 4, id=3, kept=numpy.eye(4) * 2, producer=0)
    run.call("function", "torch.nn.functional.linear", given, weight, out=made)
    run.call("function", "torch.Tensor.add", made, 1, out=tensor(4, 4, id=4, kept=numpy.eye(4) * 3, producer=1))
    opened = open_page(page(run.trace))
    lines = opened("[...document.querySelectorAll('.argument')].map((line) => line.innerText.split('\\n'))")
    assert [line[0] for line in lines] == ["input", "weight"]
    assert lines[0][2] == "from outside the trace · 0 … 1" and lines[1][2] == "a parameter · all 1"
    assert opened("document.querySelectorAll('.heatmap').length") == 1
    opened.page.click(".argument summary >> nth=0")
    opened.until("document.querySelectorAll('.heatmap').length === 2")
    opened.press("Escape")
    opened.page.click("text=.add")
    assert opened("[...document.querySelectorAll('.argument dt')].map((name) => name.innerText)") == [
        "self",
        "argument 1",
    ]
    opened.page.click(".argument a")
    assert opened.selected == "F.linear"


def test_what_a_function_of_the_user_kept_is_named(open_page: Open) -> None:
    sample = {"first": numpy.eye(3), "mean": 0.5, "parts": [numpy.ones(5), "text"]}
    opened = open_page(page(kept(sample, shape=(64, 64))))
    assert opened("document.querySelectorAll('.heatmap').length") == 2
    assert "kept by your function: first [3, 3]" in opened.details
    assert "kept by your function: parts.0 [5]" in opened.details


HOSTILE = {
    "nan": numpy.full((3, 4), nan),
    "inf": numpy.full((2, 3, 4), inf),
    "zeros": numpy.zeros((5, 5)),
    "one": numpy.ones((1, 1)),
    "single": numpy.ones(1),
    "empty": numpy.zeros((0, 4)),
    "no dimension": numpy.array(3.5),
    "number": 3.5,
    "five dimensions": numpy.random.default_rng(0).normal(size=(2, 2, 3, 4, 5)),
    "complex": numpy.array([[1 + 1j, nan]]),
    "bool": numpy.array([[True], [False]]),
    "large integers": numpy.array([[2**63 - 1, -(2**63)], [0, 1]]),
    "nearly equal integers": numpy.array([[2**62, 2**62 + 1]]),
    "bfloat16": numpy.ones((2, 2), ml_dtypes.bfloat16),
    "float8": numpy.ones((2, 2), ml_dtypes.float8_e5m2),
    "objects": numpy.array([[object(), None]], dtype=object),
    "texts": numpy.array([["</script>", "b"]]),
    "dates": numpy.array([["2020-01-01", "2021-01-01"]], dtype="datetime64[D]"),
    "records": numpy.zeros((2, 2), [("x", "f4")]),
    "void": numpy.zeros((2, 2), "V3"),
    "huge": numpy.array([[1.7e308, -1.7e308]]),
    "tiny": numpy.array([[5e-324, 0.0]]),
    "flat": numpy.zeros((1, 5000)),
    "tall": numpy.zeros((5000, 1)),
    "many planes": numpy.zeros((3000, 2, 2)),
    "nested": [[numpy.ones(2), {"x": numpy.full((2, 2), nan)}], "text", {"<b>": numpy.eye(2)}],
    "text": "<img src=x onerror=alert(1)>",
    "masked": numpy.ma.masked_array(numpy.ones((2, 2)), mask=True),
    "opposite byte order": numpy.ones((2, 2), ">f8"),
    "half": numpy.full((2, 2), 65504, "f2"),
}


def test_hostile_arrays_never_break_the_page(open_page: Open) -> None:
    run = Run()
    for number, (name, array) in enumerate(HOSTILE.items()):
        shape = getattr(array, "shape", ())
        run.call("function", f"torch.{name}", out=tensor(*shape, id=number, kept=array, producer=number))
    opened = open_page(page(run.trace))
    for name in HOSTILE:
        assert opened("document.querySelector('#details h2').innerText").startswith(f"torch.{name}")
        for box in opened.page.locator(".heatmap input[type=checkbox]").all():
            box.click()
        for canvas in opened.page.locator(".heatmap canvas").all():
            canvas.focus()
            opened.press("ArrowRight", "ArrowDown")
        opened.page.focus("#grid")
        opened.press("j")
    assert opened("document.images.length") == 0


@pytest.mark.parametrize("keep", ["values", torch.clone], ids=["values", "clone"])
def test_a_recorded_model_shows_its_values_after_saving_loading_and_exporting(
    open_page: Open, tmp_path: Path, keep: Any
) -> None:
    torch.manual_seed(0)
    model, tokens = GPT(layers=2), torch.randint(256, (2, 24))
    with insitu.record(model, keep=keep) as trace:
        model(tokens)
    insitu.save(trace, tmp_path / "run.h5")
    insitu.save(insitu.load(tmp_path / "run.h5"), tmp_path / "run.html")
    from insitu import cli

    assert export and cli.main(["export", str(tmp_path / "run.h5"), str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "run.html").read_text() == (tmp_path / "again.html").read_text()
    opened = open_page((tmp_path / "run.html").read_text())
    assert opened.search("softmax").endswith("/2")
    opened.press("Enter")
    assert "all 6 heads (dim 1)" in labels(opened) and scale(opened) == ["0", "0.5", "1"]
    call = trace.find("h.0.attn", name="softmax")[0]
    opened.page.uncheck("text=all 6 heads")
    opened.page.focus(".heatmap canvas")
    opened.press("ArrowDown", "ArrowDown")
    assert float(readout(opened).split()[-1]) == pytest.approx(call.outputs[0].kept[0, 0, 1, 0], rel=1e-2)
    ranges = opened("[...document.querySelectorAll('#rows .c-min-max')].map((cell) => cell.innerText)")
    assert "0 … 1" in ranges  # from the values: no statistics were recorded


@pytest.mark.parametrize("form", ["single", "half", "levels"])
def test_the_page_reads_what_planes_write(browser: Browser, form: Form) -> None:
    array = numpy.random.default_rng(1).normal(size=(2, 3, 4)) * 1e-12
    array[0, 0, :3] = nan, inf, -inf
    written = planes(array, plane_layout(array.shape, most_side=8, most_cells=64), form)
    source = (WEB / "heatmap_values.js").read_text("utf-8")
    script = f"""({{bytes, form, low, step, scale}}) => {{ {source}
        const layout = [[2, 3, 4], [2], 3, 4, 1, 1, "value", form, 0, 0, low, step, scale];
        const picture = new Picture({{ values: new Uint8Array(bytes) }}, [1, 0, 0, "", "real", 0, 0, ...layout]);
        return [[...picture.cells()].map(String), picture.planeAt([1]), picture.indexText(1, 2, 3)];
    }}"""
    tab = browser.new_page()
    cells, place, index = tab.evaluate(
        script,
        {
            "bytes": list(written.data),
            "form": form,
            "low": written.low,
            "step": written.step,
            "scale": written.scale,
        },
    )
    tab.close()
    read = numpy.array([float(text.replace("Infinity", "inf")) for text in cells]).reshape(array.shape)
    numpy.testing.assert_allclose(read, array, rtol=1e-3, atol=1.2e-14)
    assert place == 1 and index == "[1, 2, 3]"


def test_floats_of_16_bits_are_read_as_numpy_reads_them(browser: Browser) -> None:
    source = (WEB / "heatmap_values.js").read_text("utf-8")
    script = f"() => {{ {source}\n return Array.from({{ length: 65536 }}, (_, bits) => String(halfValue(bits))); }}"
    tab = browser.new_page()
    texts = tab.evaluate(script)
    tab.close()
    read = numpy.array([float(text.replace("Infinity", "inf")) for text in texts])
    numpy.testing.assert_array_equal(read, numpy.arange(65536, dtype="u2").view("f2").astype("f8"))


def test_histograms_of_all_rows_share_an_axis_on_which_growth_shows(open_page: Open) -> None:
    run = Run()
    normal = numpy.random.default_rng(0).normal(size=2000)
    for number in range(6):
        stats = statistics_of_values(normal * 10.0**number)
        run.call("function", f"torch.f{number}", out=tensor(2000, id=number, stats=stats, producer=number))
    ids = statistics_of_values(numpy.arange(10**9, 10**9 + 4))
    run.call("function", "torch.ids", out=tensor(4, id=9, dtype="i64", stats=ids, producer=6))
    opened = open_page(page(run.trace))
    widths = opened(
        "[...document.querySelectorAll('#rows .spark')].map((spark) => spark.children[0].getBBox())"
        ".map((box) => [box.x + box.width / 2, box.width])"
    )
    assert len(widths) == 7
    assert all(wider > width for (_, width), (_, wider) in pairwise(widths[:6]))
    assert all(abs(middle - 32) < 3 for middle, _ in widths[:6])
    beyond = "[...document.querySelectorAll('#rows .spark')].map((spark) => spark.querySelectorAll('.beyond').length)"
    assert opened(beyond) == [0] * 6 + [1]  # the axis is for floats
    head = opened("document.querySelector('#heads .c-values').innerText").split()
    assert len(head) == 3 and head[1] == "0" and head[0] == f"-{head[2]}"


def test_a_folded_row_has_the_histogram_of_all_its_calls(open_page: Open) -> None:
    run = Run()
    for number in range(3):
        stats = statistics_of_values(numpy.array([0.0, 10.0**number]))
        run.module(f"h.{number}", "Block", out=tensor(2, id=number, stats=stats, producer=number))
    opened = open_page(page(run.trace))
    width = "document.querySelector('#rows .spark path').getBBox().width"
    folded = opened(width)
    opened.press("u")
    assert folded > opened(width)


AXIS = "new SymlogAxis([1e-3, 1, 1, 2, 50])"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"{AXIS}.end", 50),
        ("new SymlogAxis([...Array(40).fill(2), 3e38]).end", 20),  # one that is far away does not stretch the axis
        ("new SymlogAxis([]).end", 1),
        (f"[-50, 0, 50, 1e9].map((value) => {AXIS}.place(value))", [-1, 0, 1, 1]),
        (f"{AXIS}.cell(-50) + ' ' + {AXIS}.cell(0) + ' ' + {AXIS}.cell(50)", "0 32 63"),
        (f"Math.round({AXIS}.value({AXIS}.place(7.5)) * 1e6)", 7_500_000),
        ("new SymlogAxis([100, 100]).ticks(2)", [-100, -10, 0, 10, 100]),
    ],
)
def test_the_common_axis(browser: Browser, script: str, expected: Any) -> None:
    source = (WEB / "histogram.js").read_text("utf-8")
    tab = browser.new_page()
    found = tab.evaluate(f"() => {{ {source}\n return {script}; }}")
    tab.close()
    assert found == expected
