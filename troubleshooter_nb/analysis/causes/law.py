"""Laws: what a layer may have computed, as data, and the one engine that fits them to a side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Plan
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands
from troubleshooter_nb.analysis.causes.fits import factor_fits, misfit, ranked
from troubleshooter_nb.analysis.causes.parts import Part
from troubleshooter_nb.analysis.causes.sampling import Sample
from troubleshooter_nb.thresholds import UNLIKE

Direction = Literal["forward", "backward", "weight"]


@dataclass(frozen=True)
class Rather:
    """A cause that is told in place of the usual one where both sides together say so.

    `when` is asked with the fits of the left and of the right side.
    """

    cause: str
    when: Callable[[Fit, Fit], bool]
    usual: str

    def told(self, left: Fit, right: Fit) -> str:
        """The cause of these fits."""
        return self.cause if self.when(left, right) else self.usual


Cause = str | Rather


def cause_in(
    causes: Mapping[str, Cause], settings: Iterable[str], fits: tuple[Fit, Fit]
) -> tuple[str, str] | None:
    """The cause that the first known of these differing settings means, and that setting.

    Parameters
    ----------
    causes : mapping of str to Cause
        By setting.
    settings : iterable of str
        Those that differ, decisive ones first.
    fits : tuple of Fit
        Of the left and the right side.
    """
    for name in settings:
        if name in causes:
            cause = causes[name]
            return cause if isinstance(cause, str) else cause.told(*fits), name
    return None


class Way(NamedTuple):
    """One way in which a layer may have computed a sample.

    `settings` say it, `output` is what it gives there, `doubts` has the half widths of numbers.
    """

    settings: Mapping[str, Any]
    output: np.ndarray
    doubts: Mapping[str, float] = {}


@dataclass(frozen=True)
class Choice:
    """A closed list of ways, the usual first; of two that leave the same the earlier is said.

    A way is a value of the setting `name`, or, for choices of several settings that go together, a
    pair of these settings and what the formula is given.
    """

    name: str
    ways: tuple[Any, ...] | Callable[[Sample], Iterable[Any]]

    def of(self, sample: Sample) -> Iterator[tuple[Mapping[str, Any], Any]]:
        """Settings and what the formula is given, for every way."""
        for way in self.ways(sample) if callable(self.ways) else self.ways:
            is_pair = isinstance(way, tuple) and len(way) == 2 and isinstance(way[0], Mapping)
            yield way if is_pair else ({self.name: way}, way)


@dataclass(frozen=True)
class Factor:
    """A free factor in front of a formula.

    `size` gives the features that a factor is named after; without it factors have no name.
    """

    name: str
    size: Callable[[Sample], int] | None = None


@dataclass(frozen=True)
class Law:
    """How layers of one kind compute.

    Attributes
    ----------
    words : tuple of str
        What such layers are called, in torch's words in lower case.
    samples : callable
        Of `Operands`: the samples that are explained, one for each way of looking at them (along
        an axis, say); none where the arrays are not those of such a layer. Made with `sampling`.
    causes : mapping of str to Cause
        What it means where the sides differ in a setting: decisive settings first.
    choices : tuple of Choice
        All combinations are tried.
    formula : callable, optional
        Of a sample and what was chosen, by the names of the choices: the output there.
    factor : Factor, optional
        In front of the formula.
    ways : callable, optional
        Of a sample: more ways, of what is no product of choices; `Fit` of those that are rated
        already.
    refine : callable, optional
        Of the best fit and its sample: ways that are tried for that one only.
    direction : {"forward", "backward", "weight"}
        Backward: of the gradient of an input; weight: of the gradient of a weight.
    limit : float
        Residual of the best fit above which the output is not that of such a layer at all.
    is_rowwise : bool
        Whether each row of the output is computed from the same row of every input, and from
        parameters: of large calls some rows are asked first.
    plain_first : bool
        Whether the plainest ways, which most calls went, are tried alone first.
    axes : tuple of Axes, or of callables of a `Call` that give some
        How the axes of its tensors go together: a call that is too large to be read whole is
        computed again in a part. The likeliest first; that of a rowwise layer cuts rows.
    parts : callable, optional
        Of a large `Call`: parts that are cut in another way than along axes.
    """

    words: tuple[str, ...]
    samples: Callable[[Operands], Iterable[Sample]]
    causes: Mapping[str, Cause] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    formula: Callable[[Sample, Mapping[str, Any]], np.ndarray] | None = None
    factor: Factor | None = None
    ways: Callable[[Sample], Iterable[Way | Fit]] | None = None
    refine: Callable[[Fit, Sample], Iterable[Way | Fit]] | None = None
    direction: Direction = "forward"
    limit: float = UNLIKE
    is_rowwise: bool = False
    plain_first: bool = False
    axes: tuple[Plan, ...] = ()
    parts: Callable[[Call], Iterable[Part]] | None = None

    def fit(self, operands: Operands) -> list[Fit]:
        """All ways of one side, the best first; empty where none comes near."""
        fits: list[Fit] = []
        best, its_sample = math.inf, None
        # Ways that are not the layer's overflow or divide by zero, which says nothing.
        with np.errstate(all="ignore"):
            for sample in self.samples(operands):
                more = self.ways(sample) if self.ways is not None else ()
                found = [*self._chosen(sample), *_rated(more, sample)]
                fits += found
                least = min((f.residual for f in found if math.isfinite(f.residual)), default=best)
                if its_sample is None or least < best:
                    best, its_sample = least, sample
            if its_sample is None:
                return []
            if self.refine is not None and math.isfinite(best):
                first = next(fit for fit in fits if fit.residual == best)
                fits += _rated(self.refine(first, its_sample), its_sample)
        found = ranked(fits, its_sample.output.size, operands.roundoff, limit=self.limit)
        return [replace(fit, settings=self._ordered(fit.settings)) for fit in found]

    def _ordered(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Decisive settings first."""
        names = dict.fromkeys(name for name in (*self.causes, *settings) if name in settings)
        return {name: settings[name] for name in names}

    def _chosen(self, sample: Sample) -> Iterator[Fit]:
        """Every combination of choices, with its best factor."""
        if self.formula is None:
            return
        for combination in itertools.product(*(choice.of(sample) for choice in self.choices)):
            settings, chosen = dict(sample.settings), {}
            for choice, (said, value) in zip(self.choices, combination, strict=True):
                settings |= said
                chosen[choice.name] = value
            output = self.formula(sample, chosen)
            if self.factor is None:
                yield Fit(settings, misfit(sample.output, output, sample.roundoff))
            else:
                size = self.factor.size(sample) if self.factor.size else 0
                named = settings, self.factor.name, sample.roundoff, size
                yield from factor_fits(sample.output, output, *named)


def _rated(ways: Iterable[Way | Fit], sample: Sample) -> Iterator[Fit]:
    for way in ways:
        if isinstance(way, Fit):
            yield way
        else:
            settings = {**sample.settings, **way.settings}
            yield Fit(settings, misfit(sample.output, way.output, sample.roundoff), way.doubts)


@dataclass(frozen=True)
class Shared:
    """Fits of both sides that have in common what neither recorded, and the setting that differs.

    `rival` is the residual of the best other explanation.
    """

    setting: str
    fits: tuple[Fit, Fit]
    rival: float


@dataclass(frozen=True)
class Search:
    """As `Law`, of layers whose ways no list holds: `fit` searches them.

    `together` is given both sides where their own fits name no cause.
    """

    words: tuple[str, ...]
    fit: Callable[[Operands], list[Fit]]
    causes: Mapping[str, Cause] = field(default_factory=dict)
    direction: Direction = "forward"
    is_rowwise: bool = False
    plain_first: bool = False
    axes: tuple[Plan, ...] = ()
    parts: Callable[[Call], Iterable[Part]] | None = None
    together: Callable[[Operands, Operands], Shared | None] | None = None
