"""Which operators msprobe records, and what it calls them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from troubleshooter_nb.compat.msprobe.generations import Generation
from troubleshooter_nb.frameworks.named_operators import NamedOperator
from troubleshooter_nb.frameworks.recording import ApiCall
from troubleshooter_nb.tables import rows_of

# Where the functions of each list of msprobe are found.
_HOMES = {
    ("pytorch", "functional"): "torch.nn.functional",
    ("pytorch", "tensor"): "torch.Tensor",
    ("pytorch", "torch"): "torch",
    ("pytorch", "_VF"): "torch._VF",
    ("pytorch", "distributed"): "torch.distributed",
    ("pytorch", "torch_npu"): "torch_npu",
    ("pytorch", "npu_distributed"): "torch_npu.distributed",
    ("pytorch", "mindspeed"): "mindspeed.ops",
    ("mindspore", "ops"): "mindspore.ops",
    ("mindspore", "tensor"): "mindspore.Tensor",
    ("mindspore", "mint.ops"): "mindspore.mint",
    ("mindspore", "mint.nn.functional"): "mindspore.mint.nn.functional",
    ("mindspore", "mint.distributed"): "mindspore.mint.distributed",
    ("mindspore", "communication.comm_func"): "mindspore.communication.comm_func",
}


class _ListedOperator(NamedTuple):
    home: str
    name: str
    category: str
    releases: str
    harmless: bool


@cache
def _rows(framework: str) -> tuple[_ListedOperator, ...]:
    return tuple(
        _ListedOperator(
            _HOMES[framework, row["list"]],
            row["name"],
            row["category"],
            row["releases"],
            bool(row["harmless"]),
        )
        for row in rows_of("msprobe_ops.csv")
        if row["framework"] == framework
    )


@cache
def operators_of(framework: str, generation: Generation) -> tuple[NamedOperator, ...]:
    """The operators that a release records.

    Parameters
    ----------
    framework : {"pytorch", "mindspore"}
    generation : Generation

    Notes
    -----
    Source: the lists of msprobe 1.2.2, 8.3.3 and 26.2.0, without what neither torch 2.13 nor
    MindSpore 2.10 has.
    """
    return tuple(
        NamedOperator(
            row.home,
            row.name,
            ApiCall(
                f"{row.category}.{_spelled(row, generation)}",
                writes=row.category in ("Distributed", "MintDistributed"),
            ),
        )
        for row in _rows(framework)
        if generation.letter in row.releases
    )


def _spelled(row: _ListedOperator, generation: Generation) -> str:
    whole = generation.whole_names and row.category == "Torch"
    return row.name if whole else row.name.rpartition(".")[2]


@cache
def harmless_operators(framework: str) -> frozenset[str]:
    """Operators that move values but compute none, such as ``Tensor.reshape``."""
    return frozenset(
        f"{row.category}.{row.name.rpartition('.')[2]}" for row in _rows(framework) if row.harmless
    )
