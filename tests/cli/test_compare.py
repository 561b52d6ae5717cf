"""``tnb compare``: what is said of two runs, what is written, how it ends."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.cli.conftest import weights
from tests.messages.rules import english_in
from troubleshooter_nb import report
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site

DATA = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0"


def test_the_verdict_the_place_the_cause_and_what_to_do(said):
    torch = DATA / "torch"
    code, out, err = said("compare", torch / "t_mlp_mix_tensorB", torch / "t_mlp_mix_tensor")
    assert (code, err) == (1, "")
    verdict, sides, criterion, *rest = out.splitlines()
    assert verdict.startswith("✗ 32 of 45 pairs differ: 1 created the error, 31 carried it")
    assert "first at fc1.weight (#5)" in verdict
    assert sides == "  t_mlp_mix_tensorB against t_mlp_mix_tensor, the reference"
    assert "1.0e-4 + 1.0e-4·|right|" in criterion
    assert [one for one in rest if one[0] != " "] == ["Can the runs be compared?", "Where", "Why"]
    assert "right = left − 0.05" in out
    assert len(out.splitlines()) < 40


def test_a_cause_comes_with_its_proof_and_repair(said, tmp_path):
    x = np.random.default_rng(0).standard_normal((64, 8)).astype("f4")
    exact = (x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2).astype("f4")
    tanh = (x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2).astype("f4")
    for name, y in (("left", tanh), ("right", exact)):
        tnb.save_dump({"act.input_0": x, "act.output_0": y}, tmp_path / name)
    code, out, _ = said("compare", "left", "right", "--rtol", "1e-6", "--atol", "1e-6")
    assert code == 1
    assert "The two sides use different forms of GELU" in out
    assert "What to do\n  Choose one: PyTorch GELU" in out
    _, out, _ = said("compare", "left", "right", "--no-diagnose", "--rtol", "1e-6")
    assert "GELU" not in out


def test_equal_runs_pass(said, runs):
    code, out, err = said("compare", runs / "same", runs / "right")
    assert (code, err) == (0, "")
    assert out.startswith("✓ 5 of 5 pairs agree\n")


def test_a_wider_tolerance_passes(said, runs):
    assert said("compare", runs / "left", runs / "right", "--atol", ".2")[0] == 0
    assert said("compare", runs / "left", runs / "right", "--atol", "2e-1", "--rtol", "0")[0] == 0


def test_nan_are_equal_where_that_is_wanted(said, tmp_path):
    tnb.save_dump({"a": np.array([1, np.nan])}, tmp_path / "a")
    tnb.save_dump({"a": np.array([1 + 1e-9, np.nan])}, tmp_path / "b")
    assert said("compare", "a", "b")[0] == 1
    assert said("compare", "a", "b", "--equal-nan")[0] == 0


def test_what_cannot_be_read_never_passes(said, runs, tmp_path):
    tnb.save_dump(weights(), tmp_path / "cut")
    file = next((tmp_path / "cut").glob("l1*.npy"))
    file.write_bytes(file.read_bytes()[:-4])
    code, out, _ = said("compare", "cut", runs / "right")
    assert code == 2
    assert out.startswith("○ 4 of 5 pairs agree")
    assert "Not compared, or not decided\n  l1.weight: " in out
    code, out, _ = said("compare", "cut", runs / "right", "--json")
    assert (code, json.loads(out)["passed"]) == (2, False)


def test_entries_without_partner_are_listed(said, runs, tmp_path):
    tnb.save_dump({**weights(), **{f"x{i}": np.ones(i + 2) for i in range(9)}}, tmp_path / "more")
    code, out, _ = said("compare", "more", runs / "right")
    assert code == 2
    # Five of them, how many more, and the first again as where the two part.
    assert out.count("\n  x") == 7
    assert "3 more" in out


def test_names_of_files_are_shown_harmless(said, tmp_path):
    name = "a\x1b[31mred\nline"
    for folder in ("left", "right"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / f"{name}.npy", np.zeros(3) + (folder == "left"))
    for verb in ("compare", "diff", "pair", "open"):
        words = ("left",) if verb == "open" else ("left", "right")
        _, out, err = said(verb, *words)
        assert "\x1b" not in out + err
        assert "\\x1b[31mred\\nline" in out
    code, out, err = said("open", "no\x1b[31m\nthing")
    assert (code, out) == (2, "")
    assert "\x1b" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [("left", "nothing"), ("nothing", "left"), ("", "left")])
def test_a_missing_path_is_one_line_and_ends_with_2(said, runs, monkeypatch, words):
    monkeypatch.chdir(runs)
    code, out, err = said("compare", *words)
    assert (code, out) == (2, "")
    assert err.startswith("tnb: ")
    assert err.count("\n") == 1


def test_what_nothing_opens_is_one_line_that_says_where_to_look(said, runs, tmp_path):
    (tmp_path / "notes.yaml").write_text("a: 1\n")
    code, _, err = said("compare", "notes.yaml", runs / "right")
    assert code == 2
    assert err.count("\n") == 1
    assert "`tnb open notes.yaml` says what each reader missed" in err
    code, _, err = said("open", "notes.yaml")
    assert code == 2
    assert "  npy_dir: a file, but not .npy" in err


def test_a_folder_that_may_not_be_written_to_is_told_before_any_work(said, runs, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = said("compare", runs / "left", runs / "right", "-o", "file/x.csv")
    assert (code, out) == (2, "")
    assert "no folder that can be written to" in err
    code, out, err = said("compare", runs / "left", runs / "right", "-o", "/proc/x/y.csv")
    assert code == 2


def test_all_kinds_of_files_are_written_at_once(said, runs, tmp_path):
    names = [f"deep/t{suffix}" for suffix in (".html", ".xlsx", ".csv", ".json", ".md", ".txt")]
    words = [word for name in names for word in ("-o", name)]
    code, out, _ = said("compare", runs / "left", runs / "right", *words)
    assert code == 1
    assert out.splitlines()[-6:] == [f"written: {name}" for name in names]
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == sorted(
        Path(name).name for name in names
    )
    with (tmp_path / "deep" / "t.csv").open(newline="") as file:
        assert [row["verdict"] for row in csv.DictReader(file)].count("differs") == 1
    assert "<!DOCTYPE html>" in (tmp_path / "deep" / "t.html").read_text("utf-8")


def test_nothing_is_replaced_without_force(said, runs, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    words = ("compare", runs / "left", runs / "right", "-o", "b.csv", "-o", "a.csv")
    code, out, err = said(*words)
    assert (code, out) == (2, "")
    assert err == "tnb: a.csv is there already; --force replaces it\n"
    assert not (tmp_path / "b.csv").exists()
    assert (tmp_path / "a.csv").read_text() == "mine"
    assert said(*words, "--force")[0] == 1
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text() != "mine"


def test_what_is_read_is_never_replaced(said, runs, tmp_path):
    tnb.save_dump(weights(), tmp_path / "a")
    (tmp_path / "a" / "notes.csv").write_text("")
    for output in ("a/notes.csv", "a/run_card.json"):
        code, _, err = said("compare", "a", runs / "right", "-o", output, "--force")
        assert code == 2
        assert "one of the files that are read" in err
    assert said("compare", "a", runs / "right", "-o", "a/new.csv")[0] == 0


def test_a_file_that_cannot_be_written_leaves_nothing_and_keeps_the_answer(
    said, runs, tmp_path, monkeypatch
):
    def fail(obj, path):
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setitem(report._WRITERS, ".csv", fail)
    code, out, err = said("compare", runs / "left", runs / "right", "-o", "a.csv")
    assert code == 2
    assert out.startswith("✗ 1 of 5 pairs differ")
    assert "No space left on device" in err
    assert [*tmp_path.iterdir()] == []


def test_json_is_the_whole_answer_and_nothing_else(said, runs):
    code, out, err = said("compare", runs / "left", runs / "right", "--json", "-o", "a.md")
    assert code == 1
    assert err == "written: a.md\n"
    found = json.loads(out)
    assert found["passed"] is False
    assert (found["left"], found["right"], found["first_divergence"]) == ("left", "right", 3)
    assert [row["verdict"] for row in found["pairs"]].count("differs") == 1


def test_mapping_files_say_what_belongs_together_and_the_earlier_wins(said, runs, tmp_path):
    renamed = dict(zip("abcde", weights().values(), strict=True))
    tnb.save_dump(dict(reversed(renamed.items())), tmp_path / "other")
    names = [f"l{i}.weight" for i in range(5)]
    pairs = [f"{name}: {letter}\n" for name, letter in zip(names, "abcde", strict=True)]
    (tmp_path / "some.yaml").write_text("".join(pairs[:3]))
    (tmp_path / "rest.yaml").write_text("".join(pairs[3:]))
    files = ("--mapping", "some.yaml", "--mapping", "rest.yaml")
    assert said("compare", runs / "right", "other", *files)[0] == 0
    code, _, err = said("compare", runs / "right", "other", "--mapping", "nothing.yaml")
    assert code == 2
    assert "nothing.yaml" in err
    (tmp_path / "wrong.yaml").write_text("no.such: thing\n")
    code, _, err = said("compare", runs / "right", "other", "--mapping", "wrong.yaml")
    assert code == 2
    assert "wrong.yaml, line 1" in err


def steps(folder, changed, count=4):
    """A run of several steps that differs from the others from its third on."""
    entries = [
        Entry("w", Site("file", "w"), ArrayInMemory(np.full(3, step + changed * (step > 1))), step)
        for step in range(count)
    ]
    return tnb.save_dump(Dump.from_entries(entries), folder)


def test_steps_are_chosen_on_both_sides(said, tmp_path):
    steps(tmp_path / "left", 1.0)
    steps(tmp_path / "right", 0.0)
    codes = {
        text: said("compare", "left", "right", "--step", text)[0]
        for text in ("0", "0,1", "0-1", "2", "0-2", "0,2-3", "0-99")
    }
    assert codes == {"0": 0, "0,1": 0, "0-1": 0, "2": 1, "0-2": 1, "0,2-3": 1, "0-99": 1}
    assert said("compare", "left", "right", "--rank", "0")[0] == 1
    code, _, err = said("compare", "left", "right", "--step", "0,7")
    assert code == 2
    assert err == "tnb: no step 7: left has 0, 1, 2, 3; right has 0, 1, 2, 3\n"


def test_a_side_without_the_step_is_named(said, tmp_path):
    steps(tmp_path / "left", 0.0)
    steps(tmp_path / "right", 0.0, count=2)
    code, _, err = said("compare", "left", "right", "--step", "3")
    assert code == 2
    assert "right has 0, 1" in err


def test_curves_are_compared_as_such(said, runs):
    code, out, _ = said("compare", runs / "left.log", runs / "right.log", "-o", "curves.csv")
    assert code == 1
    assert "step 20" in out.splitlines()[0]
    assert said("compare", runs / "same.log", runs / "right.log")[0] == 0
    code, _, err = said("compare", runs / "same.log", runs / "right")
    assert code == 2
    assert "same.log" in err


def test_checkpoints_are_compared_as_dumps(said, runs):
    assert said("compare", runs / "left.ckpt", runs / "right.ckpt")[0] == 1
    assert said("compare", runs / "same.ckpt", runs / "right.ckpt")[0] == 0


def test_everything_is_chinese_where_that_is_wanted(said, runs, tmp_path):
    tnb.save_dump({**weights(), "x": np.ones(2)}, tmp_path / "more")
    for words in (
        ("compare", "more", runs / "left"),
        ("compare", runs / "left", runs / "right", "-o", "a.md"),
        ("compare", "nothing", runs / "left"),
        ("compare", runs / "left", runs / "right", "--step", "7"),
        ("compare", runs / "left", runs / "right", "-o", "a.md"),
        ("compare", runs / "left"),
        ("compare", runs / "left", "x", "--rtoll"),
    ):
        code, out, err = said(*words, "--language", "zh")
        assert code > 0
        lines = (out + err).replace("tnb compare ms_run torch_run", "").splitlines()
        assert [found for found in map(english_in, lines) if found] == []


def test_a_fault_of_the_program_is_no_difference(said, runs, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("troubleshooter_nb.analysis.engine.compare", fail)
    code, out, err = said("compare", runs / "left", runs / "right")
    assert (code, out) == (2, "")
    assert "ZeroDivisionError" in err
    assert err.splitlines()[-1].startswith("tnb: this is a fault of the program")


def test_warnings_are_lines_of_their_own(said, tmp_path):
    steps(tmp_path / "left", 0.0)
    steps(tmp_path / "right", 0.0)
    (tmp_path / "m.yaml").write_text("w: w\nv: N/A\n")
    code, _, err = said("compare", "left", "right", "--mapping", "m.yaml")
    assert "Warning" not in err
    assert code in (0, 2)


def test_a_layer_is_what_the_user_says(said, tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    for name, rate in (("left", 0.3), ("right", 0.1)):
        keep = np.random.default_rng(1).random(x.shape) >= rate
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "mix1.input.npy", x)
        np.save(tmp_path / name / "mix1.output.npy", (x * keep / (1 - rate)).astype("f4"))
    sides = tmp_path / "left", tmp_path / "right"
    assert "Dropout at different rates" not in said("compare", *sides)[1]
    code, out, _ = said("compare", *sides, "--layer", "mix1=Dropout")
    assert code == 1
    assert "Dropout at different rates" in out
    code, _, err = said("compare", *sides, "--layer", "mix1")
    assert code == 3
    assert "PLACE=CLASS" in err


def test_integers_are_exact_unless_a_tolerance_for_them_is_asked_for(said, tmp_path):
    ids = np.arange(40_000, 40_012)
    for name, values in (("left", ids + (ids > 40_008)), ("right", ids)):
        tnb.save_dump({"input_ids": values}, tmp_path / name)
    code, out, _ = said("compare", "left", "right", "--rtol", "1")
    assert (code, "integers exactly equal" in out) == (1, True)
    code, out, _ = said("compare", "left", "right", "--integers", "1")
    assert (code, "of integers ≤ 1" in out) == (0, True)


def test_what_was_seen_and_not_opened_is_in_the_verdict_and_the_exit_code(said, tmp_path):
    for name in ("left", "right", "other"):
        tnb.save_dump({"a": np.ones(3)}, tmp_path / name)
    (tmp_path / "right" / "more").symlink_to(tmp_path / "other")
    code, out, _ = said("compare", "left", "right")
    assert (code, out[0]) == (2, "?")
    assert "right: more is a link to a folder: not followed" in out.replace("\n  ", " ")
