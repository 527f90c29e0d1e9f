"""HTML that is put together from elements: every text is escaped, unless it is an element already."""

from __future__ import annotations

from html import escape

VOID = frozenset({"img"})


class Markup(str):
    """A piece of HTML. Only the functions here make it: any other text is escaped when it becomes part of one."""

    __slots__ = ()


NOTHING = Markup()


def element(name: str, *children: str, **attributes: str | int | bool) -> Markup:
    """An element with its children; `class_` is the attribute class, True an attribute without a value.

    >>> element("b", "<i>", class_="x", open=True)
    '<b class="x" open>&lt;i&gt;</b>'
    """
    opening = "".join([f"<{name}", *(_attribute(key, item) for key, item in attributes.items()), ">"])
    if name in VOID:
        return Markup(opening)
    return Markup(f"{opening}{joined(*children)}</{name}>")


def _attribute(name: str, item: str | int | bool) -> str:
    name = name.removesuffix("_")
    if item is False:
        return ""
    if item is True:
        return f" {name}"
    return f' {name}="{escape(str(item))}"'


def joined(*children: str) -> Markup:
    """Several pieces one after the other.

    >>> joined("a & b", element("i", "c"))
    'a &amp; b<i>c</i>'
    """
    return Markup("".join([child if isinstance(child, Markup) else escape(child) for child in children]))


def style_sheet(text: str) -> Markup:
    """A style sheet, which must be our own: it is not escaped."""
    return Markup(f"<style>{text}</style>")
