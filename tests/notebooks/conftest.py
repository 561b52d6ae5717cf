"""The notebooks' working folder is `notebooks/`: their helper package is found from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
