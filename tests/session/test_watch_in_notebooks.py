"""`insitu.watch` in a real notebook: one display for each block, however often it is entered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.notebooks import Output, messages, outputs
from tests.view.notebook.outline import Outline

pytestmark = pytest.mark.slow

MODEL = """
import sys, torch, insitu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
x = torch.ones(2, 4)
"""
LOOP_INSIDE = """
with insitu.watch(model):
    for _ in range(1000):
        model(x)
print("after")
"""
LOOP_AROUND = """
for _ in range(1000):
    with insitu.watch(model):
        model(x)
"""
TWO_BLOCKS = """
with insitu.watch(model):
    model(x)
print("between")
with insitu.watch(model):
    model(x)
"""
FILE = """
with insitu.watch(model, file=sys.stdout, color=False):
    model(x)
"""
FUNCTION = """
@insitu.watch("y")
def add(number):
    y = number + 1
    return y
for number in range(500):
    add(number)
"""
RAISES = """
with insitu.watch(model, keep="stats"):
    model(x)
    model(torch.ones(2, 5))
"""
WORKERS = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    @insitu.watch("item")
    def __getitem__(self, index):
        item = index + 1
        return item
data = Data()
first = data[7]
for _ in torch.utils.data.DataLoader(data, num_workers=1):
    pass
"""
REDIRECTED = """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as text, insitu.watch(model, color=False):
    model(x)
print(text.getvalue())
"""
OWN_VIEW = """
class Names:
    def begin(self): return ()
    def finish(self): return ()
    def __call__(self, event): return (insitu.view.Line(((event.name, ""),)),)
with insitu.watch(model, view=Names()):
    model(x)
"""
CELLS = {
    "loop inside": LOOP_INSIDE,
    "loop around": LOOP_AROUND,
    "two blocks": TWO_BLOCKS,
    "file": FILE,
    "function": FUNCTION,
    "function again": "add(1)",
    "raises": RAISES,
    "workers": WORKERS,
    "redirected": REDIRECTED,
    "own view": OWN_VIEW,
    "left behind": "len(get_ipython().events.callbacks['post_execute'])",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Output]]:
    with pytest.MonkeyPatch.context() as patch:
        cells = [MODEL, *CELLS.values()]
        found = outputs(cells, tmp_path_factory.mktemp("watch"), patch, allow_errors=True)
    assert found[0] == []
    return dict(zip(CELLS, found[1:], strict=True))


def rows(output: Output) -> list[tuple[int, str]]:
    """The rows of a display without their times."""
    found = Outline(output.forms["text/html"]).rows
    return [(depth, text.rpartition(" In [")[0].rpartition(" ")[0] or text) for depth, text in found]


def test_steps_of_one_block_are_one_folded_row(shown: dict[str, list[Output]]) -> None:
    display, after = shown["loop inside"]
    *calls, footer = rows(display)
    assert calls == [
        (0, "step 0 … 999 × 1,000 alike, the last: Sequential f32[2, 8]"),
        (1, "0 Linear(4 → 8) f32[2, 8]"),
        (1, "1 ReLU f32[2, 8]"),
    ]
    assert footer[1].startswith("5,000 calls · ")
    assert display.forms["text/plain"].startswith("step 0 … 999  × 1,000 alike, the last:  Sequential  f32[2, 8]")
    assert after.text == "after\n"


def test_a_block_that_is_entered_in_a_loop_is_one_display(shown: dict[str, list[Output]]) -> None:
    (display,) = shown["loop around"]
    assert rows(display)[0] == (0, "× 1,000 alike, the last: Sequential f32[2, 8]")


def test_two_blocks_are_displayed_where_they_are(shown: dict[str, list[Output]]) -> None:
    first, between, second = shown["two blocks"]
    assert rows(first) == rows(second) and rows(first)[0] == (0, "Sequential f32[2, 8]")
    assert between.text == "between\n"


def test_a_file_gets_text(shown: dict[str, list[Output]]) -> None:
    (printed,) = shown["file"]
    assert printed.text.startswith("Sequential           f32[2, 8]") and not printed.forms


def test_calls_of_a_function_are_one_display_for_each_cell(shown: dict[str, list[Output]]) -> None:
    (display,) = shown["function"]
    texts = [text for _, text in Outline(display.forms["text/html"]).rows]
    assert texts[0] == "… 440 earlier calls are not shown"
    assert texts[-4:] == [
        "[In [6]:2] add called from <module>:6 (In [6]:6)",
        "in number 499",
        "y @3 → 500 new",
        f"out 500 {texts[-1].rpartition(' ')[2]}",
    ]
    assert texts.count(texts[-4]) == 60
    again, result = shown["function again"]
    assert [text for _, text in Outline(again.forms["text/html"]).rows][:3] == [
        "[In [6]:2] add called from <module>:1 (In [7]:1)",
        "in number 1",
        "y @3 → 2 new",
    ]
    assert result.forms == {"text/plain": "2"}


def test_a_block_that_fails_shows_the_call_that_raised(shown: dict[str, list[Output]]) -> None:
    display, traceback = shown["raises"]
    assert any(text.startswith("F.linear ✗ raised RuntimeError") for _, text in rows(display))
    assert traceback.text.count("✗ the last dimension of input is 5, the layer takes 4") == 1


def test_workers_print_text(shown: dict[str, list[Output]]) -> None:
    display, *printed = shown["workers"]
    assert "Data.__getitem__" in display.forms["text/plain"]
    text = "".join(output.text for output in printed)
    assert text.count("Data.__getitem__") == 2 and "attempted to send message from fork" not in text


def test_redirected_output_gets_text(shown: dict[str, list[Output]]) -> None:
    (printed,) = shown["redirected"]
    assert printed.text.startswith("Sequential           f32[2, 8]")


def test_a_view_of_the_users_own_prints_text(shown: dict[str, list[Output]]) -> None:
    (printed,) = shown["own view"]
    assert "Sequential" in printed.text.splitlines()[-1]


def test_nothing_is_left_in_the_shell(shown: dict[str, list[Output]]) -> None:
    (count,) = shown["left behind"]
    assert count.forms["text/plain"] == "1"  # the kernel's own


AT_ONCE = """
import insitu.view.notebook.live_display as live_display
live_display.INTERVAL = 0
with insitu.watch(model):
    for _ in range(5):
        model(x)
"""


def test_a_block_that_takes_long_is_updated_while_it_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        sent = messages([MODEL, AT_ONCE], tmp_path_factory.mktemp("updates"), patch)
    assert sent.count("display_data") == 1
    # At the end, the footer comes, and the last call is folded with the others.
    assert sent.count("update_display_data") == 4 + 2


def test_ipython_in_a_terminal_shows_text(tmp_path: Path) -> None:
    program = f"{MODEL}with insitu.watch(model): model(x)\n\ninsitu.Trace()._repr_mimebundle_().keys()\n"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "--colors=nocolor"],
        **{"input": program, "capture_output": True, "text": True, "check": True, "timeout": 60},
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"},
    )
    assert re.search(r"Sequential +f32\[2, 8\] .* In \[\d\]:1\n├─ 0  Linear", done.stdout)
    assert "dict_keys(['text/plain'])" in done.stdout


def test_a_loop_of_blocks_sends_few_messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        sent = messages([MODEL, LOOP_AROUND.replace("1000", "300")], tmp_path_factory.mktemp("messages"), patch)
    assert sent.count("display_data") == 1
    assert 1 <= sent.count("update_display_data") <= 30
