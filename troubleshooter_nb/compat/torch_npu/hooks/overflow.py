"""Stops at the first operator whose result is not finite, and writes down what it was."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from troubleshooter_nb.compat.torch_npu.hooks.calls import Leaf, Passed
from troubleshooter_nb.compat.torch_npu.hooks.dump_file import append_text, line_text
from troubleshooter_nb.compat.torch_npu.hooks.refusals import OverflowStopError
from troubleshooter_nb.compat.torch_npu.hooks.tensors import SeenTensor
from troubleshooter_nb.messages import Message

_PACKAGE = __name__.partition(".")[0]
_NEGATIVE = {-np.inf}


class OverflowWriter:
    """Raises after the first pass whose result is not finite; see `wrap_checkoverflow_hook`."""

    def write(self, passed: Passed) -> None:
        """Look at a pass.

        Raises
        ------
        ValueError
            If its result is not finite: forward what it gave, backward the gradients it gave.
            Negative infinities are fine where some came in: a mask is made of them.
        """
        found, came_in = passed.outputs, passed.inputs
        if passed.is_backward:
            found, came_in = came_in, found
        kinds = _not_finite(leaf.value for leaf in found)
        given = (*(leaf.value for leaf in came_in), *passed.named)
        if not kinds or (kinds == _NEGATIVE and -np.inf in _not_finite(given)):
            return
        path = _free_path(datetime.now(timezone.utc))
        append_text(path, "".join((*_stack_lines(passed.label), *_value_lines(passed))))
        raise OverflowStopError(Message("torch_npu_hooks.overflow", label=passed.label, path=path))


def _not_finite(values: Iterable[Any]) -> set[float]:
    """Which of NaN, inf and -inf there are in tensors and numbers; NaN as 0."""
    return {kind for value in values for kind in _kinds(value)}


def _kinds(value: Any) -> set[float]:
    values = value.array if isinstance(value, SeenTensor) else np.asarray(value)
    if isinstance(value, SeenTensor) and value.dtype.startswith(("float8", "bfloat")):
        values = values.astype(np.float32)
    if values.dtype.kind not in "fc" or np.isfinite(values).all():
        return set()
    parts = [part[~np.isfinite(part)] for part in (values.real, values.imag)]
    return {float(one) if np.isinf(one) else 0.0 for part in parts for one in np.unique(part)}


def _free_path(now: datetime) -> str:
    """A file of the working directory, named after the time; a later one where that is taken."""
    while True:
        path = os.path.abspath(f"Overflow_info_{now:%Y%m%d_%H%M%S}.pkl")
        if not os.path.lexists(path):
            return path
        now += timedelta(seconds=1)


def _stack_lines(label: str) -> Iterator[str]:
    """The frames of the user's call, innermost first, as texts of Python's frame records."""
    frames = [
        frame
        for frame in inspect.stack()
        if frame.frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE
    ]
    for number, frame in enumerate(frames):
        yield json.dumps([f"{label}_stack_info.{number}", str(frame)]) + "\n"


def _value_lines(passed: Passed) -> Iterator[str]:
    """All values of every tensor, and what is no tensor as it is."""
    sides: tuple[tuple[str, Sequence[Leaf]], ...]
    sides = ("input", passed.inputs), ("output", passed.outputs)
    for word, leaves in sides:
        for position, value in leaves:
            name = f"{passed.label}_{word}{position}"
            if isinstance(value, SeenTensor):
                yield line_text(name, value.all_values, value)
            else:
                yield json.dumps([name, value]) + "\n"
