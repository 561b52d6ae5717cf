"""The calls of ``torch_npu.hooks`` under their old names, with the files they wrote.

``from troubleshooter_nb.compat.torch_npu.hooks import register_hook, ...`` takes the place of
``from torch_npu.hooks import ...``; the rest of the script stays. It runs on every device of torch,
and nothing is replaced before `register_hook` is called. ``compare`` is in `tools`.
"""

from troubleshooter_nb.compat.torch_npu.hooks import step_schedule
from troubleshooter_nb.compat.torch_npu.hooks.dump_file import set_dump_path
from troubleshooter_nb.compat.torch_npu.hooks.registration import (
    register_hook,
    wrap_acc_cmp_hook,
    wrap_async_datadump_hook,
    wrap_checkoverflow_hook,
)
from troubleshooter_nb.compat.torch_npu.hooks.seeds import seed_all
from troubleshooter_nb.compat.torch_npu.hooks.step_schedule import schedule

__all__ = [
    "register_hook",
    "schedule",
    "seed_all",
    "set_dump_path",
    "step_schedule",
    "wrap_acc_cmp_hook",
    "wrap_async_datadump_hook",
    "wrap_checkoverflow_hook",
]
