"""All kinds of transforms: a closed list, so that no file can name a function to call.

To add one, write its entry in the module of its like, name it here, and say in `recognised` which
relation of values it is.
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
from troubleshooter_nb.transforms.merges import FOLD_BATCH_NORM, LORA
from troubleshooter_nb.transforms.orders import BLOCKS, FLIP, REPEAT, TAKE
from troubleshooter_nb.transforms.parts import ADD, CONCAT, SPLIT, STACK, UNSTACK, WEIGHT_NORM
from troubleshooter_nb.transforms.values import CAST, DROP, OFFSET, SCALE

# The likeliest first: in this order they are proposed where several fit.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(COPY, TRANSPOSE, PERMUTE, EXPAND_DIMS, SQUEEZE, RESHAPE),
        *(SPLIT, UNSTACK, CONCAT, STACK, ADD, WEIGHT_NORM, LORA, FOLD_BATCH_NORM),
        *(BLOCKS, TAKE, REPEAT, FLIP, SCALE, OFFSET, CAST, DROP),
    )
}
