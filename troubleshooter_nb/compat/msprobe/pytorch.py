"""``msprobe.pytorch``: recording networks of torch."""

from __future__ import annotations

from typing import ClassVar

from troubleshooter_nb.compat.msprobe.debugger import PrecisionDebugger as _Debugger
from troubleshooter_nb.compat.msprobe.frameworks import TORCH as _TORCH
from troubleshooter_nb.compat.msprobe.frameworks import Recorded as _Recorded
from troubleshooter_nb.compat.msprobe.others import module_dump, module_dump_end, monitor
from troubleshooter_nb.compat.msprobe.others import random_save as random_save
from troubleshooter_nb.compat.msprobe.seeds import seed_all

__all__ = ["PrecisionDebugger", "module_dump", "module_dump_end", "monitor", "seed_all"]


class PrecisionDebugger(_Debugger):
    """Records networks of torch; see `debugger.PrecisionDebugger`."""

    framework: ClassVar[_Recorded] = _TORCH
