"""What the statements of a program are in the tree.

A statement of the user with one call is that call; one with several calls is a line. What a library does for a
statement is one row, but for what matters: calls of models, backward passes, steps of optimizers, functions of the user
that the library calls, and calls that raised or produced NaN.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from insitu.trace.bundle import Body, Bundle, Entry, EvaluatedExpression, indices, only_bundle
from insitu.trace.event import Call, Site
from insitu.trace.forest import Node
from insitu.trace.operation import own_name
from insitu.trace.place import Place


def line_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """A statement of the user as entries: a single call, or a line around several."""
    entries = expression_entries(expressions, nodes)
    if len(entries) < 2:
        return entries
    if any(isinstance(entry, int) and nodes[entry].marks for entry in entries):
        return entries  # what matters has a row of its own
    return [Bundle("line", _with_arguments(entries), site=_line_site(expressions), matters=True)]


def _with_arguments(entries: list[Entry]) -> list[Entry]:
    """The entries of a statement such as `optimize(loss(x), model(y))`, which ends with a call of a library.

    The row of the line shows the statement, and so that call. What the call does comes after its arguments, without
    another row for the call itself.
    """
    *others, last = entries
    if not isinstance(last, Bundle) or last.is_function_body:
        return entries
    if last.site is None or not _is_around(last.site, others):
        return entries
    if last.kind == "expression":
        return [*others, Bundle("rest", last.entries, site=last.site)]
    if last.kind == "line":
        return [*others, *last.entries]
    return entries


def _is_around(site: Site, entries: list[Entry]) -> bool:
    """Whether an expression begins before the others of its statement, as far as known: they are its arguments."""
    bundles = [entry for entry in entries if isinstance(entry, Bundle)]
    starts = [bundle.site.start for bundle in bundles if bundle.site is not None]
    known = [start for start in starts if start is not None]
    return site.start is None or all(start >= site.start for start in known)


def expression_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """The expressions of a statement as entries, one after the other."""
    return [entry for expression in expressions for entry in _entries_of(expression, nodes)]


def _entries_of(expression: EvaluatedExpression, nodes: list[Node]) -> list[Entry]:
    """The entries of one expression: the calls that it names, the function of the user, or what a library does."""
    calls = [item for item in expression.items if isinstance(item, int)]
    has_only_calls = len(calls) == len(expression.items)
    if has_only_calls and _are_written(calls, nodes, expression.place):
        return [*calls]
    function = _only_function(expression.items)
    if function is not None:
        return [_function_entry(function, expression.place)]
    return [_library_entry(expression, nodes)]


def _are_written(calls: list[int], nodes: list[Node], place: Place) -> bool:
    """Whether the expression itself makes these calls; a single one is shown in either case."""
    return len(calls) == 1 or all(_is_written(nodes[index], place) for index in calls)


def _only_function(items: list[int | Body]) -> Body | None:
    """The function of the user that an expression calls, if it does nothing else."""
    first = items[0]
    if len(items) > 1 or not isinstance(first, Body):
        return None
    if first.is_transparent:
        return None
    return first


def _library_entry(expression: EvaluatedExpression, nodes: list[Node]) -> Bundle:
    """What a library does for an expression: one row or, if some of it matters, a line with the rest in one row."""
    site = expression.place.site
    entries = with_rest(_spread(expression.items), nodes, site)
    only = only_bundle(entries)
    if only is not None and only.kind == "rest":
        return Bundle("expression", only.entries, site=site, matters=True)
    return Bundle("line", entries, site=site, matters=True)


def _function_entry(body: Body, caller: Place) -> Bundle:
    """A function of the user, named by the expression that calls it, or by its own name if something else does."""
    if caller.calls(body.place.function_name):
        return Bundle("line", body.entries, site=caller.site, matters=True, is_function_body=True)
    return Bundle("function", [_pass(body)], site=body.place.site, matters=True)


def _pass(body: Body) -> Bundle:
    """What a function did when it was called once."""
    return Bundle("pass", body.entries, site=body.place.site)


def library_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """A statement of a library: the calls, and what it does for an optimizer's step as one entry."""
    entries: list[Entry] = []
    for expression in expressions:
        spread = _spread(expression.items)
        if expression.place.calls("step"):
            spread = _with_step(spread, nodes, expression.place.site)
        entries += spread
    return entries


def _with_step(entries: list[Entry], nodes: list[Node], site: Site) -> list[Entry]:
    """The entries of `optimizer.step()` in a library: those that matter, and one for the update itself."""
    important, others = _split(entries, nodes)
    if len(others) < 2:
        return entries
    return [*important, Bundle("expression", others, site=site, matters=True)]


def _split(entries: list[Entry], nodes: list[Node]) -> tuple[list[Entry], list[Entry]]:
    """The entries that matter, and the others."""
    important: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        if matters(entry, nodes):
            important.append(entry)
        else:
            others.append(entry)
    return important, others


def _spread(items: list[int | Body]) -> list[Entry]:
    """The entries of an expression: what libraries do without the functions around it."""
    found: list[Entry] = []
    for item in items:
        if not isinstance(item, Body):
            found.append(item)
        elif item.is_transparent:
            found += item.entries
        else:
            found.append(Bundle("function", [_pass(item)], site=item.place.site, matters=True))
    return found


def _each_function_once(entries: list[Entry]) -> list[Entry]:
    """Entries in which all calls of one function are together, where the first of them is."""
    found: list[Entry] = []
    functions: dict[tuple[str, str], Bundle] = {}
    for entry in entries:
        name = _function_name(entry)
        if name is None or not isinstance(entry, Bundle):
            found.append(entry)
        elif name in functions:
            functions[name].entries += entry.entries
        else:
            functions[name] = entry
            found.append(entry)
    return found


def _function_name(entry: Entry) -> tuple[str, str] | None:
    """The file and the name of the function that an entry holds the calls of; None for other entries."""
    if not isinstance(entry, Bundle) or entry.kind != "function":
        return None
    if entry.site is None:
        return None
    return (entry.site.file, entry.site.function)


def with_rest(entries: list[Entry], nodes: list[Node], site: Site | None) -> list[Entry]:
    """The entries that matter, and one for all others."""
    important, others = _split(entries, nodes)
    found = _each_function_once(important)
    rest = [*indices(others)]
    if rest:
        found.append(Bundle("rest", [*rest], site=site))
    return found


def without_rest(entries: list[Entry]) -> list[Entry]:
    """The entries, with the calls of a rest among them: the rest of the library function around them has them."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Bundle) and entry.kind == "rest":
            found += entry.entries
        else:
            found.append(entry)
    return found


def matters(entry: Entry, nodes: list[Node]) -> bool:
    """Whether a row of a library must not hide an entry."""
    if isinstance(entry, Bundle):
        return entry.matters
    return nodes[entry].marks != 0


def _is_written(node: Node, place: Place) -> bool:
    """Whether the expression names the function or uses an operator: then a library did not call it."""
    call = node.event
    if not isinstance(call, Call) or call.kind != "function":
        return True
    if call.operator is not None or place.site.text == "":
        return True
    name = own_name(call.kind, call.name)
    return name.startswith("__") or place.calls(name)


def _line_site(expressions: list[EvaluatedExpression]) -> Site:
    """The site of a whole statement; that of the expression if there is only one."""
    first = expressions[0].place.site
    if len(expressions) == 1:
        return first
    return _whole_line(first)


@lru_cache(maxsize=4096)
def _whole_line(site: Site) -> Site:
    """The site of the statement that a site is in."""
    nesting = site.nesting
    if nesting is None or nesting.is_end:
        return replace(site, start=None, end=None)
    return replace(site, line=nesting.statement, text=nesting.text, start=None, end=None)
