"""What there is to say of one kind of transform; `transforms.table` has all of them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.transforms.spec import Spec

Value = int | float | str
Arguments = tuple[Value, ...]
Targets = Sequence[Shape | None]  # shapes; None where one is not known
Proposals = Iterable[Arguments]
Runs = np.ndarray  # shape (n, 2): first row and number of rows of each run of rows
Gives = Literal["views", "rows", "values", "joined", "stacked", "whole"]
LONGEST_SHOWN = 120  # letters of what a text gives, in a message
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class MisfitError(Exception):
    """Why sources do not fit a transform, raised by `Kind.specs`; it holds a message."""


def whole_number(word: str) -> int:
    """The number that a word of a transform is; ValueError where it is none."""
    if not _WHOLE.fullmatch(word):
        raise ValueError(word)
    return int(word)


def real_number(word: str) -> float:
    """The finite number that a word of a transform is; ValueError where it is none."""
    number = float(word)
    if not math.isfinite(number) or "_" in word:
        raise ValueError(word)
    return number


# Whatever the order of many rows, its words are the same numbers.
@lru_cache(maxsize=1 << 16)
def row_range(word: str) -> str:
    """The word for one row or a range of rows, ``7`` or ``0:64``; ValueError where it is none."""
    first, colon, stop = word.partition(":")
    begin = whole_number(first)
    end = whole_number(stop) if colon else begin + 1
    if not 0 <= begin < end:
        raise ValueError(word)
    return range_word(begin, end)


def range_word(first: int, stop: int) -> str:
    """The word for the rows from `first` to before `stop`."""
    return f"{first}:{stop}" if stop - first > 1 else str(first)


def dtype_name(word: str) -> str:
    """The word, if it names a dtype; ValueError where it is no name at all."""
    if not word[:1].isalpha():
        raise ValueError(word)
    try:
        dtype_from_token(word)
    except ValueError:
        raise WeightMapError(Message("transforms.no_dtype", dtype=word)) from None
    return word


class Argument(NamedTuple):
    """One argument of a transform.

    Attributes
    ----------
    name : str
    read : callable
        The value that a word means; raises ValueError for what is no such value.
    several : bool
        Whether it takes all the values that the others leave over, as a tuple; one of a kind may.
    optional : bool
        Whether it may be missing, and is None then; such arguments are the last ones.
    """

    name: str
    read: Callable[[str], Value] = whole_number
    several: bool = False
    optional: bool = False


class Sources(NamedTuple):
    """How many sources a transform takes; `names` where each is another thing."""

    least: int = 1
    most: int | None = 1
    names: tuple[str, ...] = ()

    def refused(self, transform: object, count: int) -> str:
        """Why so many are too few or too many, or nothing."""
        if self.least <= count <= (count if self.most is None else self.most):
            return ""
        said = {"transform": transform, "count": count}
        if self.names:
            return Message("transforms.takes_these_sources", **said, names=[*self.names])
        if self.most == 1:
            return Message("transforms.takes_one_source", **said)
        return Message("transforms.takes_several_sources", **said)


ONE = Sources()
SEVERAL = Sources(2, None)


def _nothing(*_: Any) -> Proposals:
    return ()


def as_weights(arguments: Arguments) -> Arguments:
    """The arguments for gradients of a kind that only moves values."""
    return arguments


def _no_loss(*_: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Everything that the package knows of one kind of transform.

    The functions take what is named here, and then each argument of the transform: one value, a
    tuple of them where the argument takes several, None where it is missing.

    Attributes
    ----------
    name : str
    words : callable
        ``(*arguments)``: what it does, a message.
    examples : mapping of str to list of tuple
        Transforms as they are written, and shapes of sources that they take. The first one is shown
        to whoever wrote one wrongly; the tests try all.
    specs : callable
        ``(sources, *arguments)``: shapes and dtypes of the targets; raises `MisfitError`.
    forward : callable
        ``(arrays, *arguments)``: the target arrays, views where possible. The arrays fit `specs`.
    arguments : tuple of Argument
    sources : Sources
    targets : int or callable
        How many there are; ``(*arguments)`` where the arguments say.
    inverse : callable, optional
        ``(sources, *arguments)``: name and arguments of what turns the targets back into these
        sources, bit for bit, or None where nothing does; the attribute is None where nothing ever
        does. A kind of one source is given all those that it is applied to one by one.
    proposals : callable
        ``(sources, targets)``: arguments that may make targets of these shapes, the likeliest
        first; a shape is None where it is not known. Those that do not are left out afterwards.
    blind : tuple of tuple
        The arguments that are proposed where no shape of the sources is known.
    is_asked_for : bool
        Whether it is proposed only to who asks for everything that fits: from shapes alone nobody
        concludes that rows changed their order, are left out or repeated.
    keeps_order : bool
        Whether values stay in their flat order, so that only the shape changes.
    gives : {"views", "rows", "values", "joined", "stacked", "whole"}
        What a part of a target is made of, so that no more is read for it: `forward` gives views
        of its one source; rows of that along one axis in another order (`rows`); each value is
        made of those at its place in the sources; the sources lie side by side along the axis
        that is the first argument, or along a new one; or only a whole is made.
    rows : callable, optional
        ``(source, *arguments)``: the axis, and the runs of rows that the target is made of.
    takes_parts : bool
        Whether its sources are the parts of a weight that is stored reparametrized.
    gradients : callable, optional
        ``(arguments)``: the arguments with which it makes the gradients of its targets of those of
        its sources; None where these do not say them.
    loss : callable
        ``(sources, *arguments)``: what is lost on the way, a message, or nothing.
    troubleshooter : mapping of tuple to str
        By the arguments that TroubleShooter's json can say the function that it names for them;
        empty where it names none.
    """

    name: str
    words: Callable[..., Message]
    examples: Mapping[str, Sequence[Shape]]
    specs: Callable[..., Sequence[Spec]]
    forward: Callable[..., Sequence[np.ndarray]]
    arguments: tuple[Argument, ...] = ()
    sources: Sources = ONE
    targets: int | Callable[..., int] = 1
    inverse: Callable[..., tuple[str, Arguments] | None] | None = None
    proposals: Callable[[Sequence[Spec], Targets], Proposals] = _nothing
    blind: tuple[Arguments, ...] = ()
    is_asked_for: bool = False
    keeps_order: bool = False
    gives: Gives = "whole"
    rows: Callable[..., tuple[int, Runs]] | None = None
    takes_parts: bool = False
    gradients: Callable[[Arguments], Arguments | None] | None = None
    loss: Callable[..., str] = _no_loss
    troubleshooter: Mapping[Arguments, str] = field(default_factory=dict)

    def read(self, words: Sequence[object]) -> Arguments:
        """The arguments that values or the words of a text are.

        Raises
        ------
        WeightMapError
            If they are too few, too many or of another kind.
        """
        try:
            left, read = iter(words), list[Value]()
            for argument, most in zip(self.arguments, self._counts(len(words)), strict=True):
                read += map(argument.read, map(str, itertools.islice(left, most)))
            return tuple(read)
        except WeightMapError:
            raise
        except ValueError:
            given = f"{self.name}({', '.join(map(str, words))})" if words else self.name
            given = given if len(given) <= LONGEST_SHOWN else f"{given[:LONGEST_SHOWN]}..."
            said = {"kind": self.name, "given": given, "example": next(iter(self.examples))}
            takes_one = len(self.arguments) == 1 and not self.arguments[0].several
            count = "no" if not self.arguments else "one" if takes_one else "these"
            raise WeightMapError(Message(f"transforms.takes_{count}", **said)) from None

    def may_be(self, sources: int, targets: int) -> bool:
        """Whether it takes so many sources, and may give so many targets."""
        if self.sources.refused(self.name, sources):
            return False
        return not isinstance(self.targets, int) or self.targets == targets

    def bound(self, arguments: Arguments) -> tuple[Any, ...]:
        """A value for each argument, as the functions take them."""
        left, bound = iter(arguments), []
        for argument, count in zip(self.arguments, self._counts(len(arguments)), strict=True):
            taken = tuple(itertools.islice(left, count))
            bound.append(taken if argument.several else taken[0] if taken else None)
        return tuple(bound)

    def _counts(self, given: int) -> list[int]:
        """How many of so many values each argument takes; ValueError unless all are taken."""
        counts = [int(not argument.several) for argument in self.arguments]
        spare = given - sum(counts)
        for at, argument in reversed([*enumerate(self.arguments)]):
            if argument.several and spare > 0:
                counts[at], spare = spare, 0
            elif argument.optional and spare < 0:
                counts[at], spare = 0, spare + 1
        if spare:
            raise ValueError(given)
        return counts


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; raises `MisfitError` where there is none."""
    if not -rank <= axis < rank:
        raise MisfitError(Message("transforms.axis_beyond", axis=axis, rank=rank))
    return axis % rank


def without(shape: Shape, axis: int, *instead: int) -> Shape:
    """A shape with other lengths in the place of one axis, or none."""
    return (*shape[:axis], *instead, *shape[axis + 1 :])
