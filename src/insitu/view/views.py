"""The views by name. A new view is a class in a file of its own, and one row here."""

from __future__ import annotations

import inspect
from typing import Any

from insitu.errors import ChoiceError, choose
from insitu.view.code import Code
from insitu.view.line import View, ViewTraits
from insitu.view.table import Table
from insitu.view.tree import Tree
from insitu.view.variables import Variables

VIEWS: dict[str, type[View]] = {
    "tree": Tree,
    "code": Code,
    "table": Table,
    "variables": Variables,
}
# A view by its name, as a class, or as an object that is ready to use.
AnyView = str | View | type[View]
DEFAULTS = ViewTraits()
METHODS = ("begin", "__call__", "finish")


def check_view(view: object) -> None:
    """Raise `ChoiceError` for anything but a view, a class of views, or the name of one."""
    if not all(callable(getattr(view, method, None)) for method in METHODS):
        choose("view", view, VIEWS)


def traits(view: AnyView) -> ViewTraits:
    """The traits that a view declares about itself.

    >>> traits("code").level
    'aten'
    """
    if isinstance(view, str):
        view = VIEWS[view]
    declared: ViewTraits = getattr(view, "traits", DEFAULTS)
    return declared


def make(view: AnyView, /, **options: Any) -> View:
    """A view by its name or its class, with its options; an object is returned as it is.

    >>> make("code", succinct=False)  # doctest: +ELLIPSIS
    <insitu.view.code.Code object at ...>
    """
    check_view(view)
    if isinstance(view, str):
        factory = VIEWS[view]
    elif isinstance(view, type):
        factory = view
    else:
        _refuse_options(view, options, known=())
        return view
    _refuse_options(view, options, known=tuple(inspect.signature(factory).parameters))
    return factory(**options)


def _refuse_options(view: AnyView, options: dict[str, Any], known: tuple[str, ...]) -> None:
    has = f"it has {', '.join(known) or 'none'}"
    for option in options:
        if option not in known:
            raise ChoiceError(f"the view {view!r} has no option {option!r}: {has}")


def make_for_replay(view: AnyView, /, **options: Any) -> View:
    """A view for a trace that is complete: the tree can then fold outermost calls and steps."""
    check_view(view)
    is_ready = not isinstance(view, str | type)
    if is_ready:
        return make(view, **options)
    return make(view, **{**traits(view).replay, **options})
