"""What explanations say about whole programs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from tests.failing import ATTENTION, EXPLAINED, Program, caught, failure, note_of, recorded

import insitu
from insitu.capture.torch_versions import release
from insitu.errors import SubjectError
from insitu.verbs.explain import explain

NAMES_CHANGES = pytest.mark.skipif(
    release(torch.__version__) < (2, 10), reason="torch before 2.10 does not say what autograd has saved"
)


@pytest.mark.parametrize("level", ["functions", "aten"])
def test_failed_broadcast_is_explained_with_shapes_and_origins(program: Program, level: str) -> None:
    assert note_of(recorded(program(ATTENTION)["run"], level=level)) == EXPLAINED


def test_failed_layer_is_named_at_the_line_that_calls_the_model(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(9, 2))
        x = torch.ones(3, 5)
        def run():
            return net(x)
    """)["run"]
    expected = """\
  model.py:7 in run    Sequential ▸ 2
     7 │ return net(x)
                    ┬
                    ╰ f32[3, 5]
    input   3, 8
    weight  2, 9    2.weight
               ✗ the last dimension of input is 8, the layer takes 9
    → no fix is known"""
    assert note_of(recorded(run)) == expected


def test_parameters_show_their_path_and_operands_the_line_that_produced_them(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(12, 4)
            def forward(self, x):
                x = x.flatten(1)
                return self.fc(x)
        def run():
            return Net()(torch.ones(8, 2, 5))
    """)["run"]
    expected = """\
  model.py:10 in forward    Net ▸ fc
    10 │ return self.fc(x)
                        ┬
                        ╰ f32[8, 10]
    input   8, 10    x
    weight  4, 12    fc.weight
               ✗ the last dimension of input is 10, the layer takes 12
    x          made at model.py:9   x.flatten(1)
    fc.weight  made at model.py:7   nn.Linear(12, 4)
    → likely fix at model.py:7: self.fc = nn.Linear(10, 4)
      doubt: the 10 may be wrong instead"""
    assert note_of(recorded(run)) == expected


def test_expression_over_several_lines_is_shown_whole(program: Program) -> None:
    run = program("""
        import torch
        a, b = torch.ones(2, 3), torch.ones(2, 4)
        def run():
            return torch.cat(
                [a,
                 b],
                dim=0,
            )
    """)["run"]
    shown = note_of(recorded(run))
    assert "     5 │ return torch.cat(" in shown
    assert "     9 │ )" in shown
    assert "✗ dimension 1: 3 and 4 differ; only dimension 0 may" in shown


def test_values_of_the_failing_iteration_are_shown(program: Program) -> None:
    run = program("""
        import torch
        def run():
            for n in (3, 3, 5):
                a = torch.ones(2, n)
                a = a * 2 + torch.ones(3) * 1
    """)["run"]
    shown = note_of(recorded(run))
    assert "╰ f32[2, 5]" in shown
    assert "f32[2, 3]" not in shown


def test_argument_from_outside_is_traced_to_the_call_it_was_passed_to(program: Program) -> None:
    scope = program("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return x.view(7, -1)
        net, data = Net(), torch.ones(3, 5)
        def run():
            return net(data)
    """)
    shown = note_of(recorded(scope["run"]))
    assert "3 × 5 = 15 elements do not fit into 7 × -1: 15 is not a multiple of 7" in shown
    assert "    x  passed to Net at model.py:9   net(data)" in shown


def test_indices_out_of_range_show_the_line_that_produced_their_values(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        def tokens():
            return torch.arange(1, 11)
        def run():
            ids = tokens().reshape(2, 5)
            return nn.Embedding(10, 4)(ids)
    """)["run"]
    shown = note_of(recorded(run))
    assert "✗ ids holds 1 … 10; weight has 10 rows (0 … 9)" in shown
    assert "goes past 9 at model.py:5   torch.arange(1, 11)" in shown


def test_operand_that_the_line_produced_is_underlined(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        word, place = nn.Embedding(90, 2), nn.Embedding(64, 2)
        def run(ids):
            return word(ids) + place(torch.arange(ids.shape[1]))
    """)["run"]
    lines = note_of(recorded(lambda: run(torch.zeros(2, 70, dtype=torch.long)))).splitlines()
    assert lines[1:5] == [
        "     6 │ return word(ids) + place(torch.arange(ids.shape[1]))",
        "                     ┬──          ┬─────────────────────────",
        "                     │            ╰ i64[70]",
        "                     ╰ i64[2, 70]",
    ]


def test_crowded_line_underlines_only_the_operands(program: Program) -> None:
    run = program("""
        import torch
        def run(a, b, c, d, e):
            return a * b + c * d + (a - b) @ e
    """)["run"]
    shown = note_of(recorded(lambda: run(*[torch.ones(2, 2)] * 4, torch.ones(3, 3)))).splitlines()
    assert shown[1:5] == [
        "     4 │ return a * b + c * d + (a - b) @ e",
        "                                 ┬────    ┬",
        "                                 │        ╰ f32[3, 3]",
        "                                 ╰ f32[2, 2]",
    ]


BACKWARD = """
    import torch
    def changed():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y += 1
        y.sum().backward()
    def twice():
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()
        loss.backward()
        loss.backward()
    def lost():
        x = torch.ones(3, requires_grad=True)
        y = x.detach() * 2
        loss = y.sum()
        loss.backward()
    def vector():
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.backward()
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, grad):
            part = grad[:2]
            return part
    def wrong():
        x = torch.ones(3, requires_grad=True)
        loss = Double.apply(x).sum()
        loss.backward()
    def resized():
        x, w = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
        y = (x * w.sum()) @ w
        w.data = torch.ones(7, 7)
        y.sum().backward()
"""


@pytest.mark.parametrize("level", ["functions", "aten"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param(
            "changed",
            ["in place at model.py:6           y += 1", "for the gradient of model.py:5   x.exp()"],
            marks=NAMES_CHANGES,
        ),
        ("twice", ["freed by the backward at model.py:11   loss.backward()"]),
        ("lost", ["lost at model.py:15   x.detach()"]),
        ("vector", ["✗ backward() needs a single number", "made at model.py:20   x * 2"]),
        ("wrong", ["model.py:28   grad[:2]"]),
    ],
)
def test_errors_in_backward_name_the_forward_line(program: Program, level: str, name: str, told: list[str]) -> None:
    shown = note_of(recorded(program(BACKWARD)[name], level=level))
    assert [text for text in told if text not in shown] == []


def test_operator_that_fails_in_backward_names_the_forward_call(program: Program) -> None:
    shown = note_of(recorded(program(BACKWARD)["resized"], level="aten"))
    assert "✗ the last dimension of left is 4, right has 7 rows" in shown
    assert "    backward  of the call at model.py:36   (x * w.sum()) @ w" in shown


PLAIN = """
    import numpy as np, torch
    from torch import nn
    def unpack():
        batch = (torch.ones(2), torch.ones(3), torch.ones(4))
        x, y = batch
    def missing():
        state = {"weight": torch.ones(2)}
        return state["bias"]
    class Net(nn.Module):
        def forward(self, x):
            h = self.feed(x)
            return x + h
        def feed(self, x):
            x * 2
    def none():
        return Net()(torch.ones(2))
    def arrays():
        a, b = np.ones((2, 3)), np.ones((4, 3))
        return a @ b
    def checked():
        x = torch.ones(2, 3)
        assert x.shape[1] == 4, "four are needed"
    def unpack_part():
        batch = torch.ones(2), torch.ones(1, 4)
        x, (y, z) = batch
    class Empty(nn.Module):
        def forward(self, x):
            x * 2
    def empty():
        x, feed = torch.ones(2), Empty()
        h = feed(x)
        return x + h
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unpack", ["model.py:6 in unpack", "╰ f32[2], f32[3], f32[4]", "✗ three values for two names"]),
        ("unpack_part", ["value  1, 4", "✗ one value for two names: a tensor gives as many as its first dimension"]),
        ("empty", ["✗ h is None: Empty.forward returned nothing"]),
        ("missing", ["model.py:9 in missing", "╰ weight: f32[2]"]),
        ("none", ["model.py:13 in forward    Net", "╰ None", "h  comes from model.py:12   self.feed(x)"]),
        ("arrays", ["╰ np f64[2, 3]", "✗ the last dimension of left is 3, right has 4 rows"]),
        ("checked", ["╰ f32[2, 3]", "x  made at model.py:22   torch.ones(2, 3)"]),
    ],
)
def test_errors_of_plain_python_show_the_tensors_of_the_line(program: Program, name: str, told: list[str]) -> None:
    shown = note_of(recorded(program(PLAIN)[name]))
    assert [text for text in told if text not in shown] == []


def test_limits_of_a_tensor_that_changed_since_are_not_shown(program: Program) -> None:
    run = program("""
        import torch
        def run(ids):
            return torch.nn.functional.embedding(ids, torch.ones(3, 2))
    """)["run"]
    same, other = torch.tensor([9]), torch.tensor([9])
    first, second = caught(lambda: run(same)), caught(lambda: run(other))
    other.fill_(1)
    assert "ids holds 9 … 9;" in note_of(first)
    assert "✗ torch.ones(3, 2) has 3 rows (0 … 2)" in note_of(second)


def test_explain_returns_the_content_of_the_note(program: Program) -> None:
    error = recorded(program(ATTENTION)["run"])
    found = explain(error)
    assert found.note == EXPLAINED
    assert str(found).startswith("RuntimeError: The size of tensor a (24)")
    assert found.site is not None
    assert found.site.line == 10


def test_explain_works_without_any_session(program: Program) -> None:
    scope = program(ATTENTION)
    try:
        scope["run"]()
    except RuntimeError:
        found = explain()
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in str(found)
    assert "╰ f32[6, 24, 25]" in str(found)


def test_explain_without_argument_takes_the_last_exception_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(lambda: torch.ones(2) + torch.ones(3))
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert explain().error == "RuntimeError"


def test_explain_refuses_what_is_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    with pytest.raises(SubjectError, match="no exception to explain"):
        explain()
    with pytest.raises(SubjectError, match="str is not an exception"):
        explain("RuntimeError")  # type: ignore[arg-type]


def test_tensor_that_no_call_produced_shows_the_assignment_of_its_name(program: Program) -> None:
    run = program("""
        import numpy as np, torch
        def load():
            return torch.from_numpy(np.ones((2, 3)))
        def run():
            left, right = load(), torch.ones(3, 2)
            return [part for part in (1,)] and left @ right
        def inner():
            part = load()
            return (lambda part: part.view(7))(torch.ones(3))
    """)
    shown = note_of(recorded(run["run"]))
    assert "✗ the dtypes differ: left is f64, right is f32" in shown
    assert "f64    comes from model.py:4    torch.from_numpy(np.ones((2, 3)))   via run line 6" in shown
    assert "left   assigned at model.py:6   load()" in shown
    shown = note_of(recorded(run["inner"]))
    assert "✗ 3 elements do not fit into 7" in shown
    assert "model.py:9" not in shown


Explained = Callable[[str], str]


@pytest.fixture
def unrecorded_note(program: Program) -> Explained:
    """The explanation of the error that `run()` of a program raises without a session."""
    return lambda text: insitu.explain(failure(program(text)["run"])).note


@pytest.fixture
def recorded_note(program: Program) -> Explained:
    """The note of the error that `run()` of a program raises while it is recorded."""
    return lambda text: note_of(recorded(program(text)["run"]))


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


def test_assignment_is_named_only_if_no_other_one_may_have_run(unrecorded_note: Explained) -> None:
    branch, passes, twice = unrecorded_note(BRANCH), unrecorded_note(PASSES), unrecorded_note(TWICE)
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
def test_other_bindings_of_a_name_hide_its_assignment(unrecorded_note: Explained, lines: str) -> None:
    told = unrecorded_note(f"""
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


@NAMES_CHANGES
def test_change_in_place_is_needed_by_a_call_of_the_failing_graph(recorded_note: Explained) -> None:
    told = recorded_note(GAN)
    assert "✗ optimizer.step() changed D.weight between forward and backward" in told
    assert "changed  in place at model.py:9           optimizer.step()" in told
    assert "needed   for the gradient of model.py:6   D(G(torch.randn(4, 2)))" in told
    assert "clone" not in told


@NAMES_CHANGES
def test_call_that_saves_nothing_does_not_need_the_changed_tensor(recorded_note: Explained) -> None:
    told = recorded_note("""
    import torch
    def run():
        x = torch.ones(3, requires_grad=True).exp()
        y = x * x
        z = x + 1
        x.zero_()
        (y + z).sum().backward()
    """)
    assert "needed   for the gradient of model.py:5   x * x" in told


def test_ambiguous_truth_names_the_comparison(recorded_note: Explained) -> None:
    told = recorded_note("""
    import torch
    def run():
        x = torch.ones(3)
        if x.sum() < x:
            pass
    """)
    assert "✗ x.sum() < x is b8[3]: more than one element" in told


def test_tensor_passed_to_autograd_grad_keeps_its_name(recorded_note: Explained) -> None:
    told = recorded_note("""
    import torch
    def run():
        x, p = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        u = (x ** 2).sum()
        torch.autograd.grad(u, [x, p])
    """)
    assert "u  made at model.py:5" in told
    assert "[0]" not in told


def test_strings_are_shown_with_quotes(unrecorded_note: Explained) -> None:
    told = unrecorded_note("""
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


def test_index_outside_of_a_table_is_explained_without_a_session(unrecorded_note: Explained) -> None:
    text = unrecorded_note("""
        import torch
        def run():
            table, ids = torch.nn.Embedding(10, 4), torch.tensor([3, 10])
            return table(ids)
    """)
    assert "ids holds 3 … 10; weight has 10 rows (0 … 9)" in text


def test_none_passed_to_a_layer_names_the_module_that_returned_it(recorded_note: Explained) -> None:
    text = recorded_note("""
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


@pytest.mark.parametrize("how", ["recorded_note", "unrecorded_note"])
def test_value_stored_in_a_part_of_a_tensor_is_underlined(how: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(how)("""
        import torch
        def run():
            out, row = torch.zeros(3, 4), torch.ones(5)
            out[0] = row
    """)
    assert "value  5    row" in text and "the place has 4, the value 5" in text and "╰ f32[5]" in text


@pytest.mark.parametrize("how", ["recorded_note", "unrecorded_note"])
def test_unexpected_arguments_of_a_layer_have_no_misfit(how: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(how)("""
        import torch
        def run():
            return torch.nn.Linear(3, 3)(torch.ones(2, 3), torch.ones(2))
    """)
    assert "model.py:4 in run" in text and "✗" not in text


@pytest.mark.parametrize("error", [SyntaxError("bad", ("x.py", 1, 2, "a b")), ExceptionGroup("bad", [ValueError()])])
def test_message_is_the_text_of_the_exception(error: Exception) -> None:
    assert insitu.explain(error).message == "bad"
    assert insitu.explain(OSError(2, "no such file")).message == "2, 'no such file'"
