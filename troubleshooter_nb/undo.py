"""The versions of a frozen value that is being edited, with undo and redo."""

from __future__ import annotations

from typing import Generic, TypeVar

from troubleshooter_nb.messages import Message, told

Value = TypeVar("Value")


class History(Generic[Value]):
    """The versions of any frozen value, with a word per step.

    Attributes
    ----------
    value
        The current version.
    """

    def __init__(self, value: Value) -> None:
        self.value = value
        self._past: list[tuple[Value, str]] = []
        self._future: list[tuple[Value, str]] = []

    def __repr__(self) -> str:
        """Which version of how many is current, and what it is."""
        past, future = len(self._past), len(self._future)
        counts = {"number": past + 1, "total": past + 1 + future, "past": past, "future": future}
        first = repr(self.value).partition("\n")[0]
        said = Message("weight_maps.history", name=type(self).__name__, **counts)
        return f"{told(said)}\n  {first}"

    def do(self, value: Value, what: str = "") -> Value:
        """Make this the current version; what was undone is gone.

        Parameters
        ----------
        value
            The new version; nothing happens where it is the current one.
        what : str
            What was done, for `undo_of` and `redo_of`.
        """
        if value is not self.value:
            self._past.append((self.value, what))
            self._future.clear()
            self.value = value
        return value

    @property
    def undo_of(self) -> str | None:
        """What the next undo takes back; None where there is nothing."""
        return self._past[-1][1] if self._past else None

    @property
    def redo_of(self) -> str | None:
        """What the next redo does again; None where there is nothing."""
        return self._future[-1][1] if self._future else None

    def undo(self) -> Value:
        """The version before, which is current again; the same where there is none."""
        if self._past:
            value, what = self._past.pop()
            self._future.append((self.value, what))
            self.value = value
        return self.value

    def redo(self) -> Value:
        """The version that was undone last; the same where there is none."""
        if self._future:
            value, what = self._future.pop()
            self._past.append((self.value, what))
            self.value = value
        return self.value
