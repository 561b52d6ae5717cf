"""Entry names: what a file name of each dump grammar says about the tensor inside.

Inside the package an entry has a `Site`; only this module knows how a dump format spells one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Direction = Literal["", "forward", "backward"]
Role = Literal["", "input", "output", "parameter", "buffer", "gradient"]

# The dtype tokens TroubleShooter 1.0.19 and MindSpore's TensorDump write before the number.
DTYPE_TOKENS = [
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
]

_DTYPE_LAST = re.compile(rf"(?s)(?P<stem>.*)_(?P<dtype>{'|'.join(DTYPE_TOKENS)})_(?P<id>\d+)")
_ID_FIRST = re.compile(r"(?s)(?P<id>\d+)_(?P<stem>.+)")
_NUMBER = re.compile(r"(\d+)")
_GRADIENT_WORD = re.compile(r"(?i)(?:^|[^a-z])(?:grads?|gradients?)(?:[^a-z]|$)")

# Leaf names of parameters and buffers, and the torch name MindSpore's name stands for.
# Source: facts/layer_parameters.csv (verified rows).
PARAMETER_LEAVES = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "in_proj_weight": "in_proj_weight",
    "in_proj_bias": "in_proj_bias",
}
BUFFER_LEAVES = {
    "running_mean": "running_mean",
    "running_var": "running_var",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "num_batches_tracked": "num_batches_tracked",
}
_RNN_LEAF = re.compile(r"(?:weight|bias)_(?:ih|hh)(?:_l\d+)?(?:_reverse)?")


@dataclass(frozen=True)
class Site:
    """Where in a run a tensor was seen.

    `kind` is the level of the record ("file", later "module", "api", "kernel"), `path` the dotted
    place in the network, `call` counts repeated visits of the same place from 0, `slot` is the
    argument position or key.
    """

    kind: str
    path: str
    call: int = 0
    direction: Direction = ""
    role: Role = ""
    slot: str = ""


@dataclass(frozen=True)
class NpyName:
    """The parts of a saved array's file name; `number` and `dtype` are None where absent."""

    stem: str
    number: int | None = None
    dtype: str | None = None


def parse_npy_name(name: str) -> NpyName:
    """Split a file name of TroubleShooter's three naming generations.

    Parameters
    ----------
    name : str
        File name with or without ``.npy``. ``{stem}_{dtype}_{id}`` (1.0.19 and MindSpore's
        TensorDump), ``{id}_{stem}`` (up to 1.0.18) or anything else, which is all stem.

    Returns
    -------
    NpyName
        The inverse of `format_npy_name`: for a stem that does not itself look numbered,
        ``parse_npy_name(format_npy_name(x)) == x``.

    Notes
    -----
    Source: spec/troubleshooter.md 3.1, acceptance case 3. The two older generations differ only
    in the character before the key, which cannot be told from the file name alone.
    """
    name = name.removesuffix(".npy")
    if match := _DTYPE_LAST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]), match["dtype"])
    if match := _ID_FIRST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]))
    return NpyName(name)


def format_npy_name(parts: NpyName) -> str:
    """File name without suffix, in the newest generation that can express the parts."""
    if parts.number is None:
        return parts.stem
    if parts.dtype is None:
        return f"{parts.number}_{parts.stem}"
    return f"{parts.stem}_{parts.dtype}_{parts.number}"


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``x_2`` comes before ``x_10``."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in _NUMBER.split(name)
        if part
    )


def parameter_leaf(path: str) -> str | None:
    """Torch's name for the last part of a parameter or buffer path, or None for other names."""
    leaf = path.rpartition(".")[2]
    if _RNN_LEAF.fullmatch(leaf):
        return leaf
    return PARAMETER_LEAVES.get(leaf) or BUFFER_LEAVES.get(leaf)


def canonical_parameter(path: str) -> str | None:
    """The path with its leaf in torch's spelling (``bn.gamma`` -> ``bn.weight``), else None."""
    leaf = parameter_leaf(path)
    if leaf is None:
        return None
    parent, dot, _ = path.rpartition(".")
    return f"{parent}{dot}{leaf}"


def says_gradient(text: str) -> bool:
    """Whether a folder or file name has the word grad, grads or gradient(s) as a part."""
    return bool(_GRADIENT_WORD.search(text))


def site_of_npy_stem(stem: str, *, folder: str = "") -> Site:
    """What the stem of a saved array, and the folder it lies in, say about the tensor.

    A parameter name in a folder or stem that says ``grad`` is the gradient of that parameter; a
    stem that ends in ``_backward`` (the suffix of ``save_grad``) is the gradient of an activation.
    """
    path = re.sub(r"_\d+$", "", stem)
    leaf = path.rpartition(".")[2]
    is_gradient = says_gradient(folder) or says_gradient(stem)
    if stem.endswith("_backward"):
        return Site("file", stem.removesuffix("_backward"), direction="backward", role="gradient")
    if parameter_leaf(path):
        role: Role = "buffer" if leaf in BUFFER_LEAVES else "parameter"
        return Site("file", stem, direction="backward" if is_gradient else "", role=role)
    if is_gradient:
        return Site("file", stem, direction="backward", role="gradient")
    return Site("file", stem)
