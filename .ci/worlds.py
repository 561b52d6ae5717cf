"""Run the tests in another world: another Python, other releases, one framework or none.

`make worlds` says which there are, `make worlds WORLD=minimum` runs one; README.md beside this file
has what was seen. Standard library only. An environment is made once, in `.venv-NAME`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class World(NamedTuple):
    """A Python, what is installed beside the project, and which tests make sense there."""

    python: str
    extras: str
    wants: tuple[str, ...]
    tests: tuple[str, ...] = ()
    is_core: bool = False


WORLDS = {
    "minimum": World("3.10", "excel,netcdf,test", ("-c", "constraints/minimum.txt"), is_core=True),
    "newest": World("3.13", "excel,netcdf,test", ("--upgrade",), is_core=True),
    "torch": World("3.11", "excel,netcdf,test", ("torch==2.13.0", "numpy>=2"), ("-m", "torch")),
    "mindspore": World(
        "3.12", "mindspore,excel,netcdf,test", ("mindspore==2.10.0",), ("-m", "mindspore")
    ),
    "oldest-mindspore": World(
        "3.10", "mindspore,excel,netcdf,test", ("mindspore==2.7.0",), ("-m", "mindspore")
    ),
}


def python_of(version: str) -> str:
    """The interpreter of a version: on the path, or of pyenv."""
    name = f"python{version}"
    for path in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/{name}")):
        return str(path)
    if found := shutil.which(name):
        return found
    sys.exit(f"no {name} here: install it, or take another world")


def made(name: str, world: World) -> Path:
    """The Python of a world's environment, installed where it is not yet."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():
        subprocess.run([python_of(world.python), "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--prefer-binary"]
        subprocess.run([*pip, *world.wants, "-e", f".[{world.extras}]"], cwd=ROOT, check=True)
        stamp.touch()
    return python


def main(name: str = "", *more: str) -> int:
    """Make a world and run its tests, with `more` words for pytest; without a name list them."""
    if name not in WORLDS:
        for known, world in WORLDS.items():
            print(f"{known:18}Python {world.python}, {' '.join(world.wants)}")
        return 2 if name else 0
    world = WORLDS[name]
    python = made(name, world)
    start = time.monotonic()
    switches = {"TNB_CORE": "1"} if world.is_core else {}
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *world.tests, *more]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | switches, check=False).returncode
    print(f"{name}: {time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
