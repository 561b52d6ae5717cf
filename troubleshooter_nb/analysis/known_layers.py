"""Classes and settings of layers that the dumps do not hold: said by the user, or of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_Settings = Mapping[str, Any]


@dataclass(frozen=True)
class KnownLayers:
    """What is known of layers besides their dumps.

    Attributes
    ----------
    said : mapping of str to str
        By place in the network or the end of it, the class on both sides, in either framework's
        word.
    of_net : tuple of mapping
        Of left and right, by place: class and settings, in torch's words.
    """

    said: Mapping[str, str] = field(default_factory=dict)
    of_net: tuple[Mapping[str, tuple[str, _Settings]], Mapping[str, tuple[str, _Settings]]] = (
        {},
        {},
    )

    def __bool__(self) -> bool:
        return bool(self.said or any(self.of_net))

    def class_said(self, path: str) -> str:
        """The class that the user gave; empty where none was."""
        found = _entry(path, self.said)
        return self.said[found] if found is not None else ""

    def classes_of_net(self, path: str) -> tuple[str, str]:
        """The classes in the networks of left and right; empty where they have no such layer."""
        left, right = (self._of(path, side)[0] for side in (0, 1))
        return left, right

    def settings(self, path: str, side: int) -> _Settings:
        """Settings that the network of a side holds."""
        return self._of(path, side)[1]

    def unused(self, paths: Iterable[str]) -> list[str]:
        """Places that the user named and that none of these are."""
        used = {_entry(path, self.said) for path in paths}
        return [name for name in self.said if name not in used]

    def _of(self, path: str, side: int) -> tuple[str, _Settings]:
        found = _entry(path, self.of_net[side])
        return self.of_net[side][found] if found is not None else ("", {})


def _entry(path: str, known: Mapping[str, Any]) -> str | None:
    """The name of a place: itself, else the only one that ends as it does."""
    path = path.replace("/", ".")
    if path in known:
        return path
    ends = [one for one in known if one and (_ends(path, one) or _ends(one, path))]
    return ends[0] if len(ends) == 1 else None


def _ends(path: str, end: str) -> bool:
    return path.endswith("." + end)
