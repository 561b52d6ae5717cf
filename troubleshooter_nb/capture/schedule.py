"""Which steps of a run are recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.messages import Message


@dataclass(frozen=True)
class Schedule:
    """Steps from `begin` to `end`, both included, every `stride`-th of them.

    Parameters
    ----------
    begin : int
        The first step, counted from 0.
    end : int, optional
        The last one, itself included; default none.
    stride : int
        Distance of two recorded steps, from 1.

    Raises
    ------
    ValueError
        For a negative step, an end before the beginning, or a stride below 1.
    TypeError
        For anything but whole numbers.

    Notes
    -----
    Source: the schedule of torch_npu.hooks, whose end is included too.
    """

    begin: int = 0
    end: int | None = None
    stride: int = 1

    def __post_init__(self) -> None:
        for name, value in (("begin", self.begin), ("end", self.end), ("stride", self.stride)):
            if isinstance(value, bool) or not isinstance(value, int | None):
                raise ArgumentTypeError(Message("recorder.no_step", name=name, given=repr(value)))
        if self.begin < 0 or self.stride < 1 or (self.end is not None and self.end < self.begin):
            facts = {"begin": self.begin, "end": self.end, "stride": self.stride}
            raise ArgumentError(Message("recorder.schedule", **facts))

    def __contains__(self, step: object) -> bool:
        """Whether a step is recorded."""
        if not isinstance(step, int) or step < self.begin:
            return False
        return (self.end is None or step <= self.end) and not (step - self.begin) % self.stride


Steps = None | int | Schedule | Collection[int] | Callable[[int], bool]


def is_recorded(steps: Steps) -> Callable[[int], bool]:
    """The question whether a step is recorded, of any way to say which are.

    Raises
    ------
    TypeError
        For anything but a number, a `Schedule`, a range or other collection of numbers, a function
        or None, which means every step.
    """
    if steps is None:
        return lambda step: True
    if callable(steps):
        return lambda step: bool(steps(step))
    wanted: Any = steps
    if isinstance(steps, int) and not isinstance(steps, bool):
        wanted = (steps,)
    elif not isinstance(steps, Schedule) and (
        isinstance(steps, str | bytes | bool) or not isinstance(steps, Collection)
    ):
        raise ArgumentTypeError(Message("recorder.steps_kind", given=repr(steps)))
    return lambda step: step in wanted
