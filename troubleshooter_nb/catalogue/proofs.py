"""Sentences that the proofs of many causes share: an entry says what is its own.

Each takes English and Chinese. What has no gaps is followed by what holds on either side:
"the mask" becomes "the mask: left {left}, right {right}".
"""

from __future__ import annotations

from troubleshooter_nb.catalogue.entry import Bilingual

_SIDES = ": left {left}, right {right}", "：左侧 {left}，右侧 {right}"


def recomputed(english: str, chinese: str) -> Bilingual:
    """Each side is computed again from its own inputs, and found to do something else."""
    english, chinese = _with_sides(english, chinese)
    return leaves(
        f"Recomputed in float64 from each side's own inputs, {english}",
        f"分别用两侧自己的输入以 float64 重算，{chinese}",
    )


def leaves(english: str, chinese: str) -> Bilingual:
    """With what was found, so much is left of the difference."""
    english, chinese = _with_sides(english, chinese)
    return (
        f"{english}; that leaves {{residual}} of {{before}}.",
        f"{chinese}；由此差异由 {{before}} 降到 {{residual}}。",
    )


def alike(english: str, chinese: str, treated: str, treated_chinese: str) -> Bilingual:
    """The difference, and what is left of it once both sides are treated alike."""
    english, chinese = _with_sides(english, chinese)
    return (
        f"{english}. Relative error {{before}}; {treated} {{residual}} is left.",
        f"{chinese}。相对误差 {{before}}；{treated_chinese}剩余 {{residual}}。",
    )


def becomes(english: str, chinese: str) -> Bilingual:
    """What makes the one side's values of the other's, and the error before and after."""
    return (
        f"{english}: {{before}} becomes {{residual}}.",
        f"{chinese}：误差由 {{before}} 降到 {{residual}}。",
    )


def except_for(english: str, chinese: str) -> Bilingual:
    """Some values differ in a way that proves it, all others hardly."""
    return (
        f"{english}; the others differ by {{residual}}.",
        f"{chinese}；其余相差 {{residual}}。",
    )


def _with_sides(*both: str) -> Bilingual:
    english, chinese = (
        text if "{" in text else text + sides for text, sides in zip(both, _SIDES, strict=True)
    )
    return english, chinese
