"""The tree: nesting, folding, columns."""

from __future__ import annotations

from typing import Any

from tests.view.build import Run, linear, site, stats, tensor

from insitu.trace.event import Fields, Stats, Word
from insitu.trace.order import completion_order
from insitu.view import make, render, replay
from insitu.view.tree import Tree

EMPTY = Stats(count=0)


def block(run: Run, index: int, *, width: int = 96, nan: int = 0) -> None:
    x, path = tensor(2, 24, 96), f"h.{index}"
    place = site("x = block(x)", 43, "GPT.forward")
    inner = site("a = attn(x)", 31, "Block.forward", place)
    out = tensor(2, 24, 96, stats=stats(-5.0 - index, 5.45))
    with run.inside(run.module(path, "Block", x, leaf=False, out=out, site=place, duration=240_000_000)):
        norm = {"normalized_shape": (96,)}
        run.module(f"{path}.ln_1", "LayerNorm", x, settings=norm, out=x, site=inner, duration=2_200_000)
        linear(run, f"{path}.c_attn", 96, 3 * width, x, site=inner, duration=15_700_000)
        run.call("function", "torch.Tensor.split", tensor(2, 24, 288), 96, kwargs={"dim": 2}, out=(x, x, x))
        scores = tensor(2, 6, 24, 24, stats=stats(0, 1, nan=nan))
        run.call("function", "torch.nn.functional.softmax", scores, kwargs={"dim": -1}, out=scores, site=inner)


def gpt(blocks: int = 12, *, odd: int | None = None, nan: int | None = None) -> Run:
    run = Run()
    root = run.module("", "GPT", tensor(2, 24, dtype="i64"), leaf=False, out=tensor(2, 24, 256), duration=3_000_000_000)
    with run.inside(root):
        embedding = {"num_embeddings": 256, "embedding_dim": 96}
        run.module("wte", "Embedding", tensor(2, 24, dtype="i64"), settings=embedding, out=tensor(2, 24, 96))
        for index in range(blocks):
            block(run, index, width=97 if index == odd else 96, nan=48 if index == nan else 0)
    return run


FOLDED = """\
GPT                               f32[2, 24, 256]                    3.00s
├─ wte  Embedding(256, 96)        f32[2, 24, 96]
└─ h.0 … h.11  × 12 alike  Block  f32[2, 24, 96]      -16 … 5.45   Σ 2.88s  model.py:43
   ├─ ln_1  LayerNorm(96)         f32[2, 24, 96]                  Σ 26.4ms  model.py:31
   ├─ c_attn  Linear(96 → 288)    f32[2, 24, 288]                  Σ 188ms  model.py:31
   ├─ .split(96, dim=2)           3 × f32[2, 24, 96]
   └─ F.softmax(dim=-1)           f32[2, 6, 24, 24]   0 … 1                 model.py:31
74 calls · 3.00s"""


def rows(run: Run, **options: Any) -> list[str]:
    return render(run.trace, **options).split("\n")


def test_twelve_identical_blocks_are_one() -> None:
    assert render(gpt().trace) == FOLDED


def test_the_block_that_produces_nan_is_not_folded() -> None:
    found = rows(gpt(nan=3))
    assert [row.split("  f32")[0].strip(" ├└─") for row in found if "Block" in row] == [
        "h.0 … h.2  × 3 alike  Block",
        "h.3  Block",
        "h.4 … h.11  × 8 alike  Block",
    ]
    assert [index for index, row in enumerate(found) if "✗ 48 NaN" in row] == [11]


def test_a_block_that_differs_is_not_folded() -> None:
    found = [row for row in rows(gpt(odd=5)) if "Block" in row]
    assert [row.split("  f32")[0].strip(" ├└─") for row in found] == [
        "h.0 … h.4  × 5 alike  Block",
        "h.5  Block",
        "h.6 … h.11  × 6 alike  Block",
    ]


def test_unfold_shows_all_and_what_leaf_modules_do() -> None:
    found = rows(gpt(), unfold=True)
    assert sum("  Block" in row for row in found) == 12
    assert sum("F.linear" in row for row in found) == 12
    assert len(found) == len(gpt().events) + 1 and found[-1] == "74 calls · 3.00s"


def test_modules_of_other_names_do_not_fold() -> None:
    run, x = Run(), tensor(10, 20, 6)
    with run.inside(run.module("", "MHA", x, leaf=False, out=x)):
        for name in ("query", "key", "value"):
            linear(run, name, 6, 6, x)
    assert [row.split()[1] for row in rows(run)[1:]] == ["query", "key", "value"]


def test_a_loop_on_one_line_folds_and_two_lines_do_not() -> None:
    run, x, loop = Run(), tensor(2), site("x = x + 1", 3, "f")
    for place in (loop, loop, loop, site("x = x + 1", 4, "f")):
        run.call("function", "torch.Tensor.__add__", x, 1, operator="+", out=x, site=place)
    assert rows(run) == ["+ 1  × 3 alike  f32[2]  model.py:3", "+ 1             f32[2]  model.py:4"]


def test_identical_steps_fold_when_replayed() -> None:
    run, x = Run(), tensor(2)
    for run.step in range(4):
        run.mark("step", f"step {run.step}")
        run.events[-1].step = run.step
        run.module("", "Net", x, out=tensor(3) if run.step == 3 else x, duration=1_000_000)
    assert rows(run) == [
        "step 0 … 2  × 3 alike  Net  f32[2]  Σ 3.0ms",
        "step 3  Net                 f32[3]    1.0ms",
    ]


def test_steps_of_several_roots_have_a_row_of_their_own() -> None:
    run, x = Run(), tensor(2)
    for run.step in range(2):
        run.module("", "Net", x, out=x)
        run.call("function", "torch.Tensor.backward", x, kwargs={"gradient": None})
    assert rows(run) == ["step 0 … 1  × 2 alike", "├─ Net        f32[2]", "└─ .backward"]


def test_live_shows_each_root_when_it_is_complete() -> None:
    run, view = gpt(2), make("tree")
    shown = [list(view(event)) for event in completion_order(run.events)]
    assert all(not lines for lines in shown[:-1])
    assert len(shown[-1]) == 7
    assert list(view.finish()) == []


def test_calls_whose_parent_was_not_recorded_are_shown_at_the_end() -> None:
    run, view = gpt(2), make("tree")
    for event in list(completion_order(run.events))[:-1]:
        assert list(view(event)) == []
    assert [str(line).split()[0] for line in view.finish()][:2] == ["wte", "h.0"]


def test_narrow_terminals_drop_values_then_time_and_keep_the_source() -> None:
    run = gpt()
    full = len(max(FOLDED.split("\n"), key=len))
    assert render(run.trace, width=full) == FOLDED
    assert "-16 … 5.45   Σ 2.88s  model.py:43" in render(run.trace, width=full - 1)
    second = render(run.trace, width=72)
    assert "5.45" not in second and "Σ 2.88s  model.py:43" in second
    third = render(run.trace, width=66)
    assert "Σ" not in third and "h.0 … h.11  × 12 alike  Block  f32[2, 24, 96]      model.py:43" in third
    last = render(run.trace, width=40).split("\n")
    assert last[2] == "└─ h.0 … h…    f32[2, 24, …  model.py:43"
    assert max(map(len, last)) <= 40


def cell(result: Any, **more: Any) -> str:
    run = Run()
    run.call("function", "torch.f", tensor(1), out=result, **more)
    return render(run.trace).removeprefix("torch.f").strip()


def test_outputs_of_every_kind() -> None:
    assert cell((tensor(2), None)) == "f32[2]"
    assert cell((tensor(2), tensor(3, dtype="i64"))) == "f32[2], i64[3]"
    assert cell({"loss": tensor(), "n": 3}) == "loss: f32[], n: 3"
    assert cell(Fields("Out", {"logits": tensor(2), "cache": None})) == "logits: f32[2]"
    assert cell(tensor("s0", 2)) == "f32[s0, 2]"
    assert len(cell([tensor(index) for index in range(100)])) <= 60
    assert cell(None, raised="RuntimeError") == "✗ raised RuntimeError ← f32[1]"
    assert cell(tensor(2, kept=0.25)) == "f32[2]  0.25"
    assert cell(tensor(2, stats=stats(None, None, inf=2))) == "f32[2]  ✗ 2 Inf\nfirst Inf: torch.f"
    assert cell(tensor(2, stats=stats(-1.0, 2.0, inf=2))) == "f32[2]  ✗ 2 Inf  -1 … 2\nfirst Inf: torch.f"


def name(function: str, *args: Any, **more: Any) -> str:
    run = Run()
    run.call("function", function, *args, **more)
    return render(run.trace)


def test_compact_names() -> None:
    x = tensor(2)
    assert name("torch.cat", [x, x], kwargs={"dim": 1}) == "torch.cat(dim=1)"
    assert name("torch.Tensor.view", x, 10, 20) == ".view(10, 20)"
    assert name("torch.Tensor.__truediv__", x, 4.0, operator="/") == "/ 4.0"
    assert name("torch.Tensor.__rsub__", x, 1, operator="-") == "1 -"
    assert name("torch.Tensor.__getitem__", x, (Word("..."), 0), operator="[]") == "[..., 0]"
    assert name("torch.Tensor.__neg__", x, operator="-") == "-"
    assert name("torch.Tensor.f", x, "a" * 200) == f".f({'a' * 47}…)"


def test_notes_and_troubles_have_rows() -> None:
    run = Run()
    with run.inside(run.module("", "Net", tensor(2), leaf=False, out=tensor(2))):
        run.mark("step", "step 0")
        run.mark("trouble", "could not\nread \x1b[31mx")
        run.mark("note", "here")
    assert rows(run) == ["Net  f32[2]", r"├─ ! could not\nread \x1b[31mx", "└─ # here"]


def test_backward_calls_are_inside_backward() -> None:
    run, x = Run(), tensor(2)
    with run.inside(run.call("function", "torch.Tensor.backward", x)):
        run.call("aten", "aten.mm", x, out=x, phase="backward")
    assert rows(run) == [".backward", "└─ aten.mm  backward  f32[2]"]


def test_two_thousand_nested_calls() -> None:
    run, x = Run(), tensor(2)
    for depth in range(2000):
        call = run.module(".".join("a" * depth), "Nest", x, leaf=False, out=x)
        run._open.append(call)
    assert len(rows(run)) == 2001
    for view in ("code", "table"):
        render(run.trace, view)


def test_costs_and_backward_are_shown_beside_the_calls_on_request() -> None:
    run, x = Run(), tensor(2, 4)
    grad = tensor(2, 6, stats=stats(-0.5, 0.25))
    with run.inside(run.module("", "Net", x, leaf=False, out=tensor(2, 6, grad=grad), duration=9_000, parameters=30)):
        relu = run.call("function", "torch.relu", x, out=tensor(2, 6), duration=5_000, flops=12_000)
    with run.inside(run.call("function", "torch.Tensor.backward", x, duration=7_000)):
        run.call("aten", "aten.mm", x, duration=3_000, phase="backward", forward=relu.id, module=relu.module)
    assert render(run.trace, costs=True) == (
        "call                  output     values   time    own  memory  parameters  flops  source\n"
        "Net                   f32[2, 6]          9.0µs  9.0µs    48 B          30   12 k\n"
        "└─ torch.relu         f32[2, 6]          5.0µs  5.0µs    48 B               12 k\n"
        ".backward                                7.0µs  4.0µs\n"
        "└─ aten.mm  backward                     3.0µs  3.0µs"
    )
    assert render(run.trace, backward=True) == (
        "call           output     values   time  gradient     backward  source\n"
        "Net            f32[2, 6]          9.0µs  -0.5 … 0.25     3.0µs\n"
        "└─ torch.relu  f32[2, 6]          5.0µs                  3.0µs\n"
        ".backward                         7.0µs"
    )


def test_a_backward_row_names_the_module_it_belongs_to() -> None:
    run, x = Run(), tensor(2, 4)
    fc = run.module("fc", "Linear", x)
    run.call("aten", "aten.mm", x, phase="backward", forward=0, module=fc.module)
    assert render(run.trace).splitlines()[1].split("  ") == ["aten.mm", "backward of fc"]


def test_a_backward_row_for_several_modules_names_the_first_and_the_last() -> None:
    run, x, place = Run(), tensor(2, 4), site("loss.backward()", 3, "f")
    calls = [run.module(f"h.{number}", "Linear", x) for number in range(2)]
    for call in calls:
        run.call("aten", "aten.mm", x, phase="backward", forward=call.id, module=call.module, site=place)
    assert "aten.mm  × 2 alike  backward of h.0 … h.1" in render(run.trace)


def test_compiled_recomputed_and_vmapped_calls_are_marked() -> None:
    run, x = Run(), tensor(2)
    run.call("function", "torch.compile.work", x, out=x, mode="compiled")
    run.module("net", "Net", x, out=x, mode="compiled")
    backward = run.call("function", "torch.Tensor.backward", x)
    with run.inside(backward), run.inside(run.module("fc", "Linear", x, leaf=False, out=x, phase="recompute")):
        run.call("function", "torch.sin", x, out=x, phase="recompute")
    with run.inside(run.module("fc", "Linear", x, leaf=False, out=x, mode="vmap")):
        run.call("function", "torch.sin", x, out=x, mode="vmap")
        run.call("aten", "aten.sin", tensor(5, 2), out=tensor(5, 2))
    for width in (80, 120):
        found = render(run.trace, width=width).splitlines()
        assert [row.partition("  f32")[0].partition("←")[0].rstrip() for row in found] == [
            *("work  compiled", "net  Net  compiled", ".backward"),
            *("└─ fc  Linear  recompute", "   └─ torch.sin"),
            *("fc  Linear  vmap", "├─ torch.sin", "└─ aten.sin"),
        ]


def test_kept_values_of_each_output_are_shown() -> None:
    run = Run()
    run.call("function", "torch.max", out=(tensor(2, kept=0.25), tensor(2), tensor(kept=3)))
    assert values(run) == ["0.25 | ? | 3"]


def test_integers_too_large_for_a_float_are_shown_in_folded_rows() -> None:
    run = Run()
    for number, result in enumerate((1, 10**400, 10**5000)):
        run.module(f"h.{number}", "Power", out=result)
    assert render(run.trace) == "h.0 … h.2  × 3 alike  Power  1 … <int of 16610 bits>"
    run = Run()
    run.call("function", "torch.f", {10**5000: tensor(2)}, out={10**5000: tensor(2)})
    for view in ("tree", "code"):
        assert "<int of 16610 bits>" in render(run.trace, view)


def values(run: Run) -> list[str]:
    """The cells of the column `values`."""
    return [cells[VALUES] for cells in cells_of(run)]


OUTPUT, MARK, INPUT, VALUES = range(4)


def cells_of(run: Run, **options: Any) -> list[list[str]]:
    """The texts of the cells of each row."""
    lines = replay(run.events, Tree(live=False, **options))
    return [[text for text, _ in line.cells] for line in lines if line.cells]


def test_each_output_has_a_range_of_its_own() -> None:
    run = Run()
    logits, loss = tensor(4, 32, 27, stats=stats(-0.381, 0.679)), tensor(stats=stats(3.28, 3.28))
    run.module("", "GPT", out=(logits, loss))
    found = (tensor(3, stats=stats(-1.5, 2.0)), tensor(3, dtype="i64", stats=stats(8031, 122801)))
    run.call("function", "torch.max", tensor(3, 4), out=found)
    run.call("function", "torch.f", out=(tensor(2), tensor(2, stats=stats(0, 1)), tensor(0, stats=EMPTY)))
    assert values(run) == ["-0.381 … 0.679 | 3.28", "-1.5 … 2 | 8031 … 122801", "? | 0 … 1 | empty"]


def test_many_outputs_show_the_first_and_count_nonfinite_in_the_rest() -> None:
    run = Run()
    parts = [tensor(2, stats=stats(number, number + 1)) for number in range(12)]
    run.call("function", "torch.chunk", out=tuple(parts))
    run.call("function", "torch.chunk", out=(*parts[:10], tensor(2, stats=stats(0, 1, nan=3)), parts[11]))
    assert values(run) == ["0 … 1 | 1 … 2 | 2 … 3 | … 9 more"] * 2
    assert [cells[MARK] for cells in cells_of(run)] == ["", "✗ 3 NaN"]


def test_a_folded_row_has_the_range_of_each_output_over_all_copies() -> None:
    run = Run()
    for number in range(3):
        out = (tensor(2, stats=stats(-number, 0)), tensor(2, dtype="i64", stats=stats(5, 4096 + number)))
        run.module(f"h.{number}", "Block", out=out)
    assert values(run) == ["-2 … 0 | 5 … 4098"]


def test_numbers_of_a_folded_row_are_exact_and_their_nan_is_seen() -> None:
    run, line = Run(), site("x.item()", 3, "f")
    for number in (123_456, 1_234_567):
        run.call("function", "torch.Tensor.item", tensor(), out=number, site=line)
    assert "123456 … 1234567" in render(run.trace)
    run = Run()
    for loss in (0.5, float("nan"), 2.0):
        run.call("function", "torch.Tensor.item", tensor(), out=loss, site=line)
    assert "0.5 … 2, 1 NaN" in render(run.trace)


def test_a_row_for_calls_on_several_lines_does_not_name_one_of_them_alone() -> None:
    run = Run()
    for number in range(2):
        run.module(f"h.{number}", "Block", out=tensor(2), site=site("self.h", 3 + number, "f"))
    assert rows(run) == ["h.0 … h.1  × 2 alike  Block  f32[2]  model.py:3 …"]


def test_a_tensor_among_the_arguments_keeps_its_position() -> None:
    x, n, mask = tensor(2, 3), tensor(dtype="i64"), tensor(8, dtype="b8")
    assert name("torch.zeros", 1, n, 5) == "torch.zeros(1, i64[], 5)"
    assert name("torch.where", mask, x, 0.0) == "torch.where(b8[8], f32[2, 3], 0.0)"
    assert name("torch.Tensor.masked_fill", x, mask, 0.5) == ".masked_fill(b8[8], 0.5)"
    assert name("torch.clamp", x, None, 5) == "torch.clamp(f32[2, 3], None, 5)"
    assert name("torch.nn.functional.linear", x, x, None) == "F.linear"
    assert name("torch.nn.functional.f", x, x, x, kwargs={"p": 0.5, "mask": mask}) == "F.f(p=0.5, mask=b8[8])"
    assert name("torch.nn.functional.f", x, x, x, 2, kwargs={"bias": mask}) == "F.f(3 × f32[2, 3], 2)"
    norm = {"weight": tensor(96), "bias": tensor(96), "eps": 0.001}
    named = name("torch.nn.functional.layer_norm", tensor(2, 24, 96), (96,), kwargs=norm)
    assert named == "F.layer_norm(f32[…], (96,), eps=0.001, …)"
    assert name("torch.cat", [x, x], 1) == "torch.cat([2 × f32[2, 3]], 1)"
    long = tensor(128, 1024, 1024, 16)
    assert name("torch.f", x, long, tensor(1024, 1024, dtype="i64"), 3) == "torch.f(f32[…], f32[…], i64[…], 3)"
    assert name("torch.Tensor.__getitem__", x, (Word(":"), mask), operator="[]") == "[:, b8[8]]"
    assert name("torch.Tensor.__getitem__", x, (Word(":"), None), operator="[]") == "[:, None]"


# NaN and Inf while a program runs.


def live(run: Run) -> tuple[list[str], list[str]]:
    """The lines that are printed while a program runs, and those at its end."""
    view = make("tree")
    during = [str(line) for event in completion_order(run.events) for line in view(event)]
    return during, [str(line) for line in view.finish()]


def test_live_the_first_nan_is_named_below_its_tree_and_again_at_the_end() -> None:
    run = Run()
    for number in range(3):
        bad = tensor(2, id=number, producer=2 * number + 1, stats=stats(0, 1, nan=3 * (number > 0)))
        with run.inside(run.module("", "Net", tensor(2), leaf=False, out=bad)):
            run.call("function", "torch.relu", tensor(2, stats=stats(0, 1)), out=bad)
    during, after = live(run)
    assert during == [
        *("Net  f32[2]  0 … 1", "└─ torch.relu  f32[2]  0 … 1"),
        *("Net  f32[2]  ✗ 3 NaN  0 … 1", "└─ torch.relu  f32[2]  ✗ 3 NaN  0 … 1", "first NaN: torch.relu"),
        *("Net  f32[2]  ✗ 3 NaN  0 … 1", "└─ torch.relu  f32[2]  ✗ 3 NaN  0 … 1"),
    ]
    assert after == ["first NaN: torch.relu"]


def test_live_an_inf_that_may_heal_is_shown_without_a_cross() -> None:
    run, x = Run(), tensor(2, stats=stats(0, 1))
    mask = tensor(2, id=1, producer=0, stats=stats(0, 1, inf=2))
    run.call("function", "torch.log", x, out=mask)
    run.call("function", "torch.softmax", mask, out=tensor(2, id=2, producer=1, stats=stats(0, 1)))
    during, after = live(run)
    assert during == ["torch.log  f32[2]  2 Inf  0 … 1", "torch.softmax  f32[2]  0 … 1"] and after == []
    assert "✗" not in render(run.trace)


def test_live_the_first_inf_is_named_once() -> None:
    run, large = Run(), tensor(2, stats=stats(0, 1), requires_grad=True)
    for number in range(3):
        out = tensor(2, id=number, producer=number, stats=stats(0, 1, inf=2), requires_grad=True)
        run.call("function", "torch.exp", large, out=out)
    during, after = live(run)
    assert [line for line in during if "first" in line] == ["first Inf: torch.exp"] == after


def test_live_an_inf_that_nothing_healed_is_named_at_the_end() -> None:
    run, x = Run(), tensor(2, stats=stats(0, 1))
    run.call("function", "torch.log", x, out=tensor(2, id=1, producer=0, stats=stats(0, 1, inf=2)))
    during, after = live(run)
    assert during == ["torch.log  f32[2]  2 Inf  0 … 1"] and after == ["first Inf: torch.log"]


def test_the_first_nan_is_named_though_its_call_is_not_shown() -> None:
    run, fine = Run(), tensor(2, stats=stats(0, 1))
    bad = tensor(2, id=1, producer=1, stats=stats(0, 1, nan=1))
    with run.inside(run.module("a", "Net", fine, leaf=False, out=bad)):
        run.call("function", "torch.relu", fine, out=bad)
    run.module("b", "Net", bad, out=tensor(2, id=2, producer=2, stats=stats(0, 1, nan=1)))
    assert render(run.trace, only="b").splitlines()[1:] == ["first NaN: a torch.relu"]


def test_passes_without_times_have_no_sum() -> None:
    run = Run()
    for _ in range(3):
        run.call("function", "torch.exp", tensor(2), out=tensor(2))
        run.call("function", "torch.log", tensor(2), out=tensor(2))
        run.call("function", "torch.sin", tensor(2), out=tensor(2))
    assert rows(run, live=False)[0].split() == ["×", "3", "alike"]
