"""Compile the optional C loops while the package is installed; without a compiler, go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("troubleshooter_nb/metrics")
SOURCES = ("fused.c", "locate_loop.c", "relation_loop.c", "sketch_loop.c")
# No fused multiply-add and no fast math: the loop has to give the bits that numpy gives.
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class CustomBuildHook(BuildHookInterface):
    """Puts ``_fused.so`` beside its sources, and into the wheel, where a C compiler is found."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; whatever goes wrong only costs speed."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if self.target_name != "wheel" or not compiler:
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
