"""What detectors of causes see and say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget, TooLargeError
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.floats import computable, unit_roundoff
from troubleshooter_nb.ranges import read_copy


@dataclass(frozen=True)
class TensorPair:
    """A pair of tensors, read when a detector asks for the values.

    Attributes
    ----------
    pair : int
        Number of the pair in the comparison, -1 for none.
    name : str
        As shown: ``layers.0.fc.weight``.
    role, direction, slot : str
        Of the entry: "input", "output", "parameter", "buffer"; an argument's position, or the
        name of a parameter in torch's word (``weight``, ``bias``, ``running_mean``).
    sources : tuple of ArraySource or None
        Left, right; None where a side has no values.
    rel_l2 : float
        Norm of the error over the norm of the right side; nan where not measured.
    noise : float
        The same measure of what rounding may leave there.
    bits : tuple of int
        Precision that the stored values use, 0 or less where unknown.
    figures : mapping of str to number
        What comparing measured, by the names of `columns.pairs.PAIR_FIGURES` and, of a side,
        of `metrics.summary.SUMMARY_FIGURES`; empty where nothing was.
    budget : Budget, optional
        Where reading counts, see there; default without limit.
    """

    pair: int
    name: str
    role: str = ""
    direction: str = ""
    slot: str = ""
    sources: tuple[ArraySource | None, ArraySource | None] = (None, None)
    rel_l2: float = math.nan
    noise: float = 0.0
    bits: tuple[int, int] = (0, 0)
    figures: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    budget: Budget | None = field(default=None, compare=False, repr=False)

    @property
    def left(self) -> np.ndarray | None:
        """Stored values in a dtype numpy computes with, stored shape; None without values.

        Read at every call and kept by nobody.

        Raises
        ------
        BudgetSpentError
            If the budget has no room for it.
        TooLargeError
            If it has more than `LARGEST_READ` elements: of such a tensor parts are read.
        """
        return self._values(0)

    @property
    def right(self) -> np.ndarray | None:
        """As `left`, of the reference."""
        return self._values(1)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Of left and right; None for a side without values."""
        left, right = (source.shape if source is not None else None for source in self.sources)
        return left, right

    @property
    def size(self) -> int:
        """Elements of the reference, 0 without values."""
        shape = self.shapes[1]
        return math.prod(shape) if shape is not None else 0

    @property
    def is_large(self) -> bool:
        """Whether a side is too large to be read whole."""
        sizes = [math.prod(shape) for shape in self.shapes if shape is not None]
        return max(sizes, default=0) > thresholds.LARGEST_READ

    @cached_property
    def dtypes(self) -> tuple[np.dtype | None, np.dtype | None]:
        """Stored dtypes."""
        left, right = (source.dtype if source is not None else None for source in self.sources)
        return left, right

    @property
    def floor(self) -> float:
        """What rounding to the stored dtypes leaves, or what the pair's noise allows."""
        noise = self.noise if math.isfinite(self.noise) else 0.0
        return max([noise, *(unit_roundoff(dtype) for dtype in self.dtypes if dtype is not None)])

    @property
    def differs(self) -> bool:
        """Whether the two sides are further apart than rounding explains."""
        return not self.rel_l2 <= self.noise

    def _values(self, side: int) -> np.ndarray | None:
        source = self.sources[side]
        if source is None:
            return None
        if (size := math.prod(source.shape)) > thresholds.LARGEST_READ:
            raise TooLargeError
        if self.budget is not None:
            self.budget.charge(size)
        return computable(read_copy(source, 0, size)).reshape(source.shape)


@dataclass(frozen=True)
class Call:
    """One call of a layer or operator on both sides.

    Attributes
    ----------
    word : str
        What it is, in torch's word in lower case: ``linear``, ``layernorm``, ``gelu``, ``add``.
    path : str
        Place in the network, or the operator's name.
    direction : {"forward", "backward"}
        Backward: `inputs` are the gradients of the outputs, `outputs` those of the inputs.
    inputs, outputs : tuple of TensorPair
        By position.
    parameters : mapping of str to TensorPair
        By torch's name: ``weight``, ``bias``, ``running_mean``, ``running_var``.
    settings : tuple of mapping
        What each side recorded of the layer's settings: ``eps``, ``momentum``, ``training``.
    forward : Call, optional
        Of a backward call.
    """

    word: str
    path: str
    direction: str
    inputs: tuple[TensorPair, ...]
    outputs: tuple[TensorPair, ...]
    parameters: Mapping[str, TensorPair] = field(default_factory=dict)
    settings: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    forward: Call | None = None

    @property
    def taken(self) -> tuple[list[TensorPair], dict[str, TensorPair]]:
        """Inputs and parameters that the output is computed again from.

        Of a backward call the gradient that arrives, then the inputs of the forward call.
        """
        if self.direction != "backward" or self.forward is None:
            return [*self.inputs], dict(self.parameters)
        inputs = [*self.inputs[:1], *self.forward.inputs]
        return inputs, {**self.forward.parameters, **self.parameters}

    def taking(
        self,
        output: TensorPair,
        inputs: Sequence[TensorPair],
        parameters: Mapping[str, TensorPair],
    ) -> Call:
        """The same call of other tensors, those of `taken`."""
        outputs = (output, *self.outputs[1:])
        if self.direction != "backward" or self.forward is None:
            return replace(self, inputs=tuple(inputs), outputs=outputs, parameters=parameters)
        forward = replace(self.forward, inputs=tuple(inputs[1:]))
        arrived = (*inputs[:1], *self.inputs[1:])
        return replace(
            self, inputs=arrived, outputs=outputs, parameters=parameters, forward=forward
        )


@dataclass(frozen=True)
class Suspicion:
    """A cause that a detector proposes, with what its proof leaves over.

    Attributes
    ----------
    cause : str
        Id of a cause, see `Finding.cause`.
    before, residual, rival, floor : float
        Norm of the error over the norm of the right side: with nothing undone; once the cause is
        undone; after the best other explanation that was tried (`before` where there was none);
        and what rounding alone leaves. A difference that is absent may be inf.
    evidence : mapping
        JSON-able numbers and texts that prove it and fill the sentence of the cause: messages,
        names, and words of `messages.evidence_words`.
    pair : int
        Number of the pair where it acts; -1: that of what the detector was given.
    independent : int
        How many independent values the explanation was held against, less those it fitted.
    share : float
        Of causes that act together, and whose `residual` is that of all of them undone: how much
        of the difference this one accounts for, over what the chief one does. Of one that leaves
        the same values as another: a half.
    """

    cause: str
    before: float
    residual: float
    rival: float
    floor: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    pair: int = -1
    independent: int = 1 << 20
    share: float = 1.0


@dataclass(frozen=True)
class Operands:
    """One side of a call.

    `inputs` and `output` are arrays of any real dtype numpy computes with, None where unknown;
    `parameters` by torch's names; `roundoff` is the unit roundoff of the stored output;
    `known` the recorded settings. `distance4`, of the output's shape and in [0, 1], grows with the
    distance of the two sides' outputs: samples hold the places where it is largest; None where it
    is unknown. Where not `thorough`, only the plainest ways are asked for.
    """

    inputs: Sequence[np.ndarray | None]
    parameters: Mapping[str, np.ndarray]
    output: np.ndarray
    roundoff: float
    known: Mapping[str, Any] = field(default_factory=dict)
    distance4: np.ndarray | None = None
    thorough: bool = True


@dataclass(frozen=True)
class Fit:
    """One way in which a layer may have computed an output.

    Attributes
    ----------
    settings : mapping
        What the layer did, decisive settings first: ``{"eps": 1e-05}``, ``{"form": "tanh"}``.
    residual : float
        Norm of (output - formula) over the norm of the output, in float64.
    uncertainty : mapping of str to float
        Of fitted numbers: half width, in the setting's unit, within which the residual grows by
        less than the rounding of the output. Of choices, of the best fit: see `fits.ranked`.
    open : mapping of str to tuple
        Of choices, of the best fit: other values that the output does not tell from the chosen one.
    """

    settings: Mapping[str, Any]
    residual: float
    uncertainty: Mapping[str, float] = field(default_factory=dict)
    open: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


# All ways that were tried, the best first; empty where the arrays are not this layer's.
Fitter = Callable[[Operands], list[Fit]]


def evidence_of(best: tuple[Fit, Fit], setting: str, layer: str) -> dict[str, Any]:
    """What the fits of left and right prove: the setting that decides, residuals, all settings."""
    sides = dict(zip(("left", "right"), best, strict=True))
    return {
        "setting": setting,
        "layer": layer,
        **{side: plain(fit.settings.get(setting)) for side, fit in sides.items()},
        "left_residual": best[0].residual,
        "right_residual": best[1].residual,
        **{f"{side}_settings": plain(fit.settings) for side, fit in sides.items()},
    }


def plain(value: Any) -> Any:
    """The same in numbers, texts, lists and dictionaries that JSON knows."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
