"""Explained errors that say nothing rather than something wrong: which line, which call, which expression."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import insitu

Note = Callable[[str], str]


@pytest.fixture
def unrecorded(tmp_path: Path) -> Iterator[Note]:
    """What `insitu.explain` says of the error that `run()` of a program raises without a session."""

    def told(text: str) -> str:
        try:
            _program(tmp_path, text)["run"]()
        except Exception as error:
            return insitu.explain(error).note
        raise AssertionError("nothing was raised")

    yield told
    linecache.clearcache()


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Note]:
    """The note of the error that `run()` of a program raises while it is recorded."""

    def told(text: str) -> str:
        scope = _program(tmp_path, text)
        try:
            with insitu.record():
                scope["run"]()
        except Exception as error:
            (note,) = error.__notes__
            return str(note)
        raise AssertionError("nothing was raised")

    yield told
    linecache.clearcache()


def _program(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "model.py"
    path.write_text(dedent(text), "utf-8")
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {"__name__": "model"}
    exec(compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True), scope)
    return scope


BRANCH = """
    import torch
    def run(wide=True):
        w = torch.ones(3, 2)
        if wide:
            x = torch.ones(2, 5)
        else:
            x = torch.ones(2, 4)
        return x @ w
"""
PASSES = """
    import torch
    def run():
        w = torch.ones(3, 2)
        x = torch.ones(2, 3)
        for _ in range(2):
            y = x @ w
            x = y
"""
TWICE = """
    import torch
    def run():
        w = torch.ones(4, 2)
        w = torch.ones(3, 2)
        x: torch.Tensor = torch.ones(2, 5)
        return x @ w
"""


def test_a_line_is_named_only_if_no_other_assignment_may_have_run(unrecorded: Note) -> None:
    branch, passes, twice = unrecorded(BRANCH), unrecorded(PASSES), unrecorded(TWICE)
    assert "w  assigned at model.py:4   torch.ones(3, 2)" in branch
    assert "x  assigned" not in branch
    assert "w  assigned at model.py:4   torch.ones(3, 2)" in passes
    assert "x  assigned" not in passes
    assert "w  assigned at model.py:5   torch.ones(3, 2)" in twice
    assert "x  assigned at model.py:6   torch.ones(2, 5)" in twice


@pytest.mark.parametrize(
    "lines",
    [
        "with torch.no_grad():\n            x = torch.ones(2, 5)\n        x = x if (x := torch.ones(2, 6)) is x else x",
        "for x in [torch.ones(2, 5)]: pass",
        "x = torch.ones(2, 3); x = torch.ones(2, 5)",
        "x = torch.ones(2, 3)\n        for x in [torch.ones(2, 5)]: pass",
    ],
)
def test_other_ways_to_give_a_name_a_value_are_seen(unrecorded: Note, lines: str) -> None:
    told = unrecorded(f"""
    import torch
    def run():
        w = torch.ones(3, 2)
        {lines}
        return x @ w
    """)
    assert "w  assigned at model.py:4" in told
    assert "torch.ones(2, 3)" not in told
    assert "x  assigned" not in told


GAN = """
    import torch
    D, G = torch.nn.Linear(2, 1), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(D.parameters(), 0.1)
    def run():
        score = D(G(torch.randn(4, 2)))
        other = D(torch.randn(4, 2))
        other.sum().backward()
        optimizer.step()
        score.sum().backward()
"""


def test_only_a_call_of_the_graph_that_failed_can_need_what_was_changed(recorded: Note) -> None:
    told = recorded(GAN)
    assert "✗ optimizer.step() changed D.weight between forward and backward" in told
    assert "changed  in place at model.py:9           optimizer.step()" in told
    assert "needed   for the gradient of model.py:6   D(G(torch.randn(4, 2)))" in told
    assert "clone" not in told


def test_a_call_that_saves_nothing_does_not_need_what_was_changed(recorded: Note) -> None:
    told = recorded("""
    import torch
    def run():
        x = torch.ones(3, requires_grad=True).exp()
        y = x * x
        z = x + 1
        x.zero_()
        (y + z).sum().backward()
    """)
    assert "needed   for the gradient of model.py:5   x * x" in told


def test_what_is_ambiguous_is_the_comparison_not_its_left_side(recorded: Note) -> None:
    told = recorded("""
    import torch
    def run():
        x = torch.ones(3)
        if x.sum() < x:
            pass
    """)
    assert "✗ x.sum() < x is b8[3]: more than one element" in told


def test_a_tensor_that_is_given_to_grad_keeps_its_name(recorded: Note) -> None:
    told = recorded("""
    import torch
    def run():
        x, p = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        u = (x ** 2).sum()
        torch.autograd.grad(u, [x, p])
    """)
    assert "u  made at model.py:5" in told
    assert "[0]" not in told


def test_strings_have_their_quotes(unrecorded: Note) -> None:
    told = unrecorded("""
    def run():
        rate = "1e-3"
        return rate * 0.5
    """)
    assert "╰ '1e-3'" in told
    empty: dict[str, int] = {}
    try:
        empty["zz"]
    except KeyError as error:
        assert str(insitu.explain(error)).startswith("KeyError: 'zz'")


def test_an_index_outside_of_a_table_is_told_without_a_session(unrecorded: Note) -> None:
    text = unrecorded("""
        import torch
        def run():
            table, ids = torch.nn.Embedding(10, 4), torch.tensor([3, 10])
            return table(ids)
    """)
    assert "ids holds 3 … 10; weight has 10 rows (0 … 9)" in text


def test_none_that_is_given_to_a_layer_is_named_with_its_maker(recorded: Note) -> None:
    text = recorded("""
        import torch
        class Forgets(torch.nn.Module):
            def forward(self, x):
                x = x + 1
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = Forgets(), torch.nn.Linear(3, 3)
            def forward(self, x):
                hidden = self.body(x)
                return self.head(hidden)
        def run():
            return Net()(torch.ones(2, 3))
    """)
    assert "hidden is None: Forgets.forward returned nothing" in text


@pytest.mark.parametrize("how", ["recorded", "unrecorded"])
def test_what_is_stored_in_a_part_of_a_tensor_is_marked(how: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(how)("""
        import torch
        def run():
            out, row = torch.zeros(3, 4), torch.ones(5)
            out[0] = row
    """)
    assert "value  5    row" in text and "the place has 4, the value 5" in text and "╰ f32[5]" in text


@pytest.mark.parametrize("how", ["recorded", "unrecorded"])
def test_arguments_that_a_layer_does_not_take_are_not_looked_at(how: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(how)("""
        import torch
        def run():
            return torch.nn.Linear(3, 3)(torch.ones(2, 3), torch.ones(2))
    """)
    assert "model.py:4 in run" in text and "✗" not in text


@pytest.mark.parametrize("error", [SyntaxError("bad", ("x.py", 1, 2, "a b")), ExceptionGroup("bad", [ValueError()])])
def test_the_message_is_the_text_without_what_comes_along(error: Exception) -> None:
    assert insitu.explain(error).message == "bad"
    assert insitu.explain(OSError(2, "no such file")).message == "2, 'no such file'"
