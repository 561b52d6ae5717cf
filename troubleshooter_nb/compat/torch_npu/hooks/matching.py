"""The search of the old comparison for groups of lines that belong together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Generic, TypeVar

from troubleshooter_nb.compat.torch_npu.hooks.lines import Group

Some = TypeVar("Some")


class _Waiting(Generic[Some]):
    """The groups of one file that were read and have no partner yet."""

    def __init__(self, groups: Iterator[Some], key: Callable[[Some], Hashable]) -> None:
        self._groups, self._key = groups, key
        self._next = next(groups, None)
        self._read: deque[tuple[Some, Hashable]] = deque()
        self._gone = 0  # groups in front of the first that waits
        # Where the groups of a key stand; those that are gone are still in it.
        self._places: dict[Hashable, deque[int]] = {}

    @property
    def has_more(self) -> bool:
        """Whether the file has another group."""
        return self._next is not None

    def __bool__(self) -> bool:
        """Whether a group waits."""
        return bool(self._read)

    def read_one(self) -> None:
        """Have the next group of the file, if there is one, wait too."""
        if self._next is None:
            return
        key = self._key(self._next)
        self._places.setdefault(key, deque()).append(self._gone + len(self._read))
        self._read.append((self._next, key))
        self._next = next(self._groups, None)

    @property
    def newest(self) -> tuple[Some, Hashable]:
        """The group that was read last, and what it is matched by."""
        return self._read[-1]

    def take_newest(self) -> Some:
        """The group that was read last; nothing waits any more."""
        group = self._read[-1][0]
        self._gone += len(self._read)
        self._read.clear()
        self._places.clear()
        return group

    def take_oldest(self, key: Hashable, fits: Callable[[Some], bool]) -> Some | None:
        """The oldest group of this key that fits; it and all before it are gone. None if none."""
        places = self._places.get(key, deque())
        while places and places[0] < self._gone:
            places.popleft()
        found = next((one for one in places if fits(self._read[one - self._gone][0])), None)
        if found is None:
            return None
        while self._gone < found:
            self._read.popleft()
            self._gone += 1
        self._gone += 1
        return self._read.popleft()[0]


def matched_groups(
    left: Iterator[Group], right: Iterator[Group], *, with_shapes: bool
) -> Iterator[tuple[Group, Group]]:
    """Pairs of groups in the order in which the old tool found them.

    Parameters
    ----------
    left, right : iterator of Group
    with_shapes : bool
        Match dtype and shape of every tensor besides the names.

    Notes
    -----
    Source: runs of torch_npu.hooks. In each round one group of each file comes to those that wait.
    Then the newest of both sides are tried, the newest left one with the older right ones, and the
    newest right one with the older left ones, the oldest first. All before a pair is dropped
    without a word, so that one wrong pair can cost many right ones; pairs whose neighbours have
    equal names may be shifted. `troubleshooter_nb.compare` pairs the whole files instead.
    Different here: only a number in front of a name is left out of the comparison. The old tool
    cut whatever stood in front of the first ``_``, which made ``Torch_relu`` equal to
    ``Functional_relu`` where lines have no numbers.
    """
    return pairs_of(left, right, partial(_key, with_shapes=with_shapes))


def pairs_of(
    left: Iterator[Some],
    right: Iterator[Some],
    key: Callable[[Some], Hashable],
    fit: Callable[[Some, Some], bool] = lambda left, right: True,
) -> Iterator[tuple[Some, Some]]:
    """As `matched_groups`, of groups of any kind.

    Parameters
    ----------
    left, right : iterator
    key : callable
        What two groups have to have in common.
    fit : callable
        Whether two groups of one key may be a pair.
    """
    lefts, rights = _Waiting(left, key), _Waiting(right, key)
    while lefts.has_more or rights.has_more:
        lefts.read_one()
        rights.read_one()
        if not lefts or not rights:
            return
        (actual, left_key), (benchmark, right_key) = lefts.newest, rights.newest
        if left_key == right_key and fit(actual, benchmark):
            yield lefts.take_newest(), rights.take_newest()
        elif (older := rights.take_oldest(left_key, partial(fit, actual))) is not None:
            yield lefts.take_newest(), older
        else:
            older = lefts.take_oldest(right_key, partial(_fit_turned, fit, benchmark))
            if older is not None:
                yield older, rights.take_newest()


def _fit_turned(fit: Callable[[Some, Some], bool], right: Some, left: Some) -> bool:
    return fit(left, right)


def _key(group: Group, *, with_shapes: bool) -> Hashable:
    names = tuple(line.bare_name for line in group)
    return (names, tuple((line.dtype, line.shape) for line in group)) if with_shapes else names
