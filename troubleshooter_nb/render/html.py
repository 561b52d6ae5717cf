"""An escaping HTML builder and the colours, within what an untrusted notebook keeps.

No script, no svg element, no id, no clock, no random number: the same input gives the same bytes.
What is used survives in untrusted notebooks of JupyterLab, Notebook 7 and code hosts (measured).
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any

from troubleshooter_nb.messages import visible

# tone -> text colour on a light and on a dark page. As rgb(): JupyterLab's sanitiser drops #hex
# inside light-dark(). Blue, orange, ochre and violet stay apart for colour-blind readers.
TONES = {
    "ok": ("rgb(26,106,166)", "rgb(124,192,239)"),
    "bad": ("rgb(181,67,26)", "rgb(255,154,107)"),
    "warn": ("rgb(122,91,0)", "rgb(230,189,74)"),
    "miss": ("rgb(93,81,156)", "rgb(185,176,232)"),
}
# Bars under figures: translucent, so one value serves both themes.
FILLS = {
    "ok": "rgba(31,123,191,0.5)",
    "bad": "rgba(213,94,0,0.7)",
    "warn": "rgba(230,159,0,0.6)",
    "miss": "rgba(122,111,176,0.5)",
}
# One mid tone with at least 4:1 on white and on #111, for pictures that cannot know the theme.
INKS = {"ok": "#1f7bbf", "bad": "#c8501e", "warn": "#9a7400", "miss": "#7a6fb0", "": "#808080"}

LEFT = "text-align:left"
TOP = "text-align:left;vertical-align:top;padding:4px 14px 4px 0"
TABLE = "border-collapse:collapse;margin:4px 0 10px 0"


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """An element; children and attribute values are escaped unless they are `Markup`.

    A trailing underscore of an attribute name is dropped (``class_``); True gives a bare
    attribute, None and False none.
    """
    opened = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        opened.append(name if value is True else f'{name}="{_escaped(value)}"')
    start = f"<{' '.join(opened)}>"
    if tag in ("img", "br", "col"):
        return Markup(start)
    return Markup(f"{start}{join(children)}</{tag}>")


def join(children: Iterable[object], separator: str = "") -> Markup:
    """Children one after the other, escaped unless they are `Markup`; None is left out."""
    return Markup(
        _escaped(separator).join(
            child if isinstance(child, Markup) else _escaped(child)
            for child in children
            if child is not None
        )
    )


def _escaped(value: object) -> str:
    """A text as HTML; what a terminal would act on, or UTF-8 has no bytes for, comes escaped."""
    return html.escape(visible(str(value)))


def tone(name: str, *children: object, bold: bool = True) -> Markup:
    """Text in one of the `TONES`; the colour never says what the text does not."""
    if not name:
        return join(children)
    light, dark = TONES[name]
    weight = ";font-weight:700" if bold else ""
    return element(
        "span",
        *children,
        class_=f"tsnb-{name}",
        style=f"color:light-dark({light},{dark}){weight}",
    )


def samp(text: object) -> Markup:
    """A name, an index or a sparkline in fixed-width type."""
    return element("samp", text)


def small(*children: object) -> Markup:
    """Secondary text."""
    return element("small", *children)


def paragraph(*children: object, style: str = "margin:2px 0") -> Markup:
    """A paragraph with little space around it."""
    return element("p", *children, style=style)


def heading(text: str, remark: str = "") -> Markup:
    """The title line of a section with a small remark behind it."""
    return paragraph(
        element("b", text), small(" ", remark) if remark else None, style="margin:10px 0 0 0"
    )


def details(summary: Iterable[object], *children: object, opened: bool = False) -> Markup:
    """A collapsible block; the only kind that works in every viewer."""
    # nbclassic's own style takes the triangle away.
    head = element("summary", *summary, style="display:list-item")
    return element("details", head, *children, open=opened)


def table(
    head: Iterable[tuple[object, bool]], rows: Iterable[Markup], *, class_: str | None = None
) -> Markup:
    """A table; `head` holds titles and whether the column is left-aligned."""
    titles = [
        element("th", title, scope="col", style=LEFT if is_left else None)
        for title, is_left in head
    ]
    parts = element("thead", element("tr", *titles)), element("tbody", *rows)
    return scrolling_table(*parts, class_=class_, style=TABLE)


def scrolling_table(*parts: Markup, style: str, class_: str | None = None) -> Markup:
    """A table of these parts, which scrolls by itself where the page is narrower."""
    shown = element("table", *parts, class_=class_, style=style)
    return element("div", shown, class_="tsnb-x")


def cell(*children: object, style: str | None = None) -> Markup:
    """A right-aligned cell, as JupyterLab makes them."""
    return element("td", *children, style=style)


def left_cell(*children: object) -> Markup:
    """A left-aligned cell."""
    return element("td", *children, style=LEFT)


def row(*cells: Markup) -> Markup:
    """A table row."""
    return element("tr", *cells)


def fragment(*children: object) -> Markup:
    """A whole repr: the style sheet and the content under one class."""
    return join(
        [
            Markup(f"<style>{style_sheet()}</style>"),
            element(
                "div",
                *children,
                class_="tsnb",
                style="font-family:sans-serif;font-size:13px;line-height:1.45;max-width:1060px",
            ),
        ]
    )


def shortest(draw: Callable[[int], str], facts: Mapping[str, Any], most: int) -> str:
    """The first of ever shorter drawings that keeps ``facts["html_bytes"]``, or the shortest.

    `draw` takes how many rows it may list; `most` is where it starts.
    """
    text = ""
    for rows in (most, most // 2, most // 4, most // 8, 0):
        text = draw(rows)
        if len(text.encode()) <= int(facts["html_bytes"]):
            break
    return text


def page(title: str, language: str, *fragments: object) -> str:
    """A self-contained HTML page that follows the reader's theme and prints well."""
    head = join(
        [
            Markup('<meta charset="utf-8"><meta name="color-scheme" content="light dark">'),
            Markup('<meta name="viewport" content="width=device-width">'),
            element("title", title),
        ]
    )
    body = element("body", *fragments, style="margin:24px")
    return f'<!DOCTYPE html><html lang="{language}"><head>{head}</head>{body}</html>\n'


def style_sheet() -> str:
    """The one style sheet, at most 2 KB; nothing is shown or hidden by it."""
    rules = resources.files("troubleshooter_nb.render").joinpath("style.css").read_text("utf-8")
    # Hosts that do not set color-scheme (nbconvert --theme dark, VS Code, Colab, sphinx themes).
    hosts = (
        ('body[data-jp-theme-light="true"]', ".vscode-light"),
        (
            'body[data-jp-theme-light="false"]',
            ".vscode-dark",
            "html[theme=dark]",
            "html[data-theme=dark]",
        ),
    )
    theme = "".join(
        ",".join(f"{host} .tsnb-{name}" for host in hosts[dark])
        + f"{{color:{colours[dark]}!important}}"
        for dark in (0, 1)
        for name, colours in TONES.items()
    )
    return " ".join(rules.split()) + theme
