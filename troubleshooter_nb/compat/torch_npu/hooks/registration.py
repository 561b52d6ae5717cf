"""``register_hook`` of the old tool, and the three hooks it takes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, NoReturn

from troubleshooter_nb import frameworks
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.compat.torch_npu.hooks import step_schedule
from troubleshooter_nb.compat.torch_npu.hooks.calls import Writer, recorder_of
from troubleshooter_nb.compat.torch_npu.hooks.overflow import OverflowWriter
from troubleshooter_nb.compat.torch_npu.hooks.refusals import NoNetworkError, RefusedError
from troubleshooter_nb.compat.torch_npu.hooks.seeds import seed_all
from troubleshooter_nb.compat.torch_npu.hooks.writers import ArrayWriter, LineWriter
from troubleshooter_nb.errors import (
    ArgumentTypeError,
    NotOfferedError,
    OptionError,
    TroubleshooterWarning,
)
from troubleshooter_nb.messages import Message, told

_CAPACITIES = range(3, 2049)
_KEYWORDS = ("seed", "sample", "schedule", "path", "capacity")


def wrap_acc_cmp_hook(*args: object, **kwargs: object) -> NoReturn:
    """For `register_hook`: write a line of each tensor to the file of `set_dump_path`."""
    _refuse("wrap_acc_cmp_hook")


def wrap_async_datadump_hook(*args: object, **kwargs: object) -> NoReturn:
    """For `register_hook`: write a ``.npy`` of each tensor to the folder `path`."""
    _refuse("wrap_async_datadump_hook")


def wrap_checkoverflow_hook(*args: object, **kwargs: object) -> NoReturn:
    """For `register_hook`: raise ValueError at the first operator whose result is not finite.

    What it was given and gave, with the call stack, is in ``Overflow_info_<time>.pkl`` of the
    working directory.
    """
    _refuse("wrap_checkoverflow_hook")


def _refuse(name: str) -> NoReturn:
    raise NotOfferedError(Message("torch_npu_hooks.hook_called", name=name))


class Hooks:
    """Hooks that are registered, until `remove` or until others are; a context manager."""

    def __init__(
        self, name: str, recorder: Recorder, enabled: Callable[[int], bool] | None
    ) -> None:
        self._name, self._recorder, self._enabled = name, recorder, enabled

    def install(self) -> None:
        """Have torch's functions tell of their calls, in the steps that are enabled."""
        self._begin_step(step_schedule.step_num)
        self._recorder.install()
        step_schedule.follow(self._begin_step)

    def _begin_step(self, step: int) -> None:
        self._recorder.step = step
        self._recorder.is_paused = self._enabled is not None and not self._enabled(step)

    def remove(self) -> None:
        """Have torch as it was before; twice does no harm."""
        step_schedule.unfollow(self._begin_step)
        self._recorder.remove()

    def __enter__(self) -> Hooks:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        """Which hook, and whether it is in place."""
        state = "in place" if self._recorder.is_installed else "removed"
        return f"<{self._name}, {state}>"


_hooks: Hooks | None = None


def register_hook(
    model: Any,
    hook: Callable[..., Any],
    *,
    seed: int = 1234,
    sample: bool = True,
    schedule: Callable[[int], bool] | None = None,
    path: str | PathLike[str] = "./",
    capacity: int = 3,
    **unknown: object,
) -> Hooks:
    """Seed everything and have one of the three hooks see every operator of torch that is listed.

    Parameters
    ----------
    model : torch.nn.Module
        Is not used any further: operators are seen wherever they are called.
    hook : function
        `wrap_acc_cmp_hook`, `wrap_async_datadump_hook` or `wrap_checkoverflow_hook`.
    seed : int
        As in `seed_all`, which is called.
    sample : bool
        Lines hold the first ten values, the largest, the smallest and the mean; False: all values.
    schedule : function of int, optional
        Whether a step is dumped, such as `schedule` makes one; default every step. It is asked
        when the step begins, see `step_schedule`. Not for overflow, which is always looked for.
    path : str or path-like
        Folder of the arrays, created if need be.
    capacity : int, 3 to 2048
        Of the queue of the old asynchronous dump; without effect here.
    **unknown
        Refused.

    Returns
    -------
    Hooks
        A context manager. Leaving it, or ``.remove()``, takes the hooks off; so does the next
        `register_hook`.

    Raises
    ------
    AssertionError
        If `model` is no network; a TypeError too.
    RuntimeError
        For a `capacity` out of range; a ValueError too.
    TypeError, ValueError
        For another hook, an unknown keyword, or a wrong seed. Nothing is changed then.
    FrameworkMissingError
        If torch is not installed.

    Warns
    -----
    TroubleshooterWarning
        Once per process, that the asynchronous dump writes at once.

    Notes
    -----
    Differences to the old tool are listed in the documents of this package. The most important:
    what operators are given is read before the call, so that those that work in place show what
    they were given.
    """
    global _hooks
    if not callable(getattr(model, "named_modules", None)):
        raise NoNetworkError(Message("torch_npu_hooks.no_network", type=type(model).__name__))
    if unknown:
        said = {"call": "register_hook", "names": [*unknown], "known": ", ".join(_KEYWORDS)}
        raise OptionError(Message("compat.unknown_argument_of", **said))
    if schedule is not None and not callable(schedule):
        raise ArgumentTypeError(Message("torch_npu_hooks.no_schedule", given=repr(schedule)))
    adapter = frameworks.recording_of(frameworks.require("torch"))
    writer = _writer_of(hook, sample=bool(sample), path=path, capacity=capacity)
    seed_all(seed)
    if _hooks is not None:
        _hooks.remove()
    enabled = None if hook is wrap_checkoverflow_hook else schedule
    _hooks = Hooks(hook.__name__, recorder_of(adapter, writer), enabled)
    _hooks.install()
    return _hooks


def _writer_of(
    hook: object, *, sample: bool, path: str | PathLike[str], capacity: object
) -> Writer:
    if hook is wrap_acc_cmp_hook:
        return LineWriter(sample=sample)
    if hook is wrap_checkoverflow_hook:
        return OverflowWriter()
    if hook is not wrap_async_datadump_hook:
        known = [one.__name__ for one in _HOOKS]
        raise ArgumentTypeError(Message("torch_npu_hooks.no_hook", given=repr(hook), known=known))
    if capacity not in _CAPACITIES:
        raise RefusedError(Message("torch_npu_hooks.capacity", given=repr(capacity)))
    folder = os.path.abspath(os.fspath(path))
    os.makedirs(folder, exist_ok=True)
    _warn_once()
    return ArrayWriter(folder)


_HOOKS = (wrap_acc_cmp_hook, wrap_async_datadump_hook, wrap_checkoverflow_hook)
_has_warned = False


def _warn_once() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        text = Message("torch_npu_hooks.not_asynchronous")
        warnings.warn(told(text), TroubleshooterWarning, stacklevel=4)
