"""The rows of a weight map as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.messages import joined, of_one_class
from troubleshooter_nb.weight_map.rows import JOIN, WeightRow, filled_twice
from troubleshooter_nb.weight_map.suggestions import instead_text, suggested_instead
from troubleshooter_nb.weight_map.tensors import Tensors

SCHEMA = "troubleshooter_nb.weight_map/1"
# name -> (dtype, meaning)
WEIGHT_MAP_COLUMNS = {
    "source": ("str", "names in the source, joined by +"),
    "target": ("str", "names in the target, joined by +; empty for what is dropped"),
    "layer": ("str", "layer type of the source, where known"),
    "transform": ("str", "what the values go through, such as expand_dims(2)"),
    "how": ("str", "drafted, edited or imported"),
    "note": ("str", "what to know about this row"),
    "source_shape": ("tuple", "shapes in the source, a tuple each"),
    "target_shape": ("tuple", "shapes in the target, a tuple each; of a known target its own"),
    "size": ("int64", "elements of the sources"),
    "problem": ("str", "why this row cannot be converted"),
    "suggestion": ("str", "what the values prove instead, with its transform; empty for none"),
}


def table_of_rows(
    tensors: Tensors, rows: Sequence[WeightRow], suggestions: Sequence[WeightRow]
) -> xr.Dataset:
    """What `WeightMap.table` gives."""
    suggested, twice = suggested_instead(rows, suggestions), filled_twice(rows)
    cells = [
        _cells(tensors, row, twice.get(position, ""), suggested.get(position))
        for position, row in enumerate(rows)
    ]
    variables = {}
    for name, (dtype, meaning) in WEIGHT_MAP_COLUMNS.items():
        column = [row[name] for row in cells]
        values = np.empty(len(rows), np.int64 if dtype == "int64" else object)
        for position, cell in enumerate(of_one_class(column) if dtype == "str" else column):
            values[position] = cell
        variables[name] = ("row", values, {"description": meaning})
    return xr.Dataset(variables, attrs={"schema": SCHEMA})


def _cells(
    tensors: Tensors, row: WeightRow, twice: str, suggestion: WeightRow | None
) -> dict[str, Any]:
    known = tensors.known_sources(row)
    whole = len(known) == len(row.sources)
    return {
        "source": JOIN.join(row.sources),
        "target": JOIN.join(row.targets),
        "layer": row.layer,
        "transform": str(row.transform),
        "how": row.how,
        "note": joined([row.note, row.transform.loss(known) if whole else ""]),
        "source_shape": tuple(spec.shape for spec in known),
        "target_shape": tensors.target_shapes(row),
        "size": sum(spec.size for spec in known),
        "problem": joined([tensors.problem(row), twice]),
        "suggestion": instead_text(row, suggestion),
    }
