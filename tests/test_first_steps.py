"""What `start` finds at a path, and that the lines it gives do what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import first_steps

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
RUN = Path(__file__).parent / "data" / "msprobe" / "v26_2_0" / "torch" / "t_mlp_L0_tensor"
RNG = np.random.default_rng(3)
WEIGHTS = {"fc.weight": RNG.normal(size=(4, 3)), "fc.bias": RNG.normal(size=4)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One of each kind, made by the package itself, and a file of none."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        tnb.save_dump({f"layer{i}": np.ones(3) for i in range(2)}, f"runs/{name}")
        tnb.save_dump(WEIGHTS, f"{name}.safetensors")
        (tmp_path / f"{name}.log").write_text(
            "".join(f"step {i} loss {1 / (i + 1):.4f}\n" for i in range(40))
        )
    tnb.write_weight_map(tnb.draft_weight_map("a.safetensors", "b.safetensors"), "map.yaml")
    (tmp_path / "names.yaml").write_text("fc2.Dense: fc2.Linear\n")
    tnb.export(tnb.compare("runs/a", "runs/b"), "cmp.json")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return tmp_path


OTHERS = {
    "the other run": "runs/b",
    "the other checkpoint": "b.safetensors",
    "the other log": "b.log",
    "'left', 'right'": "'runs/a', 'runs/b'",
    "model.pth": "a.safetensors",
    "model.ckpt": "converted.safetensors",
}
KINDS = {
    "runs/a": "tensors",
    "a.log": "curve",
    "a.safetensors": "weights",
    "cmp.json": "comparison",
    "map.yaml": "map",
    "names.yaml": "mapping",
}


@pytest.mark.parametrize("name", KINDS)
def test_one_of_each_kind_is_told_with_a_line_for_it(folder, name):
    begun = tnb.start(name)
    assert [(one.path, one.kind) for one in begun.found] == [(name, KINDS[name])]
    assert begun.steps
    assert all(repr(name) in one.line for one in begun.steps)
    assert name in repr(begun)
    assert begun.steps[0].line in repr(begun)


@pytest.mark.parametrize(
    ("names", "call"),
    [
        (("runs/a", "runs/b"), "tnb.compare("),
        (("a.safetensors", "b.safetensors"), "tnb.diff_checkpoints("),
        (("a.log", "b.log"), "tnb.compare_series("),
    ],
)
def test_two_of_one_kind_go_against_each_other(folder, names, call):
    begun = tnb.start(*names)
    line = begun.steps[0].line
    assert line.startswith(call)
    assert all(repr(name) in line for name in names)
    assert eval(line, {"tnb": tnb}) is not None
    assert "notebook run" in begun.steps[-1].line


def test_lines_of_one_thing_run_as_they_stand(folder):
    for name in ("runs/a", "a.safetensors", "a.log", "cmp.json"):
        for step in tnb.start(name).steps:
            line = step.line
            for given, here in OTHERS.items():
                line = line.replace(given, here)
            assert eval(line, {"tnb": tnb}) is not None, line


def test_every_template_that_a_line_names_takes_its_parameters(folder):
    lines = [line for steps in first_steps._OF_TWO.values() for line in steps.values()]
    told = [line.split() for line in lines if line.startswith("!tnb notebook run")]
    assert len(told) == 3
    for words in told:
        text = (NOTEBOOKS / f"{words[3]}.ipynb").read_text(encoding="utf-8")
        for name in (words[i + 1] for i, word in enumerate(words) if word == "-p"):
            assert f'"{name} = ' in text, (words[3], name)


def test_a_folder_of_several_is_looked_into(folder):
    (folder / "logs").mkdir()
    for name in ("a.log", "b.log"):
        (folder / name).rename(folder / "logs" / name)
    (folder / "picture.png").rename(folder / "logs" / "c.png")
    begun = tnb.start("logs")
    assert [one.path for one in begun.found] == ["logs/a.log", "logs/b.log"]
    assert begun.steps == tnb.start("logs/a.log", "logs/b.log").steps
    assert "tnb.compare_series(" in begun._repr_html_()


def test_a_recorded_run_is_told_from_weights():
    (found,) = tnb.start(RUN).found
    assert found.kind == "run"
    assert any("tnb.replay(net, " in one.line for one in tnb.start(RUN).steps)


def test_a_line_to_type_is_shown_whole_however_long_its_paths_are(tmp_path):
    folder = tmp_path / ("long_name_" * 12)
    for name in ("left", "right"):
        tnb.save_dump(WEIGHTS, folder / f"{name}.safetensors")
    begun = tnb.start(folder / "left.safetensors", folder / "right.safetensors")
    shown = [line.strip() for line in repr(begun).splitlines()]
    assert all(one.line in shown for one in begun.steps)


def test_with_nothing_it_shows_the_ways_to_begin():
    begun = tnb.start()
    assert any("tnb.record(" in one.line for one in begun.steps)
    with tnb.option_context(language="zh"):
        assert "两个模型为何不同" in repr(begun)
        assert "两个模型为何不同" in begun._repr_html_()


def test_what_nobody_knows_is_said_with_its_reason(folder):
    begun = tnb.start("picture.png")
    assert begun.found[0].kind == "unknown"
    assert "picture.png" in begun.found[0].said
    assert any("Nothing there is known" in note for note in begun.notes)
    with pytest.raises(FileNotFoundError):
        tnb.start("missing")


def test_two_of_different_kinds_are_not_set_against_each_other(folder):
    begun = tnb.start("runs/a", "a.log")
    assert "nothing to be compared" in " ".join(begun.notes)
    assert not any("notebook run" in one.line for one in begun.steps)
