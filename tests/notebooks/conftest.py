"""The notebooks' working folder is `notebooks/`: their helper package is found from there."""

import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))


@pytest.fixture(scope="session")
def run_demo():
    import run_demo

    return run_demo
