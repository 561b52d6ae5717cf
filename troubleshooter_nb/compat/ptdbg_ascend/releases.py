"""What distinguishes the tables of ptdbg_ascend's releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from troubleshooter_nb.compat.ptdbg_ascend.verdicts import Rule

Name = Literal["1.0", "2.0", "3.0", "4.0"]

HEAD = (
    *("NPU Name", "Bench Name", "NPU Tensor Dtype", "Bench Tensor Dtype"),
    *("NPU Tensor Shape", "Bench Tensor Shape"),
)
VERDICT = ("Accuracy Reached or Not", "Err_message")
STACK = "NPU_Stack_Info"
_MAX_MIN_MEAN = ("max", "min", "mean")
_FIGURES = ("Cosine", "MaxAbsErr", "MaxRelativeErr")
_RATIOS = ("One Thousandth Err Ratio", "Five Thousandths Err Ratio")
_HALF = frozenset({"torch.float16", "torch.float32"})
_HALVES = frozenset({"torch.float16", "torch.bfloat16"})


@dataclass(frozen=True)
class Release:
    """A table of the tool.

    Attributes
    ----------
    figures : tuple of str
        Headings of the figures of two arrays, the first ones of the five there are.
    statistics : tuple of str
        Which statistics of a line are shown.
    decimals : int
        To which figures are rounded.
    rule : {"1.0", "2.0"}
        What makes a pair ``No``, see `verdict`.
    cosine_of_one : float or str
        The cosine of vectors of one element.
    alike : tuple of sets of str, or None
        Dtypes that pair with each other, besides equal ones; None where only names are matched,
        neither dtypes nor shapes.
    of_statistics : bool
        Whether text files are compared without their arrays.
    """

    figures: tuple[str, ...]
    statistics: tuple[str, ...] = _MAX_MIN_MEAN
    decimals: int = 6
    rule: Rule = "2.0"
    cosine_of_one: float | str = "unsupported"
    alike: tuple[frozenset[str], ...] | None = (_HALF,)
    of_statistics: bool = False

    @property
    def diffs(self) -> tuple[str, ...]:
        """Headings of the differences of statistics."""
        return tuple(f"{one.capitalize()} diff" for one in self.statistics)

    def headings(self, *, with_arrays: bool, with_stacks: bool) -> tuple[str, ...]:
        """The first line of the csv."""
        sides = tuple(f"{side} {one}" for side in ("NPU", "Bench") for one in self.statistics)
        stack = (STACK,) if with_stacks else ()
        if not with_arrays:
            return (*HEAD, *self.diffs, *sides, *stack)
        return (*HEAD, *self.figures, *sides, *VERDICT, *stack)


# Source: the releases' own tables. "2.0" is that of August 2023, "4.0" that of December.
RELEASES: dict[str, Release] = {
    "1.0": Release(_FIGURES[:2], rule="1.0", cosine_of_one=1.0, alike=None),
    "2.0": Release(_FIGURES),
    "3.0": Release(_FIGURES, decimals=12),
    "4.0": Release(
        (*_FIGURES, *_RATIOS),
        (*_MAX_MIN_MEAN, "l2norm"),
        decimals=12,
        alike=(_HALF, _HALVES),
        of_statistics=True,
    ),
}
