"""The operators that the old tool replaced."""

from __future__ import annotations

from functools import cache

from troubleshooter_nb.frameworks.named_operators import NamedOperator
from troubleshooter_nb.frameworks.recording import ApiCall
from troubleshooter_nb.tables import rows_of

_HOMES = {"Functional": "torch.nn.functional", "Tensor": "torch.Tensor", "Torch": "torch"}


@cache
def operators() -> tuple[NamedOperator, ...]:
    """Those of the list of torch_npu 5.0.rc3; a torch of today lacks a few.

    Notes
    -----
    The old tool refused to start where one of them was missing.
    """
    rows = ((row["category"], row["name"]) for row in rows_of("torch_npu_ops.csv"))
    return tuple(
        NamedOperator(_HOMES[category], name, ApiCall(f"{category}.{name}"))
        for category, name in rows
    )


def label_of(path: str) -> str:
    """What an operator is called in a file: ``Functional_linear`` of ``Functional.linear``."""
    return path.replace(".", "_", 1)
