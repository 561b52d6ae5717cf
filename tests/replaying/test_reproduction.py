"""A call that was exported runs alone, shows its difference, and takes no name for code."""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import Dump
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, EntryNotFoundError
from troubleshooter_nb.naming import Site
from troubleshooter_nb.replaying.formulas import FORMULAS, kind_of
from troubleshooter_nb.replaying.script import script_of

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def norm(x, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(eps))


def call(output, path="body.norm", layer="LayerNorm", *, weight=None, settings=None, word="Module"):
    """A dump of one call, as a recording has it."""
    name = f"{word}.{path}.{layer}.forward.0"
    entries = [
        Entry(
            f"{name}.{section}",
            Site("module", path, 0, "forward", role, section.rpartition(".")[2]),
            ArrayInMemory(array),
            order=order,
            layer=layer,
        )
        for order, (section, role, array) in enumerate(
            [
                ("input.0", "input", X),
                *([("parameters.weight", "parameter", weight)] if weight is not None else []),
                ("output.0", "output", output),
            ]
        )
    ]
    return Dump.from_entries(entries, format="tnb_record", settings={path: settings or {}})


def printed(folder, capsys):
    """What the script of a folder prints where numpy is all there is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("torch", "mindspore"):
            patch.setitem(sys.modules, name, None)
        runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    return capsys.readouterr().out


def agreeing(text):
    """How many sides numpy computed again as they are stored."""
    again = [line for line in text.splitlines() if "numpy: " in line and "computed again" in line]
    ends = [line.rpartition(" ")[2] for line in again]
    return sum(end == "equal" or float(end) < 1e-6 for end in ends)


def faulty(**options):
    left = call(norm(X, 1e-1), settings={"eps": 1e-1, "normalized_shape": (4,)}, **options)
    right = call(norm(X, 1e-5), settings={"eps": 1e-5, "normalized_shape": (4,)}, **options)
    return tnb.compare(left, right, diagnose=False)


@pytest.mark.parametrize("key", ["body.norm", 1, "Module.body.norm.LayerNorm.forward.0.output.0"])
def test_a_call_is_named_by_its_path_its_pair_or_its_entry(tmp_path, capsys, key):
    folder = tnb.export_reproduction(faulty(), key, tmp_path / "norm")
    text = printed(folder, capsys)
    assert "setting 'eps': 0.1 and 1e-05" in text
    assert "stored output '0', left against right: differ" in text
    assert "numpy: left against right, both on the right's input: differ" in text
    assert agreeing(text) == 2
    assert sorted(os.listdir(tmp_path)) == ["norm"]
    assert sorted(os.listdir(folder)) == ["call.json", "left.npz", "reproduce.py", "right.npz"]


def test_each_call_of_a_layer_is_named_by_its_number(tmp_path):
    def twice(eps):
        entries = [
            Entry(
                f"Module.act.LayerNorm.forward.{number}.{role}.0",
                Site("module", "act", number, "forward", role, "0"),
                ArrayInMemory(values),
                order=2 * number + place,
                layer="LayerNorm",
            )
            for number, given in enumerate((X, 3 * X))
            for place, (role, values) in enumerate([("input", given), ("output", norm(given, eps))])
        ]
        return Dump.from_entries(entries)

    cmp = tnb.compare(twice(1e-1), twice(1e-5), diagnose=False)
    for key, given in (("act", X), ("act #0", X), ("act #1", 3 * X)):
        folder = tnb.export_reproduction(cmp, key, tmp_path / key)
        with np.load(folder / "left.npz") as stored:
            assert any(np.array_equal(stored[name], given) for name in stored)
    with pytest.raises(EntryNotFoundError, match="act #1"):
        tnb.export_reproduction(cmp, "act #2", tmp_path / "none")


def test_it_runs_in_a_process_that_does_not_have_this_package(tmp_path):
    folder = tnb.export_reproduction(faulty(), "body.norm", tmp_path / "norm")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'mindspore', 'troubleshooter_nb']))"
        "; import runpy; runpy.run_path('reproduce.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "differ" in done.stdout
    assert "torch: not installed" in done.stdout
    assert "mindspore: not installed" in done.stdout


def test_a_class_of_nobody_s_table_has_a_function_to_fill_in(tmp_path, capsys):
    left, right = (call(X * n, "own", "Scaled", settings={"by": n}) for n in (1.5, 2.0))
    cmp = tnb.compare(left, right, diagnose=False)
    folder = tnb.export_reproduction(cmp, "own", tmp_path / "own")
    script = folder / "reproduce.py"
    assert "numpy: no formula" in printed(folder, capsys)
    text = script.read_text(encoding="utf-8").replace(
        "    return None\n", '    return inputs["0"] * s["by"]\n', 1
    )
    script.write_text(text, encoding="utf-8")
    filled = printed(folder, capsys)
    assert agreeing(filled) == 2
    assert "numpy: left against right, both on the right's input: differ" in filled


def test_names_and_settings_of_a_dump_are_never_part_of_the_script(tmp_path, capsys):
    hostile = '"""\nimport os; os.abort()\n{0}\x1b[2J'
    dumps = [
        call(X * n, hostile, "Scaled", settings={hostile: hostile, "n": n}) for n in (1.0, 2.0)
    ]
    cmp = tnb.compare(*dumps, diagnose=False)
    folder = tnb.export_reproduction(cmp, hostile, tmp_path / "x")
    text = (folder / "reproduce.py").read_text(encoding="utf-8")
    assert text == script_of(["", ""], "en")
    assert "\x1b" not in printed(folder, capsys)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_formula_makes_a_script_in_either_language(language):
    tree = ast.parse(script_of(["", *FORMULAS], language))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {f"{kind}_torch" for kind in FORMULAS} <= names
    assert "layer" in names


def test_parameters_of_mindspore_get_the_names_and_layouts_of_torch(tmp_path):
    kernel = np.ones((2, 4, 1, 3), np.float32)
    left = call(X, "conv", "Conv1d", weight=kernel, word="Cell")
    right = call(X + 1, "conv", "Conv1d", weight=kernel[:, :, 0], word="Module")
    cmp = tnb.compare(left, right, diagnose=False)
    folder = tnb.export_reproduction(cmp, "conv", tmp_path / "conv")
    facts = json.loads((folder / "call.json").read_text(encoding="utf-8"))
    shapes = []
    for side in ("left", "right"):
        with np.load(folder / f"{side}.npz", allow_pickle=False) as stored:
            shapes.append(stored[facts[side]["parameters"]["weight"]].shape)
    assert shapes == [(2, 4, 3), (2, 4, 3)]


def test_a_pair_of_saved_tensors_has_its_values_alone(tmp_path, capsys):
    cmp = tnb.compare({"h": X}, {"h": X + 1}, diagnose=False)
    folder = tnb.export_reproduction(cmp, "h", tmp_path / "h")
    assert "stored output '0', left against right: differ, largest 1" in printed(folder, capsys)


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    cmp = faulty()
    with pytest.raises(EntryNotFoundError, match=r"body\.norm"):
        tnb.export_reproduction(cmp, "body.nrom", tmp_path / "a")
    with pytest.raises(ArgumentTypeError, match="Comparison"):
        tnb.export_reproduction({"a": 1}, "body.norm", tmp_path / "a")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(ArgumentError, match="not empty"):
        tnb.export_reproduction(cmp, "body.norm", tmp_path / "taken")

    def fail(*_, **__):
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        tnb.export_reproduction(cmp, "body.norm", tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["taken"]


def test_classes_of_both_frameworks_have_one_kind():
    assert kind_of("Linear") == kind_of("Dense") == "linear"
    assert kind_of("Conv1d") == kind_of("mint.nn.Conv3d") == "conv"
    assert kind_of("Block") == kind_of("") == ""


@pytest.mark.torch
def test_formulas_are_those_of_torch():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    images, rows = torch.randn(2, 4, 7, 7), torch.randn(3, 6)
    norm = nn.BatchNorm2d(4)
    norm.running_mean.uniform_()
    layers = [
        (nn.Linear(6, 5), rows),
        (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2), images),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect", bias=False), images),
        (nn.Conv2d(4, 4, 4, padding="same"), images),
        (nn.ConvTranspose2d(4, 2, 3, 2, 1, 1), images),
        (nn.LayerNorm((7, 7)), images),
        (nn.RMSNorm(6, eps=1e-3), rows),
        (norm, images),
        (norm.eval(), images),
        (nn.GroupNorm(2, 4), images),
        (nn.Embedding(9, 4), torch.randint(0, 9, (3, 2))),
        *[(kind, rows) for kind in (nn.GELU(), nn.GELU("tanh"), nn.Softmax(0), nn.LogSoftmax(-1))],
        *[(kind(), rows) for kind in (nn.ReLU, nn.ReLU6, nn.SiLU, nn.Sigmoid, nn.Tanh)],
        *[(kind, rows) for kind in (nn.Hardswish(), nn.LeakyReLU(0.3), nn.ELU(0.5), nn.Identity())],
        *[(kind(3, 2, 1), images) for kind in (nn.MaxPool2d, nn.AvgPool2d)],
    ]
    functions = {"np": np, "torch": torch, "F": nn.functional, "math": __import__("math")}
    tree = ast.parse(script_of(["", *FORMULAS], "en"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    exec(compile(tree, "script", "exec"), functions)
    tried = set()
    for module, x in layers:
        with tnb.record(module, gradients=False) as rec:
            wanted = module(x).detach().numpy()
        kind = kind_of(type(module).__name__)
        s = json.loads(json.dumps(rec.dump.settings[""]))
        p = {name: one.detach() for name, one in module.state_dict().items()}
        arrays = {name: one.double().numpy() for name, one in p.items()}
        for name, given, held in (("torch", x, p), ("numpy", x.double().numpy(), arrays)):
            if f"{kind}_{name}" in functions:
                found = np.asarray(functions[f"{kind}_{name}"](given, held, s))
                np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6, err_msg=f"{module}")
                tried.add(kind)
    assert tried == FORMULAS.keys() - {"dropout"}
