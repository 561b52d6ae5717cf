"""The rows of a weight map as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.weight_maps import WEIGHT_MAP_COLUMNS
from troubleshooter_nb.dump import object_array
from troubleshooter_nb.messages import joined, of_one_class
from troubleshooter_nb.weight_map.rows import JOIN, WeightRow, filled_twice
from troubleshooter_nb.weight_map.suggestions import instead_text, suggested_instead
from troubleshooter_nb.weight_map.tensors import Tensors

SCHEMA = "troubleshooter_nb.weight_map/1"


def table_of_rows(
    tensors: Tensors, rows: Sequence[WeightRow], suggestions: Sequence[WeightRow]
) -> xr.Dataset:
    """What `WeightMap.table` gives."""
    suggested, twice = suggested_instead(rows, suggestions), filled_twice(rows)
    cells = [
        _cells(tensors, row, twice.get(position, ""), suggested.get(position))
        for position, row in enumerate(rows)
    ]
    columns = {}
    for name, column in WEIGHT_MAP_COLUMNS.items():
        values = [row[name] for row in cells]
        values = of_one_class(values) if column.dtype == "str" else values
        columns[name] = object_array(values).astype(column.numpy_dtype)
    variables = described("row", WEIGHT_MAP_COLUMNS, columns)
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
