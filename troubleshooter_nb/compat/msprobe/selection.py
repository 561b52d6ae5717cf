"""Which calls a configuration of msprobe asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wanted:
    """What of a dump is written.

    Attributes
    ----------
    scope : tuple of str
        Names of the first and the last call, in the order in which they run; with one, all from it.
    names : tuple of str
        Names of calls, or parts of names; a module means all that runs inside it, too.
    directions, sections : frozenset of str
        Of ``forward`` and ``backward``, and of ``input`` and ``output``.
    stored : tuple of str
        Parts of the names of calls whose tensors are stored where others' are measured only.
    """

    scope: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    directions: frozenset[str] = frozenset(("forward", "backward"))
    sections: frozenset[str] = frozenset(("input", "output"))
    stored: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether every call is asked for."""
        return not self.scope and not self.names

    def stores(self, name: str) -> bool:
        """Whether the tensors of a call are stored besides."""
        return any(text in name for text in self.stored)


EVERYTHING = Wanted()


@dataclass
class Selection:
    """Says of each call of one step whether it is asked for, in the order in which they run."""

    wanted: Wanted
    _open: bool = field(default=False, init=False)  # between the first and the last of the scope
    _ended: bool = field(default=False, init=False)
    _kept: set[str] = field(default_factory=set, init=False)
    _backward: dict[str, bool] = field(default_factory=dict, init=False)

    def begins(self, name: str, around: Iterable[str]) -> bool:
        """Whether a call that begins is asked for; `around` are the calls that it runs in."""
        if self.wanted.scope and not self._in_scope(name):
            return False
        if self.wanted.names and not self._is_named(name, around):
            return False
        self._kept.add(name)
        return True

    def ends(self, name: str) -> None:
        """Note that a call has ended."""
        if self._open and len(self.wanted.scope) > 1 and name == self.wanted.scope[1]:
            self._open, self._ended = False, True

    def _in_scope(self, name: str) -> bool:
        if not self._open and not self._ended and name == self.wanted.scope[0]:
            self._open = True
        return self._open

    def _is_named(self, name: str, around: Iterable[str]) -> bool:
        return any(text in each for text in self.wanted.names for each in (name, *around))

    def backward(self, name: str, forward: str) -> bool:
        """Whether the backward call of a forward one is asked for; decided when first asked."""
        if name not in self._backward:
            self._backward[name] = self._is_asked_backward(name, forward)
        return self._backward[name]

    def gradients(self, name: str, backward: str, forward: str) -> bool:
        """Whether the gradients of a module's parameters are asked for, which have a `name`."""
        if not self.wanted.names:
            return self.backward(backward, forward)
        is_named = any(text in name for text in self.wanted.names)
        return is_named or (forward in self._kept and forward not in self.wanted.names)

    def _is_asked_backward(self, name: str, forward: str) -> bool:
        if self.wanted.scope and any(".backward" in text for text in self.wanted.scope):
            found = self._in_scope(name) or forward in self._kept
            self.ends(name)
            return found
        if any(text in name for text in self.wanted.names):
            return not self.wanted.scope or forward in self._kept
        # A full name of a forward call means that one alone.
        is_alone = name != forward and forward in self.wanted.names
        return not is_alone and (self.wanted.is_all or forward in self._kept)
