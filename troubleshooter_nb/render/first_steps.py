"""What lies at some paths and what to do with it, as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.messages import told
from troubleshooter_nb.render.html import (
    element,
    fragment,
    paragraph,
    samp,
    small,
    tone,
)
from troubleshooter_nb.render.lines import fitted, wrapped
from troubleshooter_nb.render.words import sentence


def start_text(facts: Mapping[str, Any]) -> str:
    """Text repr of `first_steps.Start`.

    Parameters
    ----------
    facts : mapping
        ``found``, ``steps`` (both mappings), ``notes`` and the options.
    """
    language = facts["language"]
    lines = []
    for one in facts["found"]:
        lines += wrapped(f"{one['path']}: {_said(one, language)}", facts)
    if not facts["found"]:
        lines.append(sentence("first_steps.nothing_given", language))
    lines += [line for note in facts["notes"] for line in wrapped(told(note, language), facts)]
    text = [fitted(lines, facts)]
    for step in facts["steps"]:
        # A line to type is whole, however long its paths are.
        text += [fitted([f"  {told(step['what'], language)}"], facts), f"    {step['line']}"]
    return "\n".join(text)


def start_html(facts: Mapping[str, Any]) -> str:
    """HTML repr of `first_steps.Start`; `facts` as for `start_text`."""
    language = facts["language"]
    found = [
        paragraph(element("b", samp(one["path"])), f" · {_said(one, language)}")
        for one in facts["found"]
    ]
    if not found:
        said = sentence("first_steps.nothing_given", language)
        found = [paragraph(element("b", said), style="margin:2px 0;font-size:16px")]
    notes = [paragraph(small(tone("warn", told(one, language)))) for one in facts["notes"]]
    steps = [
        paragraph(
            told(step["what"], language),
            element("br"),
            samp(step["line"]),
            style="margin:8px 0 8px 14px",
        )
        for step in facts["steps"]
    ]
    return fragment(element("div", *found, *notes, *steps, class_="tsnb-x"))


def _said(one: Mapping[str, Any], language: str) -> str:
    """``values of a run · 237 tensors · 3 steps``."""
    parts = [sentence(f"first_steps.{one['kind']}", language), told(one["said"], language)]
    return " · ".join(filter(None, parts))
