"""The three layouts of msprobe's dumps: what a file of a release looks like."""

from __future__ import annotations

import os
from dataclasses import dataclass

from troubleshooter_nb.errors import OptionError
from troubleshooter_nb.messages import Message

VARIABLE = "TNB_MSPROBE_GENERATION"


@dataclass(frozen=True)
class Generation:
    """How a release of msprobe writes.

    Attributes
    ----------
    release : str
        The last release that wrote so: ``1.2.2``, ``8.3.3`` or ``26.2.0``.
    letter : str
        Of the column ``releases`` of ``tables/msprobe_ops.csv``.
    process_folder : bool
        Whether the folder of a run of one process is ``proc<pid>``, else ``rank``.
    counts_gradients : bool
        Whether parameter gradients have a number, and stand where they arrive; else they stand
        behind the first call of their layer, from the start. The former are what ``.grad`` of
        torch holds afterwards, the latter what one backward pass gave.
    shares_stacks : bool
        Whether calls with one stack share a record.
    says_recompute : bool
        Whether forward entries of torch say ``is_recompute``.
    whole_names : bool
        Whether an operator is called by its whole name (``Torch.linalg.norm``).
    has_wide_means : bool
        Whether integers and float64 of torch have a mean and a norm.
    widens_bfloat16 : bool
        Whether the checksum of bfloat16 is that of the values as float32, in torch too.
    leaves_out_harmless : bool
        Whether operators that move values only are left out where nothing else is asked.
    empty_without_input_gradient : bool
        Whether a module whose inputs need no gradient has none listed, else null for each.
    """

    release: str
    letter: str
    process_folder: bool = False
    counts_gradients: bool = False
    shares_stacks: bool = True
    says_recompute: bool = True
    whole_names: bool = False
    has_wide_means: bool = True
    widens_bfloat16: bool = False
    leaves_out_harmless: bool = False
    empty_without_input_gradient: bool = True


_FIRST = Generation(
    "1.2.2",
    "A",
    shares_stacks=False,
    whole_names=True,
    widens_bfloat16=True,
    empty_without_input_gradient=False,
)
_SECOND = Generation("8.3.3", "B")
_THIRD = Generation(
    "26.2.0",
    "C",
    process_folder=True,
    counts_gradients=True,
    says_recompute=False,
    has_wide_means=False,
    leaves_out_harmless=True,
)
_KNOWN = {"1.2": _FIRST, "8.3": _SECOND, "26.2": _THIRD}


def generation_of(asked: str | None, default: str) -> Generation:
    """The layout of a release: the one asked for, else of the environment, else the default.

    Parameters
    ----------
    asked : {"1.2", "8.3", "26.2"}, optional
        Also in full (``8.3.3``).
    default : str

    Raises
    ------
    OptionError
        For any other, also in the environment.
    """
    text = asked or os.environ.get(VARIABLE) or default
    for short, generation in _KNOWN.items():
        if text in (short, generation.release):
            return generation
    raise OptionError(
        Message("debugger.generation", given=repr(text), known=[*_KNOWN], variable=VARIABLE)
    )
