"""Scripts that were written for msprobe, run with only the import line changed."""

import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

from troubleshooter_nb import seed_all
from troubleshooter_nb.compat.msprobe.debugger import PrecisionDebugger

pytest.register_assert_rewrite("tests.compat.msprobe.held")

DATA = Path(__file__).parents[2] / "data"
SCRIPTS = DATA / "compat" / "msprobe" / "scripts"
SNIPPETS = DATA / "snippets" / "s003"
EXPECTED = DATA / "compat" / "msprobe" / "expected"


@pytest.fixture(autouse=True)
def no_debugger():
    """Each test has the first debugger of its process."""
    PrecisionDebugger._instance = None
    yield
    if PrecisionDebugger._instance is not None:
        PrecisionDebugger._instance._session.close()
    PrecisionDebugger._instance = None


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a script in this process, with modules from a folder `beside` it."""

    def run(script, *args, generation=None, beside=None):
        package = types.ModuleType("msprobe")
        monkeypatch.setitem(sys.modules, "msprobe", package)
        monkeypatch.setitem(sys.modules, "msprobe.pytorch", _Late("pytorch"))
        monkeypatch.setitem(sys.modules, "msprobe.mindspore", _Late("mindspore"))
        if generation:
            monkeypatch.setenv("TNB_MSPROBE_GENERATION", generation)
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, args)])
        monkeypatch.setattr(sys, "path", [str(beside or script.parent), *sys.path])
        monkeypatch.chdir(tmp_path)
        for name in ("nets_common", "nets_torch", "nets_ms", "s003_nets"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        if "mindspore" in sys.modules:  # another test may have computed here: too late to choose
            monkeypatch.setattr("mindspore.set_device", lambda *device: None)
        # What the script seeds, and that it takes dropout away, ends with it.
        with seed_all(rm_dropout=True):
            return runpy.run_path(str(script), run_name="__main__")

    return run


@pytest.fixture
def run_alone(tmp_path):
    """Runs a script in a process of its own, with modules from a folder `beside` it."""

    def run(script, *args, generation, beside=""):
        (tmp_path / "msprobe").mkdir()
        (tmp_path / "msprobe" / "__init__.py").write_text("")
        for name in ("pytorch", "mindspore"):
            home = f"troubleshooter_nb.compat.msprobe.{name}"
            line = f"from {home} import PrecisionDebugger, seed_all\n"
            (tmp_path / "msprobe" / f"{name}.py").write_text(line)
        root = Path(__file__).parents[3]
        given = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(beside), str(tmp_path), str(root), given)))
        variables = {**os.environ, "PYTHONPATH": path, "TNB_MSPROBE_GENERATION": generation}
        command = [sys.executable, str(script), *map(str, args)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def net(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.fixture
def debugger(tmp_path):
    """Makes debuggers that write below ``dump``; keys of a task may be given."""
    from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

    def debugger(
        task="statistics", level="mix", generation=None, top=None, operators=None, **of_task
    ):
        config = tmp_path / f"config{len(os.listdir(tmp_path))}.json"
        said = {"dump_path": str(tmp_path / "dump"), **(top or {}), task: of_task}
        config.write_text(json.dumps(said))
        given = {"generation": generation, "operators": operators}
        return PrecisionDebugger(str(config), task=task, level=level, **given)

    return debugger


def learn(debugger, net, torch, steps=1):
    for step in range(steps):
        debugger.start(model=net)
        net(torch.full((2, 3), float(step + 1))).sum().backward()
        debugger.stop()
        debugger.step()


def data_of(tmp_path, place="step0/rank"):
    return dumps_in(tmp_path / "dump")[place]["dump"]["data"]


# Orders of the calls


class _Late(types.ModuleType):
    """A module that is looked up when something of it is asked for."""

    def __init__(self, framework):
        super().__init__(f"msprobe.{framework}")
        self._framework = framework

    def __getattr__(self, name):
        from importlib import import_module

        module = import_module(f"troubleshooter_nb.compat.msprobe.{self._framework}")
        return getattr(module, name)


def dumps_in(folder):
    """Documents by step and rank, as the expected ones are stored."""
    found = {}
    for file in sorted(folder.glob("step*/*/*.json")):
        rank = file.parent.name if file.parent.name.startswith("rank") else "proc"
        content = json.loads(file.read_text())
        found.setdefault(f"{file.parent.parent.name}/{rank}", {})[file.stem] = content
    return found


def expected_of(release, name):
    """What the tool itself wrote: documents by step and rank."""
    return json.loads((EXPECTED / release / f"{name}.json").read_text())
