"""Whether a drafted weight map moves well-known families of networks without a word of its user.

Each family of `zoo` is two small checkpoints of one network in public names and layouts: the
source, and what the loader of the other side makes of it. The map is drafted twice: with the
target's values, as people have two files of one network, and with values of no relation, so that
names and shapes are all there is. A target is right when its row makes exactly its values; figures
are shares of the targets' elements. A row is wrong when it makes something else, with the
confidence that its note says (1 without one); found are those wrong rows of names alone that values
correct, speak against or leave open. The families of `zoo.first` were written beside the rules of
drafting, those of `zoo.second` after them. Exits 1 when a bar is missed. ``--quick`` drafts with
values alone; ``--seed N`` draws others; names behind it choose families.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from zoo import first, second
from zoo.drawn import Arrays, Family, Random

import troubleshooter_nb as tnb
from troubleshooter_nb.messages import messages_in
from troubleshooter_nb.weight_map import WeightMap, WeightRow

RIGHT_BAR, SURE = 0.95, 0.9
HALVES: dict[str, dict[str, Callable[[Random], Family]]] = {
    "written beside the rules": first.FAMILIES,
    "written after the rules": second.FAMILIES,
}
_CONTRADICTED = "weight_maps.contradicted"


@dataclass(frozen=True)
class Score:
    """What a map makes of one family's targets.

    Attributes
    ----------
    right : float
        Share of the target's elements.
    wrong : dict of str to float
        Targets whose row makes something else, with the row's confidence.
    missing : tuple of str
        Targets that no row makes.
    """

    right: float
    wrong: dict[str, float]
    missing: tuple[str, ...]

    @property
    def loud(self) -> list[str]:
        """Wrong targets of rows that are sure."""
        return [name for name, confidence in self.wrong.items() if confidence > SURE]


def confidence_of(row: WeightRow) -> float:
    """How sure the note of a row says that names are."""
    said = [m.values["confidence"] for m in messages_in(row.note) if "confidence" in m.values]
    return float(min(said, default=1.0))


def made_by(row: WeightRow, source: Arrays) -> list[np.ndarray]:
    """The targets of a row; none where it cannot be applied."""
    try:
        return list(row.transform.apply([source[name] for name in row.sources]))
    except tnb.TroubleshooterError:
        return []


def scored(drafted: WeightMap, family: Family) -> Score:
    """What a map makes, held to what the targets are."""
    right: set[str] = set()
    wrong: dict[str, float] = {}
    for row in drafted:
        made = made_by(row, family.source) or [np.empty(0)] * len(row.targets)
        for name, value in zip(row.targets, made, strict=True):
            if np.array_equal(value, family.target[name]):
                right.add(name)
            else:
                wrong[name] = confidence_of(row)
    sizes = {name: value.size for name, value in family.target.items()}
    share = sum(sizes[name] for name in right) / sum(sizes.values())
    return Score(share, wrong, tuple(sizes.keys() - right - wrong.keys()))


def unrelated(random: Random, arrays: Arrays) -> Arrays:
    """Values of another network in the same shapes."""
    return {
        name: (1.0 + random.standard_normal(one.shape)).astype(one.dtype)
        for name, one in arrays.items()
    }


def by_names(family: Family, random: Random) -> Score:
    """The map of names and shapes alone."""
    return scored(tnb.draft_weight_map(family.source, unrelated(random, family.target)), family)


def by_values(family: Family) -> tuple[Score, set[str]]:
    """The map with everything that values prove, and the targets that they speak against."""
    drafted = tnb.draft_weight_map(family.source, family.target).accept()
    doubted = {n for m in drafted.doubts() if m.id == _CONTRADICTED for n in m.values["names"]}
    against = {n for row in drafted if doubted & set(row.sources) for n in row.targets}
    return scored(drafted, family), against


def main() -> int:
    """Print the figures of each family, both halves by themselves; 0 when all bars are met."""
    # Here, because tests load this file for its scores, without its folder on the path.
    from measuring.bars import Bar, Case, concluded

    arguments = sys.argv[1:]
    quick = "--quick" in arguments
    seed = int(arguments.pop(arguments.index("--seed") + 1)) if "--seed" in arguments else 0
    chosen = [word for word in arguments if not word.startswith("--")]
    cases = []
    for half, families in HALVES.items():
        shares: list[tuple[int, float, float]] = []
        loud = unfound = 0
        print(
            f"\n{half}\n{'':28}{'values':>8}{'wrong':>6}{'names':>8}{'wrong':>6}{'sure':>6}{'found':>6}"
        )
        for number, (name, make) in enumerate(families.items()):
            if chosen and name not in chosen:
                continue
            random = np.random.default_rng([seed, number])
            family = make(random)
            proved, against = by_values(family)
            named = None if quick else by_names(family, random)
            quiet = proved.wrong.keys() - against
            line = f"{name:28}{proved.right:8.1%}{len(proved.wrong):6}"
            if named is not None:
                found = len(named.wrong.keys() - quiet)
                line += f"{named.right:8.1%}{len(named.wrong):6}{len(named.loud):6}{found:6}"
                loud += len(named.loud)
            print(line)
            for target in sorted(quiet):
                print(f"    not found: {target}")
            if chosen:
                print(f"    with values: {proved}\n    names: {named}")
            unfound += len(quiet)
            size = sum(one.size for one in family.target.values())
            shares.append((size, proved.right, named.right if named else 1.0))
        if not shares:
            continue
        total = sum(size for size, _, _ in shares)
        of_values, of_names = (sum(one[0] * one[k] for one in shares) / total for k in (1, 2))
        bars = [Bar("right with values", of_values, least=RIGHT_BAR)]
        bars += [Bar("wrong that values do not find", unfound, most=0)]
        if not quick:
            bars += [Bar("right by names and shapes", of_names)]
            bars += [Bar("wrong by names, sure above 0.9", loud, most=0)]
        cases.append(Case(f"{len(shares)} families {half}", bars=tuple(bars)))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
