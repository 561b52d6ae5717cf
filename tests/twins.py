"""Two dumps of one transformer, with each framework's names, as msprobe 26.2.0 wrote them.

The notebooks carry them in an archive, so the tests need no second copy of their 252 files. Both
are level L0 with tensors, PyTorch 2.13 and MindSpore 2.10 (PyNative) on CPU: one step, one process,
125 tensors a side.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

ARCHIVE = (
    Path(__file__).parents[1] / "notebooks" / "example_nets" / "bundled" / "transformer_twins.zip"
)

_FOLDER = tempfile.TemporaryDirectory(prefix="twins")  # goes with the process
with zipfile.ZipFile(ARCHIVE) as _archive:
    _archive.extractall(_FOLDER.name)
MINDSPORE, TORCH = (
    (Path(_FOLDER.name) / framework).rename(Path(_FOLDER.name) / run)
    for framework, run in (("mindspore", "m_tfr_L0_tensor"), ("torch", "t_tf_L0_tensor"))
)
