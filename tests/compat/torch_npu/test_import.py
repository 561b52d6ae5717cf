"""The import line alone: no framework, nothing replaced, nothing seeded."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import random, sys
random.seed(3)
before = random.getstate()
from troubleshooter_nb.compat.torch_npu.hooks import set_dump_path, seed_all, register_hook
from troubleshooter_nb.compat.torch_npu.hooks import wrap_acc_cmp_hook, wrap_checkoverflow_hook
from troubleshooter_nb.compat.torch_npu.hooks import wrap_async_datadump_hook, schedule
from troubleshooter_nb.compat.torch_npu.hooks import step_schedule
from troubleshooter_nb.compat.torch_npu.hooks.tools import compare
assert not {"torch", "mindspore"} & set(sys.modules)
assert random.getstate() == before
"""


def test_the_import_changes_nothing():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
