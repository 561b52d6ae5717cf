"""The import line alone: no framework, no change of anybody's logging or numpy settings."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging, sys
import numpy as np
before = np.geterr()
import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.compat.troubleshooter import migrator, widget
from troubleshooter_nb.compat.troubleshooter.migrator import compare_npy_dir
assert ts.migrator is migrator
assert ts.widget is widget
assert not {"torch", "mindspore", "tqdm", "prettytable"} & set(sys.modules)
assert np.geterr() == before
assert logging.getLogger().handlers == []
assert logging.getLogger("troubleshooter.log").handlers == []
"""


def test_the_import_changes_nothing():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
