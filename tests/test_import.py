"""`import troubleshooter_nb` is light: it loads no framework, no pyplot and no Jupyter."""

from __future__ import annotations

import subprocess
import sys

HEAVY = [
    "torch",
    "mindspore",
    "matplotlib.pyplot",
    "ipywidgets",
    "anywidget",
    "IPython",
    "nbformat",
    "dask",
]


def heavy_modules_after(statement: str) -> list[str]:
    """Which of the heavy modules a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    assert heavy_modules_after("import troubleshooter_nb") == []


def test_a_heavy_import_is_noticed():
    assert heavy_modules_after("import troubleshooter_nb, nbformat") == ["nbformat"]
