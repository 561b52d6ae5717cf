"""What the measurements stand on: others' arithmetic, the files they compare, the table of bars."""

import ast
import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.compat.troubleshooter.kernels import measure

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MSPROBE = Path(__file__).parent / "data" / "msprobe" / "v26_2_0" / "torch" / "t_mlp_L0_tensor"


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    # Not a package of ours: the scripts have this folder on the path as well.
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-2])
def test_the_arithmetic_of_troubleshooter_gives_its_figures(noise):
    from measuring.byhand import troubleshooter_figures

    random = np.random.default_rng(1)
    target = random.standard_normal((40, 50)).astype(np.float32)
    orig = target + np.float32(noise) * random.standard_normal((40, 50)).astype(np.float32)
    expected = measure(orig, target)
    got = troubleshooter_figures(orig, target)
    assert got == (
        *(expected.result, expected.ratio, expected.cosine, expected.mean, expected.max),
    )


@pytest.mark.parametrize(("dtype", "draw"), [("F32", "noisy_pair"), ("BF16", "rounded_pair")])
def test_files_of_safetensors_hold_their_values_over_and_over(tmp_path, dtype, draw):
    from measuring import byhand, material

    places = tmp_path / "left.safetensors", tmp_path / "right.safetensors"
    sides = getattr(material, draw)(100)
    for place, values in zip(places, sides, strict=True):
        material.write_safetensors(place, dtype, ["a", "b"], (9, 10), values)
    expected = [np.resize(side.astype(np.float32), (2, 9, 10)) for side in sides]
    for i, pair in enumerate(byhand.safetensors_pairs(*places)):
        for side, values in enumerate(pair):
            np.testing.assert_array_equal(values, expected[side][i])
    dump = tnb.open_dump(places[0])
    assert [*dump.names] == ["a", "b"]
    stored = dump.sources[1].read(0, 90).astype(np.float32)
    np.testing.assert_array_equal(stored, expected[0][1].reshape(-1))


def test_pairs_that_are_to_pass_do(tmp_path):
    from measuring import material

    for draw in (material.noisy_pair, material.rounded_pair):
        left, right = draw(4096)
        assert set(tnb.compare({"w": left}, {"w": right}).result["verdict"].values) <= {
            *("pass", "rounding"),
        }
        assert (left != right).any()


def test_links_are_the_same_files_under_other_names(tmp_path):
    from measuring import material

    material.write_npy(tmp_path / "left", tmp_path / "right", ["b", "a"], (2, 3))
    new = material.renamed(tmp_path / "left", tmp_path / "new", "tensor_{}".format)
    assert sorted(file.name for file in new.iterdir()) == ["tensor_0.npy", "tensor_1.npy"]
    first = np.load(new / "tensor_0.npy")
    np.testing.assert_array_equal(first, np.load(tmp_path / "left" / "a.npy"))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_the_recorder_writes_what_msprobe_does(tmp_path):
    torch = pytest.importorskip("torch")
    from measuring.recording import Recorder

    net = torch.nn.Sequential()
    for name, layer in (
        *(("fc1", torch.nn.Linear(8, 6)), ("act", torch.nn.ReLU())),
        ("fc2", torch.nn.Linear(6, 3)),
    ):
        net.add_module(name, layer)
    recorder = Recorder(net, tmp_path)
    net(torch.randn(4, 8)).square().mean().backward()
    recorder.write()
    made, real = tmp_path / "step0" / "rank0", MSPROBE / "step0" / "proc1000"
    for file in ("dump.json", "construct.json"):
        ours, theirs = (json.loads((folder / file).read_text()) for folder in (made, real))
        assert without_figures(ours) == without_figures(theirs)
        assert [*ours.get("data", ours)] == [*theirs.get("data", theirs)]
    columns = ["name", "path", "call", "direction", "role", "slot", "shape", "layer", "order"]
    opened, expected = (tnb.open_dump(place).to_dataframe() for place in (tmp_path, MSPROBE))
    assert opened[columns].equals(expected[columns])


def without_figures(value):
    """What a json file says, without what differs between any two runs."""
    if isinstance(value, dict):
        return {k: without_figures(v) for k, v in value.items() if k != "dump_data_dir"}
    if isinstance(value, list):
        return [without_figures(part) for part in value]
    return float if isinstance(value, float) else value


@pytest.mark.long
@pytest.mark.torch
def test_a_process_takes_steps_when_told_and_says_what_they_took(tmp_path):
    pytest.importorskip("torch")
    from measuring.stepping import PLAIN, Child, Way
    from measuring.transformer import Size

    child = Child(sys.executable, Way(PLAIN, "", "", Size(width=16, batch=1), tmp_path))
    try:
        answer = child.ask("turn", 1)
        with pytest.raises(ValueError, match="Expecting value") as raised:
            child.ask("no such thing", 1)
    finally:
        child.close()
    assert answer["step"] > 0
    assert answer["calls"] == answer["files"] == 0  # nothing is recorded
    assert "KeyError: 'no such thing'" in raised.value.__notes__[0]


@pytest.mark.torch
def test_msprobe_is_left_out_with_a_line_where_it_is_not_installed(tmp_path, capsys):
    pytest.importorskip("torch")
    import capture

    assert not capture.installed("")
    assert not capture.installed(str(tmp_path / "python"))
    assert not [key for key in capture.ways(theirs=False) if capture.MSPROBE in key]
    unset, absent = capsys.readouterr().out.splitlines()
    assert unset.startswith("msprobe: left out")
    assert absent.startswith("msprobe: not installed")


def test_a_missed_bar_is_marked_listed_and_decides_the_exit_status(tmp_path, monkeypatch, capsys):
    from measuring import bars

    results = tmp_path / "results"
    monkeypatch.setenv(bars.RESULTS, str(results))
    met = bars.Bar("default over diagnose=False", 1.2, most=1.5)
    assert bars.concluded([bars.Case("first", {"default": 1.0, "floor": 0.25}, (met,))]) == 0
    too_low, unknown = bars.Bar("rate", 2.0, least=3.0), bars.Bar("memory", math.nan, most=1.0)
    assert bars.concluded([bars.Case("second", bars=(too_low, unknown))]) == 1
    printed = capsys.readouterr().out
    assert printed.count("MISSED") == 2
    cases = bars.gathered(results)
    assert [case.name for case in cases] == ["first", "second"]
    assert bars.missed(cases) == [
        "second: rate: 2.00 (at least 3)",
        "second: memory: nan (at most 1)",
    ]
    row = next(line for line in bars.table(cases) if line.startswith("first"))
    assert row.split() == ["first", "4.00", "-", "-", "-", "250", "ms"]


@pytest.mark.torch  # some of what scripts take stands on a framework
@pytest.mark.parametrize(
    "script", sorted(str(path.relative_to(BENCHMARKS)) for path in BENCHMARKS.rglob("*.py"))
)
def test_what_a_script_takes_from_the_package_is_there(script):
    for node in ast.walk(ast.parse((BENCHMARKS / script).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("troubleshooter_nb"):
            home = importlib.import_module(node.module)
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                assert hasattr(home, name.name) or importlib.import_module(inner)
