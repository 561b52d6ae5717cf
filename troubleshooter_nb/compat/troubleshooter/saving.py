"""``ts.save`` and ``ts.save_grad``: the package's own, numbered and stored as the old tool did."""

from __future__ import annotations

from os import PathLike
from typing import Any, cast

from troubleshooter_nb.capture import saving
from troubleshooter_nb.capture.numbering import Numbering
from troubleshooter_nb.capture.saving import OutputMode

_PER_PROCESS = Numbering(per="framework")


def save(
    file: str | PathLike[str], data: Any, suffix: object = None, output_mode: OutputMode = "npy"
) -> None:
    """Write a tensor, or each tensor of a nested value, under a name and a running number.

    Parameters
    ----------
    file, data, suffix, output_mode
        As in `troubleshooter_nb.save`.

    Raises
    ------
    TypeError, ValueError, NotImplementedError, OSError
        As there.

    Notes
    -----
    As the old tool: numbers count over all folders of the process, torch and MindSpore apart,
    bfloat16 is stored as float32, and prints show what the framework shows, behind the name. Names
    follow the option ``npy_names``. Different: nothing is written when one item cannot be saved,
    arrays and numbers are taken, and files keep the modes of their user instead of 0400.
    """
    saving.save(
        file,
        data,
        suffix,
        output_mode=output_mode,
        numbering=_PER_PROCESS,
        widen=True,
        as_shown=True,
    )


def save_grad(
    file: str | PathLike[str],
    data: Any,
    suffix: object = "backward",
    output_mode: OutputMode = "npy",
) -> Any:
    """Return a tensor as it is, and write its gradient when that arrives.

    Parameters
    ----------
    file, data, suffix, output_mode
        As in `troubleshooter_nb.save_grad`, whose `x` is `data` here.

    Returns
    -------
    tensor
        To be used from there on.

    Raises
    ------
    TypeError, ValueError, RuntimeError, NotImplementedError, OSError
        As there.
    """
    return saving.save_grad(
        file,
        data,
        suffix,
        output_mode=output_mode,
        numbering=_PER_PROCESS,
        widen=True,
        as_shown=True,
    )


# MindSpore compiles both from their source. Where MS_JIT_IGNORE_MODULES names this package it would
# call them instead, which cuts the gradient without a word; this mark forbids it.
for _function in (save, save_grad):
    cast("Any", _function).__jit_function__ = True
