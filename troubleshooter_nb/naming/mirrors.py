"""Sets of names that are those of another set but for one part, such as ``ema.``: mirrors of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from troubleshooter_nb.naming.parameters import OPTIMIZER_STATES

_SEPARATORS = re.compile(r"[._/:\s-]+")
_MOST_WORDS = 4  # of the part that a mirror has more than its original
_MOST_INSTEAD = 2  # words that an original has in the place of that part
# Words of moving averages, and those that only values make sure.
_AVERAGED = frozenset("ema swa averaged shadow polyak lookahead".split())
_AVERAGED_TOO = frozenset("moving_average moving_avg avg_model avg_weights".split())
_LIKE_AVERAGED = frozenset(
    "teacher target slow mean average avg momentum key k mt reference old backup".split()
)
# States of optimizers by words of their own. Those left out are words of layers as well.
_OF_LAYERS = frozenset(
    "sum prev linear stat mu ax ax_ eta accum moment moments step_size momentum".split()
)
_STATES = {name: slot for name, slot in OPTIMIZER_STATES.items() if name not in _OF_LAYERS}
_STATES |= {"first_moment": "exp_avg", "second_moment": "exp_avg_sq", "velocity": "momentum_buffer"}
_LIKE_STATES = {
    **{name: OPTIMIZER_STATES[name] for name in sorted(_OF_LAYERS & OPTIMIZER_STATES.keys())},
    **{"momentum": "momentum_buffer", "accumulator": "sum", "acc": "sum", "nu": "exp_avg_sq"},
}
_OPTIMIZERS = frozenset(
    "optimizer optim opt adam adamw sgd lamb lion adagrad rmsprop adafactor state states".split()
)
# What else the part may say without being a part of the network.
_CONTAINERS = frozenset(
    "model module net network state dict params param weights weight variables vars collections "
    "orig mod student online learner".split()
)

_TELLING = _AVERAGED.union(
    _LIKE_AVERAGED, *(name.split("_") for name in {*_AVERAGED_TOO, *_STATES, *_LIKE_STATES})
)
# What may stand inside of a name, or at its end with a container in front.
_SURE = "|".join(sorted({*_AVERAGED, *_AVERAGED_TOO, *_STATES}, key=len, reverse=True))
_WITHIN = re.compile(rf"(?i)_(?:{_SURE})(?=_)")
_AT_END = re.compile(rf"(?i)_(?:{_SURE})$")
_HOLDERS = _OPTIMIZERS | _CONTAINERS
_Key = tuple[str, str, str]  # place, part, and what stands instead


@dataclass(frozen=True)
class Mirror:
    """A set of names with a part that the names of another set lack.

    Attributes
    ----------
    words : tuple of str
        Of that part, in lower case.
    pairs : dict of str to str
        Names to those of the originals, of equal shapes.
    is_whole : bool
        Whether all names with that part, at that place, have an original.
    instead : tuple of str
        Words that the originals have in its place: ``student`` where it is ``teacher``.
    """

    words: tuple[str, ...]
    pairs: dict[str, str]
    is_whole: bool
    instead: tuple[str, ...] = ()

    @property
    def is_average(self) -> bool:
        """Whether the part says nothing but that these are moving averages."""
        rest = {*self.words, *self.instead} - _AVERAGED - _CONTAINERS
        for word in _AVERAGED_TOO & self._runs:
            rest -= set(word.split("_"))
        return self.says_average and not rest

    @property
    def says_average(self) -> bool:
        """Whether a word of the part is one of moving averages."""
        return bool(_AVERAGED.intersection(self.words) or _AVERAGED_TOO & self._runs)

    @property
    def may_be_average(self) -> bool:
        """Whether a word of the part is one that moving averages are often called by."""
        return self.says_average or bool(_LIKE_AVERAGED.intersection(self.words))

    @property
    def state(self) -> str:
        """The state of an optimizer that the part surely says, in torch's word; else empty."""
        return self._named(_STATES)

    @property
    def likely_state(self) -> str:
        """The state of an optimizer that the part may say; else empty."""
        return self.state or self._named(_LIKE_STATES)

    @property
    def of_optimizer(self) -> bool:
        """Whether a word of the part is one of optimizers."""
        return bool(_OPTIMIZERS.intersection(self.words))

    @property
    def _runs(self) -> set[str]:
        count = len(self.words)
        return {"_".join(self.words[i:j]) for i in range(count) for j in range(i + 1, count + 1)}

    def _named(self, states: Mapping[str, str]) -> str:
        found = sorted(states.keys() & self._runs, key=len)
        return states[found[-1]] if found else ""


def mirrors_of(shapes: Mapping[str, tuple[int, ...] | None]) -> list[Mirror]:
    """The sets of names that mirror others, the largest first.

    ``ema_backbone_conv1_weight`` mirrors ``backbone.conv1.weight``: dots and underscores count as
    one. The part may stand in front, behind, or, where it says what it is, inside.

    Parameters
    ----------
    shapes : mapping of str to tuple
        All names of one checkpoint; None where the shape is unknown, which fits nothing.

    Returns
    -------
    list of Mirror
        A name may be in several. An original that two names stand for is in none.
    """
    flat = {name: _flat(name) for name in shapes}
    by_flat: dict[str, list[str]] = defaultdict(list)
    for name, joined in flat.items():
        by_flat[joined].append(name)
    behind = _behind_their_fronts(flat)
    found: dict[_Key, dict[str, str]] = defaultdict(dict)
    for name, joined in flat.items():
        for place, part, rest in _without_a_part(joined):
            if rest in by_flat:
                known = [(one, "") for one in by_flat[rest]]
            elif behind and place == "front" and rest in behind and _is_told(part):
                known = [one for one in behind[rest] if one[0] != name]
            else:
                continue
            if shapes[name] is None or len(known) != 1:
                continue
            original, instead = known[0]
            if shapes[original] == shapes[name]:
                found[place, part, instead][name] = original
    mirrors = [
        Mirror(
            _lowered(part),
            pairs,
            len(pairs) == sum(_has_part(joined, place, part) for joined in flat.values()),
            _lowered(instead),
        )
        for (place, part, instead), pairs in found.items()
    ]
    return sorted(mirrors, key=lambda mirror: (-len(mirror.pairs), len(mirror.words)))


def _flat(name: str) -> str:
    return "_".join(filter(None, _SEPARATORS.split(name)))


def _behind_their_fronts(flat: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Names with what stands in front, by the rest; empty where no front tells a mirror."""
    most = max(_MOST_WORDS, _MOST_INSTEAD)
    if not any(_is_told("_".join(joined.split("_", most)[:most])) for joined in flat.values()):
        return {}
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, joined in flat.items():
        for at in _cuts(joined)[:_MOST_INSTEAD]:
            if not _is_told(joined[:at]):
                found[joined[at + 1 :]].append((name, joined[:at]))
    return found


def _cuts(joined: str) -> list[int]:
    return [at for at, sign in enumerate(joined) if sign == "_"]


def _has_part(joined: str, place: str, part: str) -> bool:
    """Whether a name has a part at that place, and more."""
    if place == "front":
        return joined.startswith(f"{part}_")
    if place == "behind":
        return joined.endswith(f"_{part}")
    if place == "inside":
        return f"_{part}_" in joined
    first, _, last = part.partition("_")
    return joined.startswith(f"{first}_") and joined.endswith(f"_{last}")


def _lowered(part: str) -> tuple[str, ...]:
    return tuple(part.lower().split("_")) if part else ()


def _is_told(part: str) -> bool:
    """Whether a word is one of averages or of states."""
    return not _TELLING.isdisjoint(_lowered(part))


def _without_a_part(joined: str) -> Iterator[tuple[str, str, str]]:
    """Place and words of what may be taken away, and what is left."""
    cuts = _cuts(joined)
    for at in cuts[:_MOST_WORDS]:
        yield "front", joined[:at], joined[at + 1 :]
    for at in cuts[-_MOST_WORDS:]:
        yield "behind", joined[at + 1 :], joined[:at]
    for match in _WITHIN.finditer(joined):
        yield "inside", match[0][1:], joined[: match.start()] + joined[match.end() :]
    last = _AT_END.search(joined)
    if last and cuts[0] < last.start() and joined[: cuts[0]].lower() in _HOLDERS:
        yield "around", joined[: cuts[0]] + last[0], joined[cuts[0] + 1 : last.start()]
