"""HTML repr of a pairing: what has no partner or is uncertain first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.render.html import (
    Markup,
    details,
    element,
    fragment,
    join,
    paragraph,
    samp,
    small,
    tone,
)
from troubleshooter_nb.render.tables import simple_table
from troubleshooter_nb.render.text import pairing_headline
from troubleshooter_nb.render.words import glyph

_MOST_ENTRIES = 400


def pairing_html(table: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Pairing: unmatched and uncertain first, then everything, bounded."""
    alone = table["method"].values == "unmatched"
    confidence = table["confidence"].values
    order = [int(i) for i in np.argsort(np.where(alone, -1.0, confidence), kind="stable")]
    columns = {str(n): table[n].values for n in table.data_vars}
    uncertain = [i for i in order if alone[i] or confidence[i] < 0.9]
    rest = [i for i in range(len(alone)) if i not in set(uncertain)]
    titles = (facts["left_label"], facts["right_label"], "shape", "method", "confidence", "note")

    def section(rows: list[int]) -> Markup:
        return simple_table(titles, [_pairing_cells(columns, i) for i in rows[:_MOST_ENTRIES]])

    def more(rows: list[int]) -> Markup | None:
        left_out = len(rows) - _MOST_ENTRIES
        return (
            paragraph(small(f"{left_out:,} more: pairing.to_dataframe()")) if left_out > 0 else None
        )

    return fragment(
        paragraph(
            element("b", samp(facts["left_label"]), " ↔ ", samp(facts["right_label"])),
            f" · {pairing_headline(table)}",
            style="margin:2px 0;font-size:16px",
        ),
        section(uncertain) if uncertain else None,
        more(uncertain),
        details([f"{len(rest):,} certain pairs"], section(rest), more(rest)) if rest else None,
    )


def _pairing_cells(columns: Mapping[str, Any], i: int) -> list[object]:
    left, right = (str(columns[side][i]) for side in ("left", "right"))
    shapes = [str(columns[f"{side}_shape"][i]).replace("x", "×") for side in ("left", "right")]
    shape = shapes[0] if shapes[0] == shapes[1] else " / ".join(shape or "–" for shape in shapes)
    if columns["method"][i] == "unmatched":
        near = str(columns["candidates"][i])
        note: object = (
            "expected"
            if columns["expected"][i]
            else (join(["closest: ", samp(near)]) if near else "–")
        )
        method: object = tone("warn", f"{glyph('missing')} unmatched", bold=False)
        return [samp(left or "–"), samp(right or "–"), shape, method, "–", note]
    confidence = f"{columns['confidence'][i]:.2f}"
    return [
        samp(left),
        samp(right),
        shape,
        str(columns["method"][i]),
        confidence,
        str(columns["note"][i]),
    ]
