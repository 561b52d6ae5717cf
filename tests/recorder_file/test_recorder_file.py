"""The single file of the recorder: what it writes is what the package writes, with nothing else."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb
from tests.recorder_file import programs
from troubleshooter_nb.recorder_file import bundle

OLD_PYTHON = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("bare") / "tnb_record.py"
    path.write_text(bundle.recorder_file(), encoding="utf-8")
    return path


def recorded(file, program, *words):
    """What a process prints that has the file, numpy and the framework."""
    script = file.with_name("program.py")
    script.write_text(programs.BLOCKED + program + programs.BY_FILE, encoding="utf-8")
    command = [sys.executable, str(script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def by_package(program, *words):
    """The same recording by the package."""
    names = {"__name__": "program"}
    exec(compile(program, "program.py", "exec"), names)
    names["run"](tnb.record, *words)


def events(folder):
    """What a recording says, without when and by what it was made."""
    lines = (folder / "rank0" / "index.jsonl").read_text(encoding="utf-8").splitlines()
    said = [json.loads(line) for line in lines]
    assert said[0]["header"].pop("card")["python"]
    return [{k: v for k, v in one.items() if k not in ("stack", "text", "stacks")} for one in said]


def assert_same_recording(ours, theirs, has_values):
    left, right = tnb.open_dump(ours), tnb.open_dump(theirs)
    one, other = (dump.to_dataframe().drop(columns="stack") for dump in (left, right))
    pd.testing.assert_frame_equal(one, other, rtol=1e-12)
    assert left.notes == right.notes
    said = [[e for e in events(of) if "statistics" not in e] for of in (ours, theirs)]
    assert [len(one) for one in said] == [len(said[1])] * 2
    for step in sorted(set(one["step"])):
        mine, its = left.select(step=step), right.select(step=step)
        values = {name: bits(mine, name) for name in mine.names}
        assert values == {name: bits(its, name) for name in its.names}
        assert any(values.values()) == has_values


def bits(dump, name):
    """The bytes of an entry; nothing of one without values."""
    try:
        return dump.array(name).tobytes()
    except tnb.TroubleshooterError:
        return b""


HOW = (("both", "tensor"), ("module", "statistics"))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(programs.TORCH, marks=pytest.mark.torch, id="torch"),
        pytest.param(programs.MINDSPORE, marks=pytest.mark.mindspore, id="mindspore"),
    ],
)
def test_it_writes_what_the_package_writes(file, tmp_path, program):
    said = recorded(file, program, tmp_path / "bare", *(word for pair in HOW for word in pair))
    assert f"recording in {tmp_path / 'bare_tensor'}: stopped, " in said
    assert "open it with troubleshooter_nb: tnb.open_dump('bare_statistics')" in said
    for level, keep in HOW:
        by_package(program, tmp_path / f"whole_{keep}", level, keep)
        ours, theirs = tmp_path / f"bare_{keep}", tmp_path / f"whole_{keep}"
        assert_same_recording(ours, theirs, keep == "tensor")
    kinds = set(tnb.open_dump(tmp_path / "bare_tensor").to_dataframe()["dtype"])
    small = {"float8_e5m2", "float8_e4m3fn"} if program is programs.TORCH else set()
    assert {"float32", "bfloat16", *small} <= kinds


@pytest.mark.torch
def test_what_is_wrong_is_said_as_the_package_says_it(file, tmp_path):
    script = file.with_name("wrong.py")
    script.write_text(
        programs.BLOCKED
        + "import torch, tnb_record\n"
        + "for words in ({'level': 'all'}, {'names': 'fc9'}, {'keep': 'mean'}):\n"
        + "    try:\n"
        + "        tnb_record.record(torch.nn.Linear(2, 2), to='x', **words).start()\n"
        + "    except (ValueError, KeyError) as error:\n"
        + "        print(type(error).__name__, error)\n"
        + "try:\n"
        + "    import tnb_record.analysis\n"
        + "except ImportError as error:\n"
        + "    print(error)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    level, names, keep, left_out = done.stdout.splitlines()
    assert level == "ArgumentError level is one of ('module', 'api', 'both'), got 'all'"
    assert names.startswith("EntryNotFoundError no layer is called 'fc9'")
    assert keep.startswith(
        "ArgumentError keep is one of ('tensor', 'sample', 'statistics', 'digest')"
    )
    assert left_out == (
        "tnb_record only records. Copy the folder to where troubleshooter_nb is installed, and "
        "open it there: troubleshooter_nb.open_dump(folder)"
    )


@pytest.mark.torch
def test_beside_ones_own_code_it_is_a_module_as_any_other(file, tmp_path):
    package = tmp_path / "own" / "tools"
    package.mkdir(parents=True)
    (tmp_path / "own" / "__init__.py").touch()
    (package / "__init__.py").write_text("from .recorder import record\n")
    (package / "recorder.py").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    program = (
        programs.BLOCKED + "import torch\nfrom own.tools import record\n"
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2))\n"
        "with record(net, to='run') as rec:\n    net(torch.ones(1, 2))\n"
        "print(rec)\nhelp(record)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "recording in run: stopped, 2 calls\n- (whole net): no gradient" in done.stdout
    # Nobody there can look it up in the package.
    assert "keep : {" in done.stdout
    assert "As `troubleshooter_nb.record` takes them" not in done.stdout
    assert tnb.open_dump(tmp_path / "run").names


@pytest.mark.torch
def test_as_a_program_it_says_what_it_can_do_here(file):
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, cwd=file.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *frameworks = done.stdout.splitlines()
    assert first.startswith(f"recorder of troubleshooter_nb {tnb.__version__} under Python 3.")
    assert any(line.startswith("- torch 2.") for line in frameworks)


def test_it_is_written_for_python_3_9_and_needs_numpy_alone(file):
    text = file.read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))
    names = {}
    head = ast.Module([n for n in ast.parse(text).body if _is_source(n)], [])
    exec(compile(head, "sources", "exec"), names)
    wanted = set()
    for name, source in names["_SOURCES"].items():
        tree = ast.parse(source, name, feature_version=(3, 9))
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Match)
            _assert_old(node, name)
        lasting = [n for n in tree.body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        for node in (inner for statement in lasting for inner in ast.walk(statement)):
            if isinstance(node, ast.Import):
                wanted |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                wanted.add(node.module.partition(".")[0])
    assert wanted - sys.stdlib_module_names - {"__future__"} <= {
        *("numpy", "torch", "mindspore", "ml_dtypes")
    }
    # Every sentence that is mentioned is there.
    tables = {}
    for name, source in names["_SOURCES"].items():
        if name.startswith("messages.") and name != "messages.sentences":
            exec(source, found := {})
            tables[name.partition(".")[2]] = found["MESSAGES"]
    for source in names["_SOURCES"].values():
        for subject, key in re.findall(r'"(\w+)\.(\w+)"', source):
            assert subject not in tables or key in tables[subject], (subject, key)
    # Chosen parts, not the package: what shows and compares is no part of it.
    assert "render.text" not in names["_SOURCES"]
    assert len(text) < 400_000


def _is_source(node):
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    root = target.value if isinstance(target, ast.Subscript) else target
    return getattr(root, "id", "") == "_SOURCES"


def _assert_old(node, name):
    """Nothing that Python 3.9 refuses when it runs."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    words = {keyword.arg for keyword in node.keywords}
    assert not (node.func.id == "zip" and "strict" in words), name
    assert not (node.func.id == "dataclass" and {"slots", "kw_only"} & words), name
    if node.func.id in ("isinstance", "issubclass"):
        assert not isinstance(node.args[1], ast.BinOp), name


@pytest.mark.parametrize("python", OLD_PYTHON, ids=lambda path: path.parts[-3])
def test_an_old_python_takes_every_module(file, python, tmp_path):
    program = (
        "import ast, sys\n"
        "tree = ast.parse(open(sys.argv[1], encoding='utf-8').read())\n"
        "count = 0\n"
        "for node in tree.body:\n"
        "    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):\n"
        "        compile(node.value.value, 'module', 'exec')\n"
        "        count += 1\n"
        "print(count)\n"
    )
    done = subprocess.run(
        [python, "-c", program, file], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_what_is_there_is_written_by_the_command(tmp_path, monkeypatch, capfdbinary):
    from troubleshooter_nb.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(["recorder", "-o", "tnb_record.py"]) == 0
    written = (tmp_path / "tnb_record.py").read_bytes()
    capfdbinary.readouterr()
    assert main(["recorder"]) == 0
    assert capfdbinary.readouterr().out == written
    assert main(["recorder", "-o", "tnb_record.py"]) == 2
    assert b"--force" in capfdbinary.readouterr().err


def test_short_floats_mean_without_ml_dtypes_what_they_mean_with_it(monkeypatch):
    import ml_dtypes

    from troubleshooter_nb.metrics import floats

    spec = importlib.util.find_spec("troubleshooter_nb.metrics.floats")
    alone = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    spec.loader.exec_module(alone)
    assert alone.ml_dtypes is None
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn"):
        dtype = alone.small_float(name)
        bits = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
        mine = alone.computable(bits.view(dtype))
        np.testing.assert_array_equal(mine, bits.view(getattr(ml_dtypes, name)).astype(np.float32))
        assert (alone.arithmetic_of(dtype), alone.name_of(dtype)) == ("float", name)
        assert np.signbit(mine[len(bits) // 2])
    assert alone.small_float("float8_e4m3fnuz") is None
    assert floats.arithmetic_of(alone.small_float("bfloat16")) == "unsupported"
