"""An entry of the catalogue: the words of a cause, and its rules towards other causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from troubleshooter_nb import thresholds

# English, Chinese.
Bilingual = tuple[str, str]
Circumstance = Literal["", "readers agree", "NaN is given"]


@dataclass(frozen=True)
class Cause:
    """One cause: what is said of it, and what the diagnosis has to know of it.

    Attributes
    ----------
    title, proof, repair : (English, Chinese)
        The last two are templates: their gaps take the evidence by name, and ``{before}`` and
        ``{residual}``, the relative errors with nothing and with the cause undone.
        `catalogue.proofs` has the sentences that many proofs share.
    words : mapping of str to str
        Chinese of the words that only its evidence holds as values; words of several causes stand
        in `WORDS` of the family, or in `catalogue.words`.
    at_most : float
        Confidence that it cannot exceed. A cause that can never be likely explains nothing: the
        search goes on where it was found, and it is no rival of others.
    excludes : tuple of str
        Where this cause is proved, these are not told: what they say follows from it.
    is_part_of : str
        The whole that causes explain together, as several settings of one update. Parts of a whole
        are no rivals of each other.
    proved_where : {"", "readers agree", "NaN is given"}
        What excludes its rivals, which the values themselves cannot show: that the calls which
        read them agree all the same, or that the call was given NaN.
    lacks : tuple of str
        Parameters of which it is the cause that one side has none.
    in_both_passes : bool
        Whether it shows in the forward and the backward pass alike, so that a forward call without
        it belies what the backward call shows.
    changes_nothing : bool
        Whether the network computes the same all the same, written or added up in another way:
        where whatever uses the values agrees, nothing is wrong.
    """

    title: Bilingual
    proof: Bilingual
    repair: Bilingual
    words: Mapping[str, str] = field(default_factory=dict)
    at_most: float = 1.0
    excludes: tuple[str, ...] = ()
    is_part_of: str = ""
    proved_where: Circumstance = ""
    lacks: tuple[str, ...] = ()
    in_both_passes: bool = False
    changes_nothing: bool = False

    @property
    def explains(self) -> bool:
        """Whether a difference may be explained by it."""
        return self.at_most >= thresholds.LIKELY
