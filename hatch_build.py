"""Put the templates into the wheel, and the optional C loops, where there is a compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("troubleshooter_nb/metrics")
SOURCES = ("fused.c", "locate_loop.c", "relation_loop.c", "sketch_loop.c")
# No fused multiply-add and no fast math: the loop has to give the bits that numpy gives.
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
# Where `troubleshooter_nb/templates/shipped.py` looks for them first.
SHIPPED = "troubleshooter_nb/templates/notebooks"


def shipped(notebooks: Path) -> Iterator[Path]:
    """What of ``notebooks/`` belongs into the wheel: templates, the networks of their examples."""
    for path in sorted(notebooks.glob("[!.]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if not any(cell.get("outputs") for cell in cells):  # a record that lies there is none
            yield path
    for path in sorted((notebooks / "example_nets").rglob("*")):
        parts = path.relative_to(notebooks).parts
        is_left_over = path.suffix == ".pyc" or path.name.endswith("~")
        is_hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        if path.is_file() and not is_left_over and not is_hidden:
            yield path


class CustomBuildHook(BuildHookInterface):
    """Adds to the wheel what is not in the package's folder as it lies in the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the templates and the loops; an editable install finds the templates itself."""
        if self.target_name != "wheel":
            return
        if version == "standard":
            notebooks = Path(self.root) / "notebooks"
            for path in shipped(notebooks):
                place = f"{SHIPPED}/{path.relative_to(notebooks).as_posix()}"
                build_data["force_include"][str(path)] = place
        self._compile(build_data)

    def _compile(self, build_data: dict[str, Any]) -> None:
        """Put ``_fused.so`` beside its sources; whatever goes wrong only costs speed."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            return
        folder = Path(self.root) / FOLDER
        library = folder / "_fused.so"
        # Put in place at once: two environments may be installed from this folder side by side.
        made = library.with_name(f"_fused_{os.getpid()}.so")
        sources = [str(folder / source) for source in SOURCES]
        command = [*compiler.split(), *FLAGS, "-shared", "-fPIC", *sources, "-o", str(made)]
        done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
        if done.returncode:
            self.app.display_warning(f"the optional loops were not compiled: {done.stderr[-500:]}")
            return
        made.replace(library)
        build_data["artifacts"].append(f"/{FOLDER}/_fused.so")
        # Plain C called through ctypes: any Python 3 of this platform.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
