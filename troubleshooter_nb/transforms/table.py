"""All kinds of transforms: a closed list, so that no file can name a function to call.

To add one, write its entry in `layouts`, `parts` or `values`, and name it here.
"""

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.transforms.kind import Kind
from troubleshooter_nb.transforms.layouts import (
    COPY,
    EXPAND_DIMS,
    PERMUTE,
    RESHAPE,
    SQUEEZE,
    TRANSPOSE,
)
from troubleshooter_nb.transforms.parts import ADD, CONCAT, SPLIT, WEIGHT_NORM
from troubleshooter_nb.transforms.values import CAST, DROP

# The likeliest first: in this order they are proposed where several fit.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(COPY, TRANSPOSE, PERMUTE, EXPAND_DIMS, SQUEEZE, RESHAPE),
        *(SPLIT, CONCAT, ADD, WEIGHT_NORM, CAST, DROP),
    )
}
# The kinds of relations between values that some transform is.
RELATIONS = frozenset(relation for kind in KINDS.values() for relation in kind.relations)
