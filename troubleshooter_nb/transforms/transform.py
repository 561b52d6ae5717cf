"""A transform with its arguments, and which transforms fit given shapes or values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.ranges import Strided
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.transforms.kind import Arguments, Kind, MisfitError
from troubleshooter_nb.transforms.spec import Spec, shapes_said
from troubleshooter_nb.transforms.table import KINDS

_CALL = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class Transform:
    """What the values of a row go through.

    Attributes
    ----------
    kind : str
        A name of `KINDS`.
    arguments : tuple of int or str
        As the entry of the kind has them.

    Raises
    ------
    WeightMapError
        For another kind, or arguments that are not those of the kind.
    """

    kind: str = "copy"
    arguments: Arguments = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            kinds = {"kind": self.kind, "kinds": list(KINDS)}
            near = closest(self.kind, KINDS)
            raise WeightMapError(Message("transforms.no_transform", **kinds, closest=near))
        object.__setattr__(self, "arguments", self.entry.read(self.arguments))

    @classmethod
    def parse(cls, text: str) -> Transform:
        """The transform a text means: ``copy``, ``expand_dims(2)``, ``split(0, 64, 64, 64)``.

        Raises
        ------
        WeightMapError
            For anything that is not in the closed list; nothing is ever imported or called.
        """
        match = _CALL.fullmatch(text)
        if match is None:
            kinds = list(KINDS)
            raise WeightMapError(
                Message("transforms.not_one", text=Foreign(text[:80]), kinds=kinds)
            )
        words = [word.strip() for word in (match[2] or "").split(",")]
        return cls(match[1], tuple(filter(None, words)))

    def __str__(self) -> str:
        """The text that `parse` reads, and files hold."""
        inside = ", ".join(map(str, self.arguments))
        return f"{self.kind}({inside})" if self.arguments else self.kind

    @property
    def entry(self) -> Kind:
        """What there is to say of its kind."""
        return KINDS[self.kind]

    @property
    def words(self) -> Message:
        """What it does, in a sentence without a subject."""
        return self.entry.words(*self._bound)

    @property
    def keeps_order(self) -> bool:
        """Whether the values stay in their flat order, so that only the shape changes."""
        return self.entry.keeps_order

    @property
    def troubleshooter(self) -> str | None:
        """The function that TroubleShooter's json names for it; None where it cannot say it."""
        return self.entry.troubleshooter.get(self.arguments)

    @cached_property
    def _bound(self) -> tuple[Any, ...]:
        return self.entry.bound(self.arguments)

    def miscounted(self, sources: int, targets: int | None = None) -> str:
        """Why it does not take or give so many tensors, or nothing; `targets` if they are known."""
        if wrong := self.entry.sources.refused(self, sources):
            return wrong
        made = self.entry.targets
        made = made if isinstance(made, int) else made(*self._bound)
        if targets in (None, made):
            return ""
        if not targets:
            return Message("transforms.needs_a_target", transform=self)
        if self.entry.targets == 0:
            return Message("transforms.needs_no_target", transform=self)
        return Message("transforms.gives_others", transform=self, made=made, count=targets)

    def specs(self, sources: Sequence[Spec]) -> list[Spec]:
        """Shapes and dtypes of the targets.

        Raises
        ------
        WeightMapError
            If the sources do not fit the transform.
        """
        return list(_made(self, tuple(sources)))

    def views(self, source: Spec) -> list[Strided]:
        """Where the elements of each target stand in its one source; of kinds that give views."""
        # Strides and places say it all: no byte behind the first one is ever touched.
        byte = np.zeros(1, np.uint8)
        steps = tuple(math.prod(source.shape[axis + 1 :]) for axis in range(len(source.shape)))
        hollow = as_strided(byte, source.shape, steps)
        made = self.entry.forward([hollow], *self._bound)
        begin = hollow.__array_interface__["data"][0]
        return [
            Strided(one.shape, one.strides, one.__array_interface__["data"][0] - begin)
            for one in made
        ]

    def apply(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The target arrays; views of the sources where possible.

        Raises
        ------
        WeightMapError
            If the arrays do not fit the transform.
        """
        self.specs([Spec(array.shape, array.dtype) for array in arrays])
        return list(self.entry.forward(arrays, *self._bound))

    def inverse(self, sources: Sequence[Spec]) -> Transform | None:
        """What turns the targets back into these sources, bit for bit; None where nothing does."""
        if self.entry.inverse is None:
            return None
        kind, arguments = self.entry.inverse(sources, *self._bound)
        return Transform(kind, tuple(arguments))

    def loss(self, sources: Sequence[Spec]) -> str:
        """What is lost on the way, or nothing."""
        return self.entry.loss(sources, *self._bound)


# The layers of a net ask for the same again and again.
@lru_cache(maxsize=1 << 12)
def _made(transform: Transform, sources: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """What `Transform.specs` gives."""
    if wrong := transform.miscounted(len(sources)):
        raise WeightMapError(wrong)
    try:
        return tuple(transform.entry.specs(sources, *transform._bound))
    except MisfitError as misfit:
        where = {"transform": transform, "shapes": shapes_said(sources), "why": misfit.args[0]}
        raise WeightMapError(Message("transforms.does_not_fit", **where)) from None


@lru_cache(maxsize=1 << 12)
def fitting(
    sources: tuple[Spec | None, ...], targets: tuple[Shape | None, ...]
) -> tuple[Transform, ...]:
    """Transforms that make targets of these shapes of these sources, the likeliest first.

    Parameters
    ----------
    sources : tuple of Spec or None
    targets : tuple of tuple or None
        A shape each. None is for what is not known, of all names of a side.
    """
    return tuple(dict.fromkeys(_fitting(sources, targets)))


def _fitting(
    sources: tuple[Spec | None, ...], targets: tuple[Shape | None, ...]
) -> Iterator[Transform]:
    known = tuple(spec for spec in sources if spec is not None)
    for kind in KINDS.values():
        if not kind.may_be(len(sources), len(targets)):
            continue
        for arguments in kind.proposals(known, targets) if known else kind.blind:
            transform = Transform(kind.name, arguments)
            if _makes(transform, len(sources), known, targets):
                yield transform


def _makes(
    transform: Transform, count: int, known: tuple[Spec, ...], targets: tuple[Shape | None, ...]
) -> bool:
    """Whether a transform of so many sources gives these targets, as far as shapes are known."""
    if transform.miscounted(count, len(targets)):
        return False
    try:
        made = _made(transform, known) if known else ()
    except WeightMapError:
        return False
    return all(shape in (None, spec.shape) for spec, shape in zip(made, targets, strict=False))


def of_relation(kind: str, given: Mapping[str, Any], sources: Sequence[Spec]) -> Transform | None:
    """The transform that does what a relation of values says; None where there is none.

    Parameters
    ----------
    kind, given
        Kind and arguments of a relation, see `Kind.relations`.
    sources : sequence of Spec
        Of the first one alone where not all are known.
    """
    for entry in KINDS.values():
        read = entry.relations.get(kind)
        arguments = None if read is None else read(given, sources[0])
        if arguments is None:
            continue
        transform = Transform(entry.name, arguments)
        try:
            transform.specs(sources)
        except WeightMapError:
            continue
        return transform
    return None


@cache
def of_troubleshooter() -> Mapping[str, Transform]:
    """By each function that TroubleShooter's json may name what it does to the values."""
    return {
        function: Transform(kind.name, arguments)
        for kind in KINDS.values()
        for arguments, function in kind.troubleshooter.items()
        if function
    }
