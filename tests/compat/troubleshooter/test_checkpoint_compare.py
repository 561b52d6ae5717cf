"""`compare_ms_ckpt` and `compare_pth_and_ckpt`: tables, levels, weight maps (cases 17, 28, 29)."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import save_dump
from troubleshooter_nb.errors import FormatError, OptionError, PairingError

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
BUILDS = ["master_1.0.19", "wheel_1.0.18"]
WEIGHTS = DATA / "master_1.0.19/weights"
CKPT = DATA / "master_1.0.19/ckpt"
MAP, PTH, MS = (WEIGHTS / name for name in ("pt_net_map.json", "pt_net.pth", "ms_net.ckpt"))


def saved(path: Path, **arrays) -> Path:
    return save_dump(arrays, path)


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("file", "options"),
    [("all", {}), ("equal_nan", {"equal_nan": True}), ("level2", {"print_level": 2})],
)
def test_two_checkpoints_give_the_old_tables(capsys, build, file, options):
    folder = DATA / build / "ckpt"
    text = ts.migrator.compare_ms_ckpt(
        str(folder / "a.ckpt"), str(folder / "b.ckpt"), rtol=1e-4, atol=1e-4, **options
    )
    assert capsys.readouterr().out == (folder / f"compare_a_b_{file}.txt").read_text()
    assert text + "\n" == (folder / f"compare_a_b_{file}.txt").read_text()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_shapes_alone_make_one_table(capsys, level):
    # The old tool raised TypeError for level 0 and without values.
    text = ts.migrator.compare_ms_ckpt(
        CKPT / "a.ckpt", CKPT / "b.ckpt", compare_value=False, print_level=level
    )
    rows = cells(text)
    assert rows[0] == ["The list of comparison results for shapes"]
    assert len(rows) == 2 + (3 if level == 2 else 8)
    assert capsys.readouterr().out == ("" if level == 0 else text + "\n")


def test_disjoint_checkpoints_are_two_rows_without_partner(tmp_path):
    left, right = (saved(tmp_path / f"{n}.ckpt", **{n: np.ones(2)}) for n in "ab")
    rows = cells(ts.migrator.compare_ms_ckpt(left, right, print_level=0))
    assert rows[2:4] == [
        ["a", "None", "None", "(2,)", "None"],
        ["None", "b", "None", "None", "(2,)"],
    ]
    assert len(rows) == 6


@pytest.mark.parametrize("level", [3, -1, "1", None, True])
def test_another_print_level_is_refused(level):
    with pytest.raises(OptionError, match=r"print_level is 0 \(nothing\), 1 \(all\) or 2"):
        ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt", CKPT / "b.ckpt", print_level=level)


def test_equal_values_in_two_dtypes_are_true_and_said(tmp_path, caplog):
    values = np.arange(4) / 4
    left = saved(tmp_path / "l.ckpt", w=values.astype(np.float16), v=values.astype(np.float32))
    right = saved(tmp_path / "r.ckpt", w=values.astype(np.float32), v=values.astype(np.float32))
    rows = cells(ts.migrator.compare_ms_ckpt(left, right, print_level=0))
    assert rows[-2][2] == rows[-1][2] == "True"
    assert [r.message for r in caplog.records] == ["[*User Warning*] w is float16, w is float32"]


def test_bfloat16_is_compared_by_value(tmp_path):
    # The old tool raised "Select CPU operator[Identity] fail".
    values = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    left, right = (saved(tmp_path / f"{n}.ckpt", w=values) for n in "ab")
    assert cells(ts.migrator.compare_ms_ckpt(left, right, print_level=0))[-1][2:] == [
        *("True", "100.00%", "1.00000", "0.00000, 0.00000")
    ]


def test_dictionaries_take_the_place_of_files(capsys):
    weights = {"w": np.ones(3, np.float32), "gone": None}
    text = ts.migrator.compare_ms_ckpt(
        orig_ckpt_dict=weights,
        target_ckpt_dict={"w": np.ones(3, np.float32)},
        title="Mine",
        shape_field_names=["a", "b", "c", "d", "e"],
        value_field_names=["a", "b", "c", "d", "e", "f"],
    )
    # A title is that of the values, as in the old tool.
    titles = [row[0] for row in cells(text) if len(row) == 1]
    assert titles == ["The list of comparison results for shapes", "Mine"]
    assert cells(text)[1] == ["a", "b", "c", "d", "e"]
    assert capsys.readouterr().out == text + "\n"


def test_unknown_keywords_are_ignored_and_said(caplog):
    ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt", CKPT / "b.ckpt", print_level=0, num_processes=4)
    assert "does not know 'num_processes'" in caplog.text


def test_wrong_arguments_say_what_is_expected(tmp_path):
    with pytest.raises(OptionError, match="target_file_path is missing"):
        ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt")
    with pytest.raises(OptionError, match="value_field_names must be 6 headings"):
        ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt", CKPT / "b.ckpt", value_field_names=["x"])
    with pytest.raises(TypeError, match="rtol must be a number"):
        ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt", CKPT / "b.ckpt", rtol="1")
    with pytest.raises(OptionError, match="atol must not be negative, got -1"):
        ts.migrator.compare_ms_ckpt(CKPT / "a.ckpt", CKPT / "b.ckpt", atol=-1)
    with pytest.raises(OptionError, match="needs a weight map"):
        ts.migrator.compare_pth_and_ckpt(None, PTH, MS)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("level", [1, 2])
def test_torch_weights_and_a_checkpoint_give_the_old_tables(capsys, caplog, build, level):
    folder = DATA / build / "weights"
    files = (str(folder / name) for name in ("pt_net_map.json", "pt_net.pth", "ms_net.ckpt"))
    assert ts.migrator.compare_pth_and_ckpt(*files, print_level=level) is None
    old = (folder / f"compare_pth_ckpt_level{level}.txt").read_text()
    assert capsys.readouterr().out == old
    assert "No partner is expected, MindSpore counts no batches: bn1.num_batches_tracked" in (
        caplog.text
    )


def test_a_changed_shape_is_shown_before_and_after(tmp_path, capsys):
    kernel = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    torch_file = saved(tmp_path / "net.pth", **{"c.weight": kernel})
    mindspore_file = saved(tmp_path / "net.ckpt", **{"c.weight": kernel[:, :, None]})
    function = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"
    weight_map = {"c.weight": "c.weight"}, {"c.weight": function}
    ts.migrator.compare_pth_and_ckpt(None, torch_file, mindspore_file, weight_map=weight_map)
    shapes, values = (rows for rows in cells(capsys.readouterr().out) if rows[0] == "c.weight")
    assert shapes[2:] == ["True", "(2, 1, 3) -> (2, 1, 1, 3)", "(2, 1, 1, 3)"]
    assert values[2:4] == ["True", "100.00%"]


def test_a_map_of_two_checkpoints_only_gives_names(tmp_path):
    kernel = np.arange(6, dtype=np.float32).reshape(2, 1, 1, 3)
    arrays = {"c.weight": kernel, "bn.gamma": np.ones(2, np.float32), "w": np.ones(3, np.float32)}
    path = saved(tmp_path / "net.ckpt", **arrays)
    function = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"
    weight_map = {"c.weight": "c.weight", "bn.weight": "bn.gamma"}, {"c.weight": function}
    rows = cells(ts.migrator.compare_ms_ckpt(path, path, weight_map=weight_map, print_level=0))
    # What the map does not know keeps its name; the old tool showed None.
    for table in (rows[2:5], rows[7:10]):
        assert [row[:3] for row in table] == [
            ["c.weight", "c.weight", "True"],
            ["bn.weight", "bn.gamma", "True"],
            ["w", "w", "True"],
        ]


def test_a_yaml_may_drop_split_and_join(tmp_path, capsys, caplog):
    path = tmp_path / "map.yaml"
    path.write_text(
        "weights:\n"
        "- {from: [module.p, q], to: pq, transform: concat(0)}\n"
        "- {from: n, to: null}\n"
        "- {from: w, to: [a, b], transform: 'split(0, 1, 2)'}\n"
        "- {from: v, to: v, transform: transpose}\n"
    )
    values = np.arange(6.0)
    source = {"w": values[:3], "p": values[:2], "q": values[2:3], "n": values, "e": values[:0]}
    source |= {"v": values.reshape(2, 3)}
    path.write_text(path.read_text() + "- {from: e, to: e}\n")
    target = {"a": values[:1], "b": values[1:3], "pq": values[:3], "v": values.reshape(2, 3).T}
    files = saved(tmp_path / "net.pth", **source), saved(tmp_path / "net.ckpt", **target)
    ts.migrator.compare_pth_and_ckpt(path, *files, print_conv_info=True)
    rows = cells(capsys.readouterr().out)
    assert [row[2] for row in rows if row[:2] == ["e", "e"]] == ["Not in the checkpoint"]
    assert rows[9:15] == [
        ["w", "a", "True", "(3,) -> (1,)", "(1,)"],
        ["w", "b", "True", "(3,) -> (2,)", "(2,)"],
        ["p + q", "pq", "True", "(2,) + (1,) -> (3,)", "(3,)"],
        ["n", "None", "None", "(6,)", "None"],
        ["e", "None", "None", "(0,)", "None"],
        ["v", "v", "True", "(2, 3) -> (3, 2)", "(3, 2)"],
    ]
    assert [row[:3] for row in rows[17:]] == [
        *(["w", "a", "True"], ["w", "b", "True"], ["p + q", "pq", "True"], ["v", "v", "True"])
    ]
    assert "No partner is expected, the weight map drops them: n" in caplog.text
    text = ts.migrator.compare_ms_ckpt(files[1], files[1], weight_map_path=path, print_level=0)
    assert [row[0] for row in cells(text)[2:6]] == ["w", "w", "module.p + q", "v"]


def test_an_unreadable_part_is_a_row(tmp_path, capsys):
    path = saved(tmp_path / "a.ckpt", w=np.ones(2, np.float32), v=np.ones(2, np.float32))
    target = saved(tmp_path / "b.ckpt", x=np.ones(4, np.float32))
    path.write_bytes(path.read_bytes().replace(b"Float32", b"Floaty2", 1))
    (tmp_path / "map.yaml").write_text(
        "weights: [{from: [w, v], to: x, transform: concat(0)}]\n", encoding="utf-8"
    )
    ts.migrator.compare_pth_and_ckpt(tmp_path / "map.yaml", path, target, print_conv_info=True)
    rows = cells(capsys.readouterr().out)
    assert [row[2] for row in rows if row[0] == "w + v"] == ["None", "File is unreadable"]


def test_the_working_directory_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in "ab":
        saved(tmp_path / "here" / f"{name}.ckpt", w=np.ones(2))
    with pytest.raises(FormatError, match=r"'here' holds several checkpoints: a\.ckpt"):
        ts.migrator.compare_ms_ckpt(".", "a.ckpt")


@pytest.mark.parametrize("missing", range(3))
def test_a_file_that_is_not_there_is_a_value_error_too(missing):
    files = [MAP, PTH, MS]
    files[missing] = files[missing].with_name("gone")
    with pytest.raises(ValueError, match=r"no such file or folder: .*gone ") as caught:
        ts.migrator.compare_pth_and_ckpt(*files)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_map_that_does_not_fit_names_both_sides(tmp_path):
    names = json.loads(MAP.read_text())[0]
    del names["fc1.bias"]
    path = tmp_path / "map.json"
    path.write_text(json.dumps([names | {"extra": "extra"}, {}]))
    expected = r"not in the map: \['fc1.bias'\]; not in the file: \['extra'\]"
    with pytest.raises(PairingError, match=expected):
        ts.migrator.compare_pth_and_ckpt(path, PTH, MS)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty file"),
        ("{", "not a weight map"),
        ("[" * 100_000, "not a weight map"),
        ("{}", "a list of two objects"),
        ('[{"a": 1}, {}]', "objects of names only"),
        ('[{"a": "a"}, {"b": "f"}]', "value functions for names it does not map: b"),
        ('[{"a": "a"}, {"a": "os.system"}]', "'a': the function 'os.system' is not called"),
    ],
)
def test_a_map_that_is_none_says_why(tmp_path, content, reason):
    path = tmp_path / "map.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=rf"map.json: .*{reason}"):
        ts.migrator.compare_pth_and_ckpt(path, PTH, MS)


def test_an_unreadable_tensor_is_a_row(tmp_path, caplog):
    path = saved(tmp_path / "a.ckpt", w=np.ones(2, np.float32), v=np.ones(2, np.float32))
    # A type nobody knows, of the same length.
    path.write_bytes(path.read_bytes().replace(b"Float32", b"Floaty2", 1))
    rows = cells(ts.migrator.compare_ms_ckpt(path, path, print_level=0))
    assert [row[2] for row in rows if row[0] == "w"] == ["None", "File is unreadable"]
    assert "w of original ckpt cannot be read: holds values of type 'Floaty2'" in caplog.text
