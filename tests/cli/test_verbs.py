"""The verbs beside ``compare``: open, diff, convert, pair, html and causes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.cli.conftest import weights
from tests.messages.rules import english_in
from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.saved_comparison import open_comparison

MSPROBE = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0"


# -- open


def test_open_says_what_is_there(said, runs):
    code, out, err = said("open", runs / "left")
    assert (code, err) == (0, "")
    assert out.startswith("Dump 'left' · 5 tensors · 1.3 kB · npy_dir\n")
    assert "values not read yet: --values adds statistics" in out
    code, out, _ = said("open", runs / "left.log")
    assert (code, out.split(":")[0]) == (0, "left.log")
    assert said("open", MSPROBE / "torch" / "t_mlp_mix_statistics")[0] == 0


def test_open_reads_the_values_where_that_is_wanted(said, tmp_path):
    tnb.save_dump({"a": np.array([1, np.nan]), "b": np.zeros(2)}, tmp_path / "a")
    code, out, _ = said("open", "a", "--values")
    assert code == 0
    assert "1 with NaN" in out
    code, out, _ = said("open", "a", "--values", "--json", "-o", "t.csv")
    assert [row["nan_count"] for row in json.loads(out)] == [1, 0]
    assert (tmp_path / "t.csv").exists()


def test_open_ends_with_2_where_something_cannot_be_read(said, tmp_path):
    tnb.save_dump(weights(), tmp_path / "cut")
    file = next((tmp_path / "cut").glob("l1*.npy"))
    file.write_bytes(file.read_bytes()[:-4])
    code, out, _ = said("open", "cut")
    assert code == 2
    assert "! 1 not readable, first at l1.weight" in out
    assert said("open", "nothing")[0] == 2


def test_open_says_of_a_table_that_it_exported_what_it_is_of(said, runs):
    assert said("open", runs / "left", "-o", "table.csv")[0] == 0
    code, out, err = said("open", "table.csv")
    assert (code, out) == (2, "")
    assert "log or curve: table.csv: a table of tensors or of their comparison, no curve;" in err


# -- diff


def test_diff_tells_structure_and_values(said, runs):
    code, out, _ = said("diff", runs / "left.ckpt", runs / "right.ckpt", "-o", "d.md")
    assert code == 1
    assert "✓ same structure: 5 of 5 entries paired" in out
    assert "written: d.md" in out
    assert said("diff", runs / "same.ckpt", runs / "right")[0] == 0
    assert said("diff", runs / "left.ckpt", runs / "right.ckpt", "--atol", "1")[0] == 0
    code, out, _ = said("diff", runs / "left.ckpt", runs / "right.ckpt", "--learning-rate", "0.1")
    assert "0.1" in out


def test_diff_ends_as_compare_does_with_what_is_alone_or_shaped_otherwise(said, tmp_path):
    for name, arrays in {
        "a.pth": weights(),
        "more.pth": {**weights(), "x": np.ones(2)},
        "shaped.pth": {**weights(), "l0.weight": np.ones((8, 9), "f4")},
    }.items():
        tnb.save_dump(arrays, tmp_path / name)
    for name, code in (("a.pth", 0), ("more.pth", 2), ("shaped.pth", 1)):
        assert said("compare", "a.pth", name)[0] == code
        assert said("diff", "a.pth", name)[0] == code
        assert said("diff", "a.pth", name, "--no-values")[0] == code


def test_diff_tells_the_cause_that_compare_tells(said, tmp_path):
    rng = np.random.default_rng(0)
    right = {f"l{i}.weight": rng.laplace(size=(24, 16)).astype("f4") for i in range(4)}
    tnb.save_dump(right, tmp_path / "right.pth")
    tnb.save_dump(right | {"l2.weight": right["l2.weight"].T.copy()}, tmp_path / "left.pth")
    outs = [said(verb, "left.pth", "right.pth")[1] for verb in ("compare", "diff")]
    for out in outs:
        assert out.startswith("✗ 1 of 4 pairs differ")
        assert "Linear weight transposed. With axes in the order 1, 0" in out
        assert "Transpose the weight when it is converted" in out
    assert "untouched, 3 groups of tensors: l0, l1, l3" in outs[1]
    out = said("diff", "left.pth", "right.pth", "--no-diagnose")[1]
    assert "Likely cause" not in out
    assert "leave --no-diagnose out" in out
    _, out, _ = said("diff", "left.pth", "right.pth", "--json")
    assert json.loads(out)["findings"][0]["cause"] == "linear_transposed"


def test_diff_of_what_cannot_be_read_is_undecided(said, tmp_path):
    for name in ("a", "b"):
        tnb.save_dump(weights(), tmp_path / name)
    file = next((tmp_path / "b").glob("l1*.npy"))
    file.write_bytes(file.read_bytes()[:-4])
    assert said("diff", "a", "b")[0] == 2
    assert said("diff", "a", "b", "--no-values")[0] == 2
    code, _, err = said("diff", "a", "b", "--learning-rate", "0")
    assert code == 2
    assert "learning_rate must be a number larger than 0" in err


# -- convert


@pytest.fixture
def net(tmp_path):
    """A checkpoint of torch whose names MindSpore spells otherwise."""
    arrays = {
        "bn.weight": np.ones(4, "f4"),
        "bn.bias": np.zeros(4, "f4"),
        "bn.running_mean": np.zeros(4, "f4"),
        "bn.running_var": np.ones(4, "f4"),
        "fc.weight": np.arange(12, dtype="f4").reshape(3, 4),
    }
    return tnb.save_dump(arrays, tmp_path / "net.pth")


def test_convert_drafts_writes_and_proves(said, net, tmp_path):
    code, out, err = said(
        "convert", "net.pth", "net.ckpt", "--save-map", "m.yaml", "-o", "proof.html"
    )
    assert (code, err) == (0, "")
    assert "Proof: what was written, read back, against the source\n✓ 5 of 5 pairs agree" in out
    for name in ("net.ckpt", "m.yaml", "proof.html"):
        assert f"written: {name}" in out
        assert (tmp_path / name).exists()
    assert "bn.gamma" in tnb.open_dump(tmp_path / "net.ckpt").names


def test_convert_writes_a_map_alone_and_takes_it_again(said, net, tmp_path):
    code, out, _ = said("convert", "net.pth", "m.yaml")
    assert code == 0
    assert [*tmp_path.iterdir()] != []
    assert not (tmp_path / "net.ckpt").exists()
    text = (tmp_path / "m.yaml").read_text("utf-8")
    (tmp_path / "m.yaml").write_text(text.replace("bn.gamma", "norm.gamma"))
    code, out, _ = said("convert", "net.pth", "net.ckpt", "--map", "m.yaml", "--json")
    assert code == 0
    assert json.loads(out)["passed"] is True
    assert "norm.gamma" in tnb.open_dump(tmp_path / "net.ckpt").names


def test_convert_fits_a_target_that_is_given(said, net, tmp_path):
    like = {name: np.zeros_like(array) for name, array in weights().items()}
    tnb.save_dump({**like, "head.weight": np.zeros((3, 4), "f4")}, tmp_path / "like.ckpt")
    code, out, _ = said("convert", "net.pth", "m.yaml", "--like", "like.ckpt")
    assert code in (0, 1)
    assert "like.ckpt" in out
    assert said("convert", "net.pth", "n.safetensors", "--to", "mint")[0] == 0
    assert "bn.weight" in tnb.open_dump(tmp_path / "n.safetensors").names


def test_convert_replaces_nothing(said, net, tmp_path):
    (tmp_path / "net.ckpt").write_text("mine")
    code, _, err = said("convert", "net.pth", "net.ckpt")
    assert code == 2
    assert "--force replaces it" in err
    assert (tmp_path / "net.ckpt").read_text() == "mine"
    assert said("convert", "net.pth", "net.ckpt", "--force")[0] == 0
    code, _, err = said("convert", "net.pth", "net.pth", "--force")
    assert code == 2
    assert "one of the files that are read" in err


# -- pair


def test_pair_writes_a_mapping_that_compare_reads(said, runs, tmp_path):
    code, out, _ = said("pair", runs / "left", runs / "right", "-o", "m.yaml", "-o", "m.html")
    assert code == 0
    assert "5 matched (5 name)" in out
    text = (tmp_path / "m.yaml").read_text("utf-8")
    assert text.count("l3.weight_float32_3") == 2
    assert said("compare", runs / "left", runs / "right", "--mapping", "m.yaml")[0] == 1
    code, _, err = said("pair", runs / "left", runs / "right", "-o", "m.yaml")
    assert (code, "--force" in err) == (2, True)
    assert said("pair", runs / "left", runs / "right", "-o", "m.yaml", "--force")[0] == 0


def test_pair_says_what_has_no_partner(said, runs, tmp_path):
    tnb.save_dump({**weights(), "x": np.ones(2)}, tmp_path / "more")
    assert said("pair", "more", runs / "right")[0] == 1
    tnb.save_dump({"y": np.ones(9)}, tmp_path / "other")
    tnb.save_dump({"x": np.ones(2)}, tmp_path / "alone")
    assert said("pair", "alone", "other", "--pairing", "name")[0] == 2


def test_pair_writes_other_kinds_of_mappings(said, tmp_path):
    sides = MSPROBE / "mindspore" / "m_mlp_L1_tensor", MSPROBE / "torch" / "t_mlp_L1_tensor"
    code, _, _ = said("pair", *sides, "--kind", "api", "-o", "api.yaml")
    assert code in (0, 1)
    assert "ms_api" in (tmp_path / "api.yaml").read_text("utf-8")
    code, _, _ = said("pair", *sides, "--kind", "cell", "-o", "cell.yaml")
    assert (code, (tmp_path / "cell.yaml").exists()) == (2, False)


# -- html


@pytest.mark.parametrize("kept", ["record.json", "record.nc"])
def test_html_is_a_page_of_a_saved_comparison(said, runs, tmp_path, kept):
    cmp = tnb.compare(runs / "left", runs / "right")
    if kept.endswith(".nc"):
        pytest.importorskip("netCDF4")
        cmp.to_dataset().to_netcdf(tmp_path / kept, engine="netcdf4")
    else:
        tnb.export(cmp, tmp_path / kept)
    code, out, _ = said("html", kept)
    assert (code, out) == (0, "written: record.html\n")
    page = (tmp_path / "record.html").read_text("utf-8")
    assert "1 of 5 pairs differ" in page
    assert page.count("l3.weight") >= page.count("l2.weight") > 0
    assert said("html", kept)[0] == 2
    assert said("html", kept, "-o", "other.html", "--language", "zh")[0] == 0
    assert "5 对中 1 对不一致" in (tmp_path / "other.html").read_text("utf-8")


def test_html_is_a_page_of_what_opens(said, runs, tmp_path):
    for path, name in ((runs / "left", "left.html"), (runs / "left.ckpt", "x.html")):
        assert said("html", path, "-o", name)[0] == 0
        assert "l3.weight" in (tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "{}"),
        ("b.json", '{"pairs": [{"verdict": "good"}], "findings": [], "checks": []}'),
        ("c.json", "{"),
        ("d.nc", "text"),
        ("e.txt", "text"),
    ],
)
def test_html_of_what_is_no_record_is_one_line(said, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    code, out, err = said("html", name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert name in err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.notebook
def test_html_is_a_page_of_an_executed_notebook(said, tmp_path):
    import nbformat

    cell = nbformat.v4.new_code_cell("1 + 1")
    cell.outputs = [nbformat.v4.new_output("stream", text="the verdict")]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "n.ipynb")
    assert said("html", "n.ipynb")[0] == 0
    page = (tmp_path / "n.html").read_text("utf-8")
    assert "the verdict" in page
    # In the theme of its reader, on paper in the light one.
    assert 'content="light dark" name="color-scheme"' in page
    assert page.count('media="screen and (prefers-color-scheme: dark)"') == 1
    assert "data-jp-theme-light" not in page.partition("<body")[2]
    (tmp_path / "broken.ipynb").write_text("{")
    code, _, err = said("html", "broken.ipynb")
    assert (code, err.count("\n")) == (2, 1)


# -- causes


def test_causes_lists_all_and_explains_one(said):
    code, out, _ = said("causes")
    assert code == 0
    assert all(f"{id}: " in out for id in CAUSES)
    code, out, _ = said("causes", "gelu_variant")
    assert out.startswith("gelu_variant: The two sides use different forms of GELU\n")
    assert "What proves it\n  The output is the <left> form" in out
    assert "What to do\n  Choose one" in out
    assert json.loads(said("causes", "gelu_variant", "--json")[1])[0]["id"] == "gelu_variant"


@pytest.mark.parametrize("id", sorted(CAUSES))
def test_every_cause_is_told_in_chinese(said, id):
    code, out, _ = said("causes", id, "--language", "zh")
    assert code == 0
    assert [found for found in map(english_in, out.splitlines()) if found] == []


@pytest.mark.parametrize("verb", ["diff", "pair", "open"])
def test_the_answers_of_other_verbs_are_chinese(said, runs, tmp_path, verb):
    tnb.save_dump({**weights(), "x": np.ones(2)}, tmp_path / "more")
    sides = ("more",) if verb == "open" else ("more", runs / "right")
    for words in ((verb, *sides, "-o", "a.md"), (verb, "nothing", *sides[1:])):
        _, out, err = said(*words, "--language", "zh")
        titles = [line for line in (out + err).splitlines() if not line.startswith("  block ")]
        assert [found for found in map(english_in, titles) if found] == []


def test_a_record_of_figures_that_were_not_measured_reads_as_it_was(tmp_path):
    """Of statistics there are no errors: not 0, and no negative number of NaN."""
    sides = [f"t_mlp_mix_statistics{one}" for one in ("B", "")]
    found = tnb.compare(*(MSPROBE / "torch" / side for side in sides))
    kept = open_comparison(tnb.export(found, tmp_path / "record.json"))
    lines = [
        [line for line in repr(one).splitlines() if not line.startswith("left")]
        for one in (found, kept)
    ]
    assert lines[0] == lines[1]
    figures = ("max_abs_error", "cosine", "nan_mismatch_count", "left_nan_count")
    for name in figures:
        np.testing.assert_array_equal(found.result[name].values, kept.result[name].values)


def test_compare_and_diff_take_a_weight_map(said, tmp_path):
    weights = np.random.default_rng(0).random((6, 4)).astype("f4")
    tnb.save_dump({"w": weights}, "ours.pth")
    tnb.save_dump({"v": weights.T[::-1].copy()}, "theirs.pth")
    wm = tnb.draft_weight_map("ours.pth", "theirs.pth").accept()
    tnb.write_weight_map(wm, "map.yaml")
    for verb in ("compare", "diff"):
        assert said(verb, "ours.pth", "theirs.pth")[0] != 0
        assert said(verb, "ours.pth", "theirs.pth", "--mapping", "map.yaml")[0] == 0
    twice = ("--mapping", "map.yaml", "--mapping", "map.yaml")
    code, _, err = said("compare", "ours.pth", "theirs.pth", *twice)
    assert (code, "map.yaml is a weight map: give it as the only --mapping" in err) == (3, True)
