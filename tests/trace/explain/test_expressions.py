"""Source files as syntax trees: each is parsed once, and the nodes on a line are found without a walk of the file."""

import ast
import linecache
import warnings

import pytest

from insitu.trace.explain.expressions import nodes_on_line, tree_of

FILE = "<expressions of a test>"
SOURCE = """\
def before(x):
    return x

@wrapped(
    with_words)
def inside(x):
    if x:
        y = [f(each) for each in x]
    return y

def after(x):
    return x
"""


def set_source(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setitem(linecache.cache, FILE, (len(source), None, source.splitlines(keepends=True), FILE))


def test_a_file_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    set_source(monkeypatch, SOURCE)
    assert tree_of(FILE) is tree_of(FILE) is not None


def test_a_file_with_other_lines_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    set_source(monkeypatch, "x = 1\n")
    assert ast.unparse(tree_of(FILE)) == "x = 1"
    set_source(monkeypatch, "x = 2\n")
    assert ast.unparse(tree_of(FILE)) == "x = 2"


def test_a_file_that_cannot_be_parsed_has_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    set_source(monkeypatch, "x = (\n")
    assert tree_of(FILE) is None


def test_a_warning_of_the_parser_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    set_source(monkeypatch, "x = '\\d'\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tree_of(FILE) is not None


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (3, []),
        (5, ["FunctionDef", "Call", "Name"]),
        (8, ["FunctionDef", "If", "Assign", "Name", "ListComp"]),
        (12, ["FunctionDef", "Return", "Name"]),
    ],
)
def test_nodes_on_a_line_are_those_around_it_and_in_it(line: int, kinds: list[str]) -> None:
    tree = ast.parse(SOURCE)
    found = [node for node, _ in nodes_on_line(tree, line) if hasattr(node, "lineno")]
    assert [type(node).__name__ for node in found][: len(kinds)] == kinds
    assert bool(found) == bool(kinds)


def test_a_node_on_a_line_comes_with_its_statement() -> None:
    statements = {type(node).__name__: statement for node, statement in nodes_on_line(ast.parse(SOURCE), 8)}
    assert type(statements["ListComp"]) is ast.Assign
    assert type(statements["If"]) is ast.If
