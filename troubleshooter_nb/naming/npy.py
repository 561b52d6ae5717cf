"""File names of saved arrays, as TroubleShooter and MindSpore's TensorDump write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from troubleshooter_nb.naming.gradients import says_gradient, without_gradient_word
from troubleshooter_nb.naming.parameters import (
    BUFFER_LEAVES,
    TABLE_LEAVES,
    leaf_of,
    parameter_leaf,
    without_position,
)
from troubleshooter_nb.naming.site import Direction, Role, Site

# The dtype tokens TroubleShooter 1.0.19 and MindSpore's TensorDump write before the number ...
_PEER_TOKENS = (
    *("float16", "float32", "float64", "bfloat16", "bool", "complex64", "complex128"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
# ... and the other dtypes that save_dump can write: long doubles, and what ml_dtypes adds.
_OUR_TOKENS = (
    *("float96", "float128", "complex192", "complex256"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("int1", "uint1", "int2", "uint2", "int4", "uint4"),
)
DTYPE_TOKENS = (*_PEER_TOKENS, *_OUR_TOKENS)

# [0-9], not \d, which takes the digits of every script; 18 digits fit an int64.
_DTYPE_LAST = re.compile(
    rf"(?s)(?P<stem>.*)_(?P<dtype>{'|'.join(DTYPE_TOKENS)})_(?P<id>[0-9]{{1,18}})"
)
_ID_FIRST = re.compile(r"(?s)(?P<id>[0-9]{1,18})_(?P<stem>.+)")
_NUMBER = re.compile(r"([0-9]+)")


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
        The inverse of `format_npy_name`: ``parse_npy_name(format_npy_name(x)) == x`` for every
        x with a dtype and a number, and for any other x without dtype whose stem does not itself
        look numbered or end in ``.npy``. A number of more than 18 digits is part of the stem.

    Notes
    -----
    Source: files of TroubleShooter. The two older generations differ only
    in the character before the key, which cannot be told from the file name alone.
    """
    name = name.removesuffix(".npy")
    if match := _DTYPE_LAST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]), match["dtype"])
    if match := _ID_FIRST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]))
    return NpyName(name)


def format_npy_name(parts: NpyName) -> str:
    """File name without suffix, in the newest generation that can express the parts.

    A dtype without a number cannot be expressed and is left out.
    """
    if parts.number is None:
        return parts.stem
    if parts.dtype is None:
        return f"{parts.number}_{parts.stem}"
    return f"{parts.stem}_{parts.dtype}_{parts.number}"


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``x_2`` comes before ``x_10``."""

    def key(part: str) -> tuple[int, int, str]:
        if not _NUMBER.fullmatch(part):
            return 1, 0, part
        # By length, then digit by digit: int() refuses numbers of more than 4,300 digits.
        digits = part.lstrip("0")
        return 0, len(digits), digits

    return tuple(key(part) for part in _NUMBER.split(name) if part)


def site_of_npy_stem(stem: str, *, folder: str = "", kind: str = "file", call: int = 0) -> Site:
    """What the stem of a saved array, and the folder it lies in, say about the tensor.

    A parameter name in a folder or stem that says ``grad``, as ``grads.fc.weight`` and
    ``fc.weight.grad`` do, or with the suffix ``_backward`` of ``save_grad``, is the gradient of
    that parameter: role ``parameter``, direction ``backward``. Any other name so marked is the
    gradient of an activation: role ``gradient``.
    """
    path = stem.removesuffix("_backward")
    is_gradient = path != stem or says_gradient(stem) or says_gradient(folder)
    direction: Direction = "backward" if is_gradient else ""
    leaf = leaf_of(without_position(without_gradient_word(path)))
    role: Role = _role_of_leaf(leaf) or ("gradient" if is_gradient else "")
    return Site(kind, path, call, direction, role)


@lru_cache(maxsize=1 << 12)  # a network has few different ones
def _role_of_leaf(leaf: str) -> Literal["", "parameter", "buffer"]:
    """What the last part of a name says; nothing if it is no parameter's."""
    if leaf in TABLE_LEAVES:
        return "buffer"
    if parameter_leaf(leaf) is None:
        return ""
    return "buffer" if leaf in BUFFER_LEAVES else "parameter"
