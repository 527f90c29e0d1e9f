"""The views by name. A new view is a class in a file of its own, and one row here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
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
    check_options(view, options)
    if isinstance(view, str):
        return VIEWS[view](**options)
    if isinstance(view, type):
        return view(**options)
    return view


def check_options(view: AnyView, options: Mapping[str, Any]) -> None:
    """Raise `ChoiceError` for options that a view does not have."""
    known = _options(view)
    has = f"it has {', '.join(known) or 'none'}"
    for option in options:
        if option not in known:
            raise ChoiceError(f"the view {view!r} has no option {option!r}: {has}")


def _options(view: AnyView) -> tuple[str, ...]:
    """The names of the options that a view takes; one that is ready takes none."""
    if isinstance(view, str):
        view = VIEWS[view]
    if isinstance(view, type):
        return tuple(inspect.signature(view).parameters)
    return ()


def make_for_replay(view: AnyView, /, **options: Any) -> View:
    """A view for a trace that is complete: the tree can then fold outermost calls and steps."""
    check_view(view)
    if is_ready(view):
        return make(view, **options)
    return make(view, **{**traits(view).replay, **options})


def is_ready(view: AnyView) -> bool:
    """Whether this is a view that is ready to use, and takes no options any more."""
    return not isinstance(view, str | type)
