"""Which steps are dumped, and the one counter of steps.

`step` and `reset_step` are called as ``step_schedule.step()`` and ``step_schedule.reset_step()``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from troubleshooter_nb.capture.schedule import Schedule
from troubleshooter_nb.compat.torch_npu.hooks.refusals import RefusedError
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import message_of

step_num = 0

# What is called when the counter changes, with the step.
_followers: list[Callable[[int], None]] = []


def schedule(begin: int = 0, end: int = sys.maxsize, stride: int = 1) -> Callable[[int], bool]:
    """A function that says of a step whether it is dumped, for ``register_hook(schedule=...)``.

    Parameters
    ----------
    begin, end : int
        The first and the last step, both included, counted from 0.
    stride : int
        Distance of two steps, from 1: ``schedule(4, 10, 2)`` are steps 4, 6, 8 and 10.

    Raises
    ------
    RuntimeError
        For a negative step, an end before the beginning, or a stride below 1; a ValueError too.
    TypeError
        For anything but whole numbers.
    """
    try:
        wanted = Schedule(begin, end, stride)
    except ArgumentError as error:
        raise RefusedError(message_of(error)) from None
    return lambda step: step in wanted


def step() -> None:
    """Say that a step of the training is over: the counter is one more."""
    _set(step_num + 1)


def reset_step() -> None:
    """Have the counter at 0, as at the start of an epoch."""
    _set(0)


def follow(receive: Callable[[int], None]) -> None:
    """Have a function called with each new step, until `unfollow`."""
    _followers.append(receive)


def unfollow(receive: Callable[[int], None]) -> None:
    """Call a function no more; twice does no harm."""
    if receive in _followers:
        _followers.remove(receive)


def _set(number: int) -> None:
    global step_num
    step_num = number
    for receive in tuple(_followers):
        receive(number)
