"""Which assignment gave a name its value, read from the source."""

from __future__ import annotations

import pytest
from tests.trace.explain.programs import Source

from insitu.trace.explain.assignments import assignment_sites, return_sites
from insitu.trace.explain.explanation import ExpressionSite


def assigned(text: str, line: int, name: str) -> list[tuple[int, str]]:
    return [(site.line, site.text) for site in assignment_sites(ExpressionSite(Source(text).file, line), name)]


def test_only_assignment_is_named() -> None:
    assert assigned("def f(a):\n    b = a + 1\n    return b @ a\n", 3, "b") == [(2, "a + 1")]


def test_last_of_several_assignments_is_named() -> None:
    assert assigned("x = one()\nx = two()\nuse(x)\n", 3, "x") == [(2, "two()")]


def test_item_of_a_tuple_is_named() -> None:
    assert assigned("a, b = one(), two()\nuse(b)\n", 2, "b") == [(1, "two()")]


def test_function_of_the_same_file_is_followed_to_its_return() -> None:
    text = "def load():\n    return read()\ndef run():\n    x = load()\n    return x + 1\n"
    assert assigned(text, 5, "x") == [(4, "load()"), (2, "read()")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(x):\n    return use(x)\n", 2),
        ("if a:\n    x = one()\nelse:\n    x = two()\nuse(x)\n", 5),
        ("x = one()\nfor i in y:\n    use(x)\n    x = two()\n", 3),
        ("x = one()\nuse(x := two())\n", 2),
        ("x = one(); x = two()\nuse(x)\n", 2),
        ("for x in y:\n    pass\nuse(x)\n", 3),
        ("x = one()\n[use(x) for x in y]\n", 2),
        ("x = one()\nf = lambda x: use(x)\n", 2),
        ("def f():\n    x = one()\n    use(x)\ndef g():\n    global x\n", 3),
        ("x = one()\nimport x\nuse(x)\n", 3),
        ("x = one()\nwith y as x:\n    use(x)\n", 3),
    ],
)
def test_nothing_is_named_where_another_binding_is_possible(text: str, line: int) -> None:
    assert assigned(text, line, "x") == []


def test_attribute_that_another_method_sets_is_not_named() -> None:
    text = """
        class A:
            def f(self):
                self.x = one()
                use(self.x)
            def g(self):
                {}
    """
    assert assigned(text.format("pass"), 4, "self.x") == [(3, "one()")]
    assert assigned(text.format("self.x = two()"), 4, "self.x") == []


def test_returned_name_is_followed_to_its_assignment() -> None:
    source = Source("def backward(ctx, grad):\n    part = grad[:2]\n    return part\n")
    assert [(site.line, site.text) for site in return_sites(source.file, 2, 0)] == [(3, "part"), (2, "grad[:2]")]
