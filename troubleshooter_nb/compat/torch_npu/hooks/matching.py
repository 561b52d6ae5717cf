"""The search of the old comparison for groups of lines that belong together."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator

from troubleshooter_nb.compat.torch_npu.hooks.lines import Group


class _Waiting:
    """The groups of one file that were read and have no partner yet."""

    def __init__(self, groups: Iterator[Group], *, with_shapes: bool) -> None:
        self._groups, self._with_shapes = groups, with_shapes
        self._next = next(groups, None)
        self._read: deque[tuple[Group, Hashable]] = deque()
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
        key = _key(self._next, with_shapes=self._with_shapes)
        self._places.setdefault(key, deque()).append(self._gone + len(self._read))
        self._read.append((self._next, key))
        self._next = next(self._groups, None)

    @property
    def newest_key(self) -> Hashable:
        """What the group that was read last is matched by."""
        return self._read[-1][1]

    def take_newest(self) -> Group:
        """The group that was read last; nothing waits any more."""
        group = self._read[-1][0]
        self._gone += len(self._read)
        self._read.clear()
        self._places.clear()
        return group

    def take_oldest(self, key: Hashable) -> Group | None:
        """The oldest group of this key; it and all before it are gone. None if none waits."""
        places = self._places.get(key)
        while places and places[0] < self._gone:
            places.popleft()
        if not places:
            return None
        place = places.popleft()
        while self._gone < place:
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
    lefts, rights = (_Waiting(groups, with_shapes=with_shapes) for groups in (left, right))
    while lefts.has_more or rights.has_more:
        lefts.read_one()
        rights.read_one()
        if not lefts or not rights:
            return
        if lefts.newest_key == rights.newest_key:
            yield lefts.take_newest(), rights.take_newest()
        elif (older := rights.take_oldest(lefts.newest_key)) is not None:
            yield lefts.take_newest(), older
        elif (older := lefts.take_oldest(rights.newest_key)) is not None:
            yield older, rights.take_newest()


def _key(group: Group, *, with_shapes: bool) -> Hashable:
    names = tuple(line.bare_name for line in group)
    return (names, tuple((line.dtype, line.shape) for line in group)) if with_shapes else names
