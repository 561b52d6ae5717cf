"""What a comparison found out, in sentences: where a difference began and what caused it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from troubleshooter_nb.render.causes import WORDS
from troubleshooter_nb.render.charts import scientific
from troubleshooter_nb.render.html import element, fragment, paragraph, small
from troubleshooter_nb.render.text import scalar_row
from troubleshooter_nb.render.words import reason_text, sentence

# Findings below this are named as possibilities only.
LIKELY = 0.5
_POSSIBLE = 0.25


def origin_sentence(row: Mapping[str, Any], language: str) -> str:
    """How the first difference came to be: created in a call, or a root that differs.

    Parameters
    ----------
    row : mapping
        A row of `Comparison.result` that created a difference.
    language : str
        "en" or "zh".
    """
    basis = str(row.get("origin_basis", ""))
    error, growth = float(row["rel_l2_error"]), float(row["growth"])
    shown = {
        "rel": scientific(error) if not math.isnan(error) else "–",
        "source": scientific(float(row["source_error"])),
        "growth": growth_text(growth),
    }
    if basis == "root":
        key = "origin_root"
    elif basis in ("input", "setting", "order", "between"):
        key = f"origin_{basis}"
    else:
        key = "origin_backward" if row.get("direction") == "backward" else "origin_inputs"
    if math.isnan(error) or math.isinf(error):
        key = f"{key}_unmeasured" if key in ("origin_inputs", "origin_backward") else key
    return sentence(key, language, **shown)


def growth_text(growth: float) -> str:
    """``×12``, ``×1.4e6``; empty where unknown."""
    if math.isnan(growth):
        return ""
    if math.isinf(growth):
        return "×∞"
    return f"×{growth:.1f}" if growth < 100 else f"×{scientific(growth)}"


def cause_title(cause: str, language: str) -> str:
    """A cause in a few words; its id where it has none."""
    words = WORDS.get(cause)
    return words.title[language == "zh"] if words else cause


def cause_proof(finding: Mapping[str, Any], language: str) -> str:
    """The numbers that prove a finding, in a sentence."""
    return _filled(finding, "proof", language)


def cause_repair(finding: Mapping[str, Any], language: str) -> str:
    """What to do about a finding, in a sentence."""
    return _filled(finding, "repair", language)


def finding_lines(findings: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    """Sentences for a call-out: the likely cause with proof and repair, then what is possible."""
    if not findings:
        return []
    best, others = findings[0], findings[1:]
    lines = []
    if best["confidence"] >= _POSSIBLE:
        key = "cause_likely" if best["confidence"] >= LIKELY else "cause_possible"
        title = cause_title(str(best["cause"]), language)
        lines.append(
            " ".join(
                [
                    sentence(key, language, cause=title, confidence=f"{best['confidence']:.0%}"),
                    cause_proof(best, language),
                ]
            ).strip()
        )
        lines.append(cause_repair(best, language))
    possible = [f for f in others if f["confidence"] >= _POSSIBLE][:3]
    if possible:
        named = "; ".join(
            f"{cause_title(str(f['cause']), language)} ({f['confidence']:.0%}, #{f['pair']})"
            for f in possible
        )
        lines.append(sentence("causes_besides", language, causes=named))
    return [line for line in lines if line]


def check_line(check: Mapping[str, Any], language: str) -> str:
    """One check of the preflight in a few words."""
    return sentence(f"check_{check['what']}_{check['status']}", language, **check["values"])


def _filled(finding: Mapping[str, Any], part: str, language: str) -> str:
    words = WORDS.get(str(finding["cause"]))
    if words is None:
        return ""
    template: str = getattr(words, part)[language == "zh"]
    return template.format_map(_Gaps(finding["evidence"])) if template else ""


class _Gaps(dict[str, Any]):
    """Evidence as it is shown: numbers with as many digits as help."""

    def __getitem__(self, name: str) -> Any:
        return shown_value(dict.get(self, name))


def shown_value(value: Any) -> str:
    """A number of the evidence in a few digits, anything else as text."""
    if isinstance(value, bool) or value is None:
        return "–" if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown_value(item) for item in value[:6]) + (" …" if len(value) > 6 else "")
    return str(value)


def explanation_lines(row: xr.Dataset | None, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a comparison found out, as (part, sentence): preflight, origin, cause, checks."""
    language = facts["language"]
    lines = [("check", check_line(check, language)) for check in facts["checks"]]
    if row is None:
        return [*lines, ("origin", sentence("no_origin", language))]
    values = scalar_row(row)
    name = str(values["left_display"] or values["right_display"])
    at = f"{name} (#{int(values['order'])})"
    lines.append(("origin", f"{at}: {reason_text(values, language)}"))
    if values["origin"] == "created":
        lines.append(("origin", origin_sentence(values, language)))
    found = finding_lines(facts["findings"], language)
    lines += [("cause", line) for line in found or [sentence("no_cause", language)]]
    return lines


def explanation_text(row: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """Plain text of an explanation."""
    marks = {"check": "-", "origin": ">", "cause": "="}
    return "\n".join(f"{marks[part]} {line}" for part, line in explanation_lines(row, facts))


def explanation_html(row: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """HTML of an explanation."""
    lines = explanation_lines(row, facts)
    return fragment(
        *(paragraph(small(line)) for part, line in lines if part == "check"),
        *(paragraph(element("b", line)) for part, line in lines[:] if part == "origin"),
        *(paragraph(line) for part, line in lines if part == "cause"),
    )
