"""What a replay needs from a framework: to call one layer as it was called, and leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

Numbers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Conditions:
    """What a layer is called under; None leaves things as they are.

    Attributes
    ----------
    training : mapping of int to bool
        By `id` of a layer, itself or inside, the mode it has.
    values : mapping of int to ndarray
        By `id` of a parameter or buffer, what it holds, of its shape; the others are as they are.
    gradients : bool or None
    autocast : str or None
        Its dtype, "" for none.
    random : ndarray or None
        The state of the generator of the host.
    dtype : str
        "float64" where everything is computed in that; else each tensor has its own.
    """

    training: Mapping[int, bool] = field(default_factory=dict)
    values: Mapping[int, np.ndarray] = field(default_factory=dict)
    gradients: bool | None = None
    autocast: str | None = None
    random: np.ndarray | None = None
    dtype: str = ""


class Called(NamedTuple):
    """What a layer gave, and whether it drew random numbers that the framework knows of."""

    output: Any
    drew: bool


class Replaying(Protocol):
    """One framework as a replay sees it."""

    def inside(self, layer: Any) -> Sequence[Any]:
        """A layer and all layers in it, each once."""

    def tensor_like(
        self, layer: Any, array: np.ndarray, strides: Sequence[int] = (), dtype: str = ""
    ) -> Any:
        """A new tensor of these values where the layer's are, with these strides in elements.

        `dtype` is what floating-point values are cast to, as numpy or ml_dtypes spells it.
        """

    def plain_value(self, kind: str, text: str) -> Any:
        """What a record says in words: a ``dtype``, ``device``, ``slice`` and the like.

        Raises
        ------
        ValueError
            If this framework has no such thing.
        """

    def lead_dtype(self, layer: Any) -> str:
        """Dtype of the first floating-point tensor of a layer or one inside; "" without any."""

    def call(
        self,
        layer: Any,
        given: Callable[[], tuple[Sequence[Any], Mapping[str, Any]]],
        conditions: Conditions,
    ) -> Called:
        """Call a layer under conditions; then it and the framework are as they were before.

        Values, modes, attributes and generators come back however the call ends. `given` makes
        the arguments, once the conditions hold. Hooks of the user run.

        Raises
        ------
        Exception
            What the layer raises.
        """
