"""How the comparisons of msprobe's releases differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from troubleshooter_nb.compat.msprobe.generations import Generation, generation_of

Verdicts = Literal["classic", "current"]


@dataclass(frozen=True)
class Release:
    """How a release compares and writes.

    Attributes
    ----------
    generation : Generation
        Its layout of dumps.
    verdicts : {"classic", "current"}
        Whether two tensors agree (Yes, No, Warning), or whether a call made things worse than its
        inputs were (pass, warning, error).
    has_gradient_flags : bool
        Columns of ``requires_grad``, and ``EucDist``.
    has_wide_stack : bool
        Whether the stack comes without being asked for.
    suffix : str
        Of the table.
    has_advice : bool
        Whether an ``advisor_*.txt`` is written.
    names_both_ranks : bool
        ``rank0-rank0`` in names of files, else ``rank0``.
    needs_same_shape : bool
        Whether values of other shapes do not meet.
    has_old_zeros : bool
        Machine epsilon of float64 in the place of a golden 0, and ``[1]`` is a vector.
    whole_calls : bool
        Whether the values of a call of torch meet all together or not at all; what cannot be
        compared has figures of 0 then, and no file.
    """

    generation: Generation
    verdicts: Verdicts = "classic"
    has_gradient_flags: bool = True
    has_wide_stack: bool = False
    suffix: str = ".xlsx"
    has_advice: bool = True
    names_both_ranks: bool = False
    needs_same_shape: bool = True
    has_old_zeros: bool = True
    whole_calls: bool = False

    @property
    def name(self) -> str:
        """The release whose tables these are."""
        return self.generation.release


def release_of(asked: str) -> Release:
    """The comparison of a release.

    Parameters
    ----------
    asked : {"1.2", "8.3", "26.2"}
        Also in full (``8.3.3``).

    Raises
    ------
    OptionError
        For any other.
    """
    generation = generation_of(asked, asked)
    if generation.letter == "A":
        return Release(
            generation, has_gradient_flags=False, names_both_ranks=True, whole_calls=True
        )
    if generation.letter == "B":
        return Release(generation)
    return Release(
        generation,
        verdicts="current",
        has_wide_stack=True,
        suffix=".csv",
        has_advice=False,
        needs_same_shape=False,
        has_old_zeros=False,
    )
