"""``msprobe.mindspore``: recording networks of MindSpore, and of MSAdapter."""

from __future__ import annotations

from typing import ClassVar

from troubleshooter_nb.capture.determinism import Seeded as _Seeded
from troubleshooter_nb.compat.msprobe.debugger import PrecisionDebugger as _Debugger
from troubleshooter_nb.compat.msprobe.frameworks import MINDSPORE as _MINDSPORE
from troubleshooter_nb.compat.msprobe.frameworks import MSADAPTER as _MSADAPTER
from troubleshooter_nb.compat.msprobe.frameworks import Recorded as _Recorded
from troubleshooter_nb.compat.msprobe.frameworks import is_msadapter as _is_msadapter
from troubleshooter_nb.compat.msprobe.seeds import seed_all as _seed_all

__all__ = ["PrecisionDebugger", "seed_all"]


class PrecisionDebugger(_Debugger):
    """Records networks of MindSpore; see `debugger.PrecisionDebugger`.

    Where what is imported as ``torch`` is MSAdapter, its networks are recorded, under the names of
    torch. A network of the real torch is recorded as what it is.
    """

    framework: ClassVar[_Recorded] = _MINDSPORE

    @classmethod
    def _framework_now(cls) -> _Recorded:
        return _MSADAPTER if _is_msadapter() else cls.framework


def seed_all(
    seed: int = 1234, mode: bool = False, rm_dropout: bool = True, is_enhanced: bool = False
) -> _Seeded:
    """Seed everything, and take dropout away unless told otherwise; see `seeds.seed_all`."""
    return _seed_all(seed, mode, rm_dropout, is_enhanced)
