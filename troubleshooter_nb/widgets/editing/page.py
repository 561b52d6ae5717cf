"""What the pages of an editor have been told, so that they are told what changed and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Names = Sequence[str]


class Cells(NamedTuple):
    """One row as a page has it; `left` and `right` are numbers of names.

    `how` is a transform or the method of a pair, `tone` empty, "warn" or "bad".
    """

    key: str
    left: list[int]
    right: list[int]
    how: str
    shapes: str
    remark: str = ""
    tone: str = ""
    suggestion: str = ""


class NumberedNames:
    """The names of one side; a number stays with its name, whether that is still there or not.

    `shape_of` takes a number and its name.
    """

    def __init__(self, names: Names, shape_of: Callable[[int, str], str]) -> None:
        self._shape_of = shape_of
        self.names: list[str] = []
        self.shapes: list[str] = []
        self.number_of: dict[str, int] = {}
        self.absent: set[int] = set()
        for name in names:
            self._add(name)

    def _add(self, name: str) -> None:
        self.shapes.append(self._shape_of(len(self.names), name))
        self.number_of[name] = len(self.names)
        self.names.append(name)

    def __len__(self) -> int:
        """How many names are there."""
        return len(self.names) - len(self.absent)

    @property
    def there(self) -> list[str]:
        """The names that are there."""
        return [name for number, name in enumerate(self.names) if number not in self.absent]

    def update(self, names: Names) -> list[int]:
        """The numbers of names that came or went when these are there, and no others."""
        before = len(self.names)
        for name in names:
            if name not in self.number_of:
                self._add(name)
        absent = set(range(len(self.names))).difference(map(self.number_of.__getitem__, names))
        changed = (absent ^ self.absent).union(range(before, len(self.names)))
        self.absent = absent
        return sorted(changed)


class Page:
    """Names by number, their shapes, and rows, as they were sent last."""

    def __init__(self, left: NumberedNames, right: NumberedNames) -> None:
        self.sides = left, right
        self.shapes = list(dict.fromkeys(shape for side in self.sides for shape in side.shapes))
        self.rows: Mapping[str, Cells] = {}

    def state(self, rows: Mapping[str, Cells]) -> dict[str, Any]:
        """All there is, with these rows."""
        self.rows = rows
        numbers = {shape: number for number, shape in enumerate(self.shapes)}
        left, right = self.sides
        return {
            "left": list(left.names),
            "right": list(right.names),
            "shapes": list(self.shapes),
            "left_shapes": [numbers[shape] for shape in left.shapes],
            "right_shapes": [numbers[shape] for shape in right.shapes],
            "absent": [sorted(side.absent) for side in self.sides],
            "rows": list(rows.values()),
        }

    def update_names(self, names_there: Iterable[Names]) -> list[list[Any]]:
        """Side, number, name, shape and whether it is there, of each name that came or went."""
        told: list[list[Any]] = []
        for at, (side, names) in enumerate(zip(self.sides, names_there, strict=True)):
            for number in side.update(names):
                shape = side.shapes[number]
                if shape not in self.shapes:
                    self.shapes.append(shape)
                is_there = number not in side.absent
                told.append([at, number, side.names[number], shape, is_there])
        return told

    def update_rows(self, rows: Mapping[str, Cells]) -> dict[str, Any]:
        """The rows that are not as they were, and the keys of those that are gone."""
        sent, self.rows = self.rows, rows
        # Cells that did not change are mostly the same object.
        put = [
            new for key, new in rows.items() if sent.get(key) is not new and sent.get(key) != new
        ]
        return {"put": put, "gone": [key for key in sent if key not in rows]}
