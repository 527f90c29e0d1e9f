"""The code view prints the lines of seed 002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.view.build import Run, site, tensor

from insitu.trace.event import Site, Word
from insitu.view import render

EXPECTED = Path(__file__).parent / "expected"
HF = "/home/me/venv/lib/python3.11/site-packages/transformers/"


def gemma() -> Run:
    """The run of which the seed shows the lines."""
    run, meta = Run(), Word("meta")
    file = HF + "models/gemma3/modeling_gemma3.py"
    top = site("out = model(**example_kwargs)", 41, "<module>", file="test.py")
    generic = HF + "utils/generic.py"
    wrapper = site("    output = func(self, *args, **kwargs)", 969, "f.<locals>.wrapper", top, file=generic)

    def place(text: str, line: int, function: str, caller: Site, mark: str = "") -> Site:
        return site("        " + text, line, function, caller, file=file, mark=mark)

    embed = place("inputs_embeds = self.get_input_embeddings()(llm_input_ids)", 1175, "Gemma3Model.forward", wrapper)
    text = "return super().forward(input_ids) * self.embed_scale.to(self.weight.dtype)"
    scale = ("super().forward(input_ids)", text.removeprefix("return "))
    first, second = (place(text, 144, "Gemma3Embedding.forward", embed, mark) for mark in scale)
    arange = place("cache_position = torch.arange(", 1179, "Gemma3Model.forward", wrapper)
    mask = place("causal_mask = self._update_causal_mask(", 1205, "Gemma3Model.forward", wrapper)
    full = place("causal_mask = torch.full(", 1050, "Gemma3Model._update_causal_mask", mask)
    triu = place("causal_mask = torch.triu(causal_mask, diagonal=1)", 1056, "Gemma3Model._update_causal_mask", mask)

    def bf16(*shape: int) -> Any:
        return tensor(*shape, dtype="bf16")

    ids, embedded, square = tensor(2, 3, dtype="i64"), bf16(2, 3, 2560), bf16(3, 33)
    pinned = {"device": meta, "pin_memory": False}
    run.call("aten", "aten.embedding", bf16(262208, 2560), ids, 0, out=embedded, site=first)
    run.call("aten", "aten.mul.Tensor", embedded, bf16(), out=embedded, site=second)
    run.call("aten", "aten.arange.start", 30, 33, kwargs=pinned, out=tensor(3, dtype="i64"), site=arange)
    kwargs = {"dtype": Word("torch.bfloat16"), **pinned}
    run.call("aten", "aten.full", [3, 33], -3.3895313892515355e38, kwargs=kwargs, out=square, site=full)
    run.call("aten", "aten.triu", square, 1, out=square, site=triu)
    return run


def test_the_seed_to_the_letter() -> None:
    expected = (EXPECTED / "code.txt").read_text().rstrip("\n")
    assert render(gemma().trace, "code", native=False) == expected


def test_native_view_shows_a_line_with_several_operators_once() -> None:
    text = render(gemma().trace, "code")
    assert text.count("return super().forward(input_ids) * self.embed_scale") == 1
    assert not any(line.endswith(";") for line in text.split("\n"))


def lines(run: Run, **options: Any) -> list[str]:
    return render(run.trace, "code", **options).split("\n")


def test_a_repeated_place_is_not_printed_again() -> None:
    run, here = Run(), site("y = f(x)", 3, "<module>", mark="f(x)")
    for name in ("aten.t", "mylib.op.out"):
        run.call("aten", name, tensor(2), out=(tensor(2), None), site=here)
    assert lines(run, native=False) == [
        "y = f(x)  # model.py:3 in <module>:",
        "│ # t(f32[2]) -> (f32[2], None);",
        "│ # mylib::op.out(f32[2]) -> (f32[2], None)",
    ]


def outer_columns() -> Run:
    run = Run()
    for mark in ("a(x)", "b(x)"):
        caller = site("y = a(x) + b(x)", 3, "<module>", mark=mark)
        run.call("aten", "aten.t", tensor(2), out=tensor(2), site=site("return x.t()", 9, "f", caller, mark="x.t()"))
    return run


def test_succinct_compares_outer_places_by_line_only() -> None:
    assert lines(outer_columns())[4:] == ["│ │ # t(f32[2]) -> f32[2]"]
    assert lines(outer_columns(), succinct=False)[4] == "y = a(x) + b(x)  # model.py:3 in <module>:"


def test_arguments_of_every_kind() -> None:
    run = Run()
    run.call("aten", "aten.cat", [tensor(2), tensor(2)], "mean", True, kwargs={"a": None}, raised="RuntimeError")
    assert lines(run) == ["# cat([f32[2], f32[2]], mean, True, a=None) -> raised RuntimeError"]
    assert lines(run, native=False) == ["# cat(['f32[2]', 'f32[2]'], mean, True, a=None) -> raised RuntimeError"]


def functions() -> Run:
    run, x = Run(), tensor(2)
    with run.inside(run.module("fc", "MyModule", x, leaf=False, out=x)):
        add = run.call("function", "torch.Tensor.__add__", x, 1, operator="+", out=x)
        run.call("function", "torch.nn.functional.softmax", x, kwargs={"dim": 0, "_stacklevel": 3}, out=x)
    assert add.path == "fc"
    return run


def test_functions_are_shown_where_there_are_no_operators() -> None:
    assert lines(functions()) == ["# f32[2] + 1 -> f32[2]  fc", "# F.softmax(f32[2], dim=0) -> f32[2]  fc"]
    assert render(functions().trace, "code", native=False) == ""


def test_functions_with_operators_inside_are_not_shown() -> None:
    run, x = Run(), tensor(2)
    with run.inside(run.call("function", "torch.Tensor.__add__", x, 1, operator="+", out=x)):
        run.call("aten", "aten.add.Tensor", x, 1, out=x)
    run.call("function", "torch.Tensor.tolist", x, out=x)
    run.call("function", "torch.nn.functional.linear", x, raised="TypeError")
    assert lines(run) == ["# add.Tensor(f32[2], 1) -> f32[2]", "# F.linear(f32[2]) -> raised TypeError"]


def test_colour_marks_the_exact_columns() -> None:
    run = Run()
    run.call("aten", "aten.t", tensor(2), out=tensor(2), site=site("    y = f(x)", 3, "g", mark="f(x)"))
    first, second = lines(run, color=True, native=False)
    assert first == "y = \033[36mf(x)\033[0m\033[2m  # model.py:3 in g:\033[0m"
    assert second == "│ \033[2m# t(f32[2]) -> f32[2];\033[0m"


def test_files_in_the_current_folder_are_relative() -> None:
    run = Run()
    for file in (str(Path.cwd() / "pkg" / "a.py"), "/elsewhere/b.py"):
        run.call("aten", "aten.t", out=None, site=site("x", 1, "f", file=file))
    assert [line.split("# ")[1] for line in lines(run)[::2]] == ["pkg/a.py:1 in f:", "/elsewhere/b.py:1 in f:"]
