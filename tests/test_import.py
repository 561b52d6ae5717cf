"""`import troubleshooter_nb` loads nothing, all of its names no framework, pyplot or Jupyter."""

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
ARRAYS = ["numpy", "pandas", "xarray"]


def heavy_modules_after(statement: str, *others: str) -> list[str]:
    """Which heavy modules, and which others, a fresh interpreter has loaded after a statement."""
    names = [*HEAVY, *others]
    program = f"{statement}\nimport sys\nprint(*(name for name in {names} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    assert heavy_modules_after("import troubleshooter_nb", *ARRAYS) == []


def test_importing_every_name_of_the_package_loads_nothing_heavy():
    assert heavy_modules_after("from troubleshooter_nb import *") == []


def test_a_first_comparison_does_not_import_dask_to_ask_whether_arrays_are_of_it():
    compared = "import numpy, troubleshooter_nb as tnb; one = {'a': numpy.ones(3)};"
    compared += "other = {'a': numpy.zeros(3)}; cmp = tnb.compare(one, other); repr(cmp);"
    assert heavy_modules_after(f"{compared} str(cmp.explain())") == []


def test_a_heavy_import_is_noticed():
    assert heavy_modules_after("import troubleshooter_nb.dump", *ARRAYS) == ARRAYS
    assert heavy_modules_after("import troubleshooter_nb, nbformat") == ["nbformat"]
