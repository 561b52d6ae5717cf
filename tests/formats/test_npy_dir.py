"""Folders of .npy files: what they become as a dump, and what save_dump leaves for others."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import Dump, compare, open_dump, save_dump
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import FormatError, ReadError, TroubleshooterWarning
from troubleshooter_nb.formats import npy_dir
from troubleshooter_nb.naming import DTYPE_TOKENS, Site
from troubleshooter_nb.run_card import RunCard

FIXTURES = Path(__file__).parents[1] / "data" / "troubleshooter"


def filled(folder, *names, value=1.0):
    """A folder with one small array per name."""
    for number, name in enumerate(names):
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.full(2, value + number, np.float32))
    return folder


def column(dump, name):
    return dump.index[name].values.tolist()


def test_the_three_generations_mixed_are_ordered_by_their_numbers(tmp_path):
    names = ["2_old.x", "first_float32_0", "10_late", "alpha", "second_float16_1", "3_old.y"]
    dump = open_dump(filled(tmp_path / "d", *names))
    assert column(dump, "name") == [
        *("first_float32_0", "second_float16_1", "2_old.x", "3_old.y", "10_late", "alpha")
    ]
    assert column(dump, "path") == ["first", "second", "old.x", "old.y", "late", "alpha"]
    assert column(dump, "order") == [0, 1, 2, 3, 4, -1]
    assert dump.format == "npy_dir"


def test_the_oldest_generation_is_ordered_by_the_key_within_a_call(tmp_path):
    names = [f"1_data_{k}" for k in (10, 2, 0)] + ["0_first"]
    dump = open_dump(filled(tmp_path / "d", *names))
    assert column(dump, "name") == ["0_first", "1_data_0", "1_data_2", "1_data_10"]


def test_repeated_saves_of_one_name_are_visits(tmp_path):
    dump = open_dump(filled(tmp_path / "d", "x_float32_3", "y_float32_4", "x_float32_11"))
    assert column(dump, "path") == ["x", "y", "x"]
    assert column(dump, "call") == [0, 0, 1]


def test_forward_and_backward_of_one_name_are_different_visits(tmp_path):
    dump = open_dump(filled(tmp_path / "d", "0_dense", "1_dense_backward", "2_dense"))
    assert column(dump, "direction") == ["", "backward", ""]
    assert column(dump, "role") == ["", "gradient", ""]
    assert column(dump, "call") == [0, 0, 1]


@pytest.mark.parametrize(
    ("file", "place", "name"),
    [
        ("x_float32_0", (0, 0), "x_float32_0"),
        ("rank3/x_float32_0", (0, 3), "x_float32_0"),
        ("rank_12/x_float32_0", (0, 12), "x_float32_0"),
        ("RANK-1/x_float32_0", (0, 1), "x_float32_0"),
        ("step5/x_float32_0", (5, 0), "x_float32_0"),
        ("step7/rank2/x_float32_0", (7, 2), "x_float32_0"),
        ("rank2/step7/x_float32_0", (7, 2), "x_float32_0"),
        ("ms_dump/rank1/x_float32_0", (0, 1), "ms_dump/x_float32_0"),
        ("rank1/sub/deep/x_float32_0", (0, 1), "sub/deep/x_float32_0"),
        ("rank1/rank2/x_float32_0", (0, 1), "rank2/x_float32_0"),
        ("rank/x_float32_0", (0, 0), "rank/x_float32_0"),
        ("rank1x/x_float32_0", (0, 0), "rank1x/x_float32_0"),
        ("step9999999999/x_float32_0", (0, 0), "step9999999999/x_float32_0"),
        ("x.npy/y_float32_0", (0, 0), "x.npy/y_float32_0"),
    ],
)
def test_folders_are_coordinates_or_part_of_the_name(tmp_path, file, place, name):
    dump = open_dump(filled(tmp_path / "d", file))
    assert column(dump, "name") == [name]
    assert (column(dump, "step")[0], column(dump, "rank")[0]) == place


def test_order_and_visits_start_anew_in_every_step_and_rank(tmp_path):
    files = [f"step{s}/rank{r}/x_float32_{k}" for s in (0, 2) for r in (0, 1) for k in (5, 9)]
    dump = open_dump(filled(tmp_path / "d", *files))
    assert column(dump, "order") == [0, 1] * 4
    assert column(dump, "call") == [0, 1] * 4
    assert column(dump, "step") == [0] * 4 + [2] * 4


def test_files_that_would_share_a_name_keep_their_folder_in_it(tmp_path):
    dump = open_dump(filled(tmp_path / "d", "x", "rank0/x", "step0/rank_0/x", "rank1/x"))
    assert column(dump, "rank") == [0, 0, 0, 1]
    assert sorted(column(dump, "name")[:3]) == ["rank0/x", "step0/rank_0/x", "x"]
    assert column(dump, "name")[3] == "x"
    assert column(dump, "call")[:3] == [0, 1, 2]


@pytest.mark.parametrize(
    "name",
    [
        "网络.权重",
        "a b",
        "a.b.c",
        "layers[0].x",
        "a{1}",
        "weird'\"<b>",
        "new\nline",
        "日本/語",
        "-x",
        "#",
    ],
)
def test_names_of_any_letters_stay_as_they_are(tmp_path, name):
    folder = save_dump({name: np.arange(3.0)}, tmp_path / "d", card=RunCard())
    dump = open_dump(folder)
    assert column(dump, "name") == [f"{name}_float64_0"]
    assert column(dump, "path") == [name]
    np.testing.assert_array_equal(dump.array(name), np.arange(3.0))
    assert isinstance(repr(dump), str)
    assert isinstance(dump._repr_html_(), str)


def test_a_file_name_that_is_no_utf8_can_be_shown(tmp_path):
    folder = filled(tmp_path / "d", "good_float32_0")
    os.rename(folder / "good_float32_0.npy", os.fsencode(folder) + b"/b\xffd_float32_0.npy")
    dump = open_dump(folder)
    assert column(dump, "name") == ["b\\udcffd_float32_0"]
    dump._repr_html_().encode()
    assert len(dump.array("b\\udcffd")) == 2


def test_every_file_the_peer_wrote_opens():
    for version in ("master_1.0.19", "wheel_1.0.18"):
        for part in ("save_and_compare", "grads", "nested_save", "save_edge"):
            folder = FIXTURES / version / part
            dump = open_dump(folder)
            assert len(dump) == len(list(folder.rglob("*.npy")))
            assert set(column(dump, "status")) == {"ok"}
            for name, source in zip(dump.names, dump.sources, strict=True):
                file = folder / f"{name}.npy"
                np.testing.assert_array_equal(
                    source.read(0, int(np.prod(source.shape))), np.load(file).reshape(-1)
                )


def test_the_bad_files_of_acceptance_case_18_are_rows_with_a_reason():
    dump = open_dump(FIXTURES / "inputs" / "npy")
    reasons = dict(zip(column(dump, "path"), column(dump, "reason"), strict=True))
    assert {name for name, reason in reasons.items() if not reason} == {
        *("good_0", "big_endian_7", "fortran_8")
    }
    assert reasons["truncated_1"].startswith("truncated")
    assert reasons["zero_byte_2"].startswith("empty file")
    assert reasons["garbage_3"].startswith("not a .npy file")
    assert reasons["object_4"].startswith("holds Python objects")
    assert reasons["string_5"].startswith("holds text")
    assert reasons["structured_6"].startswith("holds records")
    assert set(column(dump.select(status="unreadable"), "dtype")) == {""}


def test_case_18_compares_row_by_row():
    comparison = compare(FIXTURES / "inputs" / "npy", FIXTURES / "inputs" / "npy")
    verdicts = comparison.result["verdict"].values.tolist()
    assert len(verdicts) == 9
    assert verdicts.count("identical") == 3
    assert verdicts.count("unreadable") == 6
    for row in range(9):
        if verdicts[row] == "unreadable":
            assert comparison.result["left"].values[row]
            assert comparison.result["detail"].values[row]


def test_gradients_of_unusually_named_parameters_go_with_the_others(tmp_path):
    names = ["cls_token", "fc.weight", "fc.bias", "bn.gamma", "act_backward"]
    files = [f"{name}_float32_{number}" for number, name in enumerate(names)]
    dump = open_dump(filled(tmp_path / "torch_grads", *files))
    assert column(dump, "role") == [*["parameter"] * 4, "gradient"]
    # Without parameters beside them they are what their folder says.
    dump = open_dump(filled(tmp_path / "ms_grads", "ms.0_float32_0", "ms.1_float32_1"))
    assert column(dump, "role") == ["gradient", "gradient"]


def test_the_folder_is_known_by_its_own_name_also_as_a_dot(tmp_path, monkeypatch):
    folder = filled(tmp_path / "torch_grads", "x_float32_0")
    (folder / "sub").mkdir()
    for where, path in ((folder, "."), (folder / "sub", "..")):
        monkeypatch.chdir(where)
        dump = open_dump(path)
        assert dump.label == "torch_grads"
        assert column(dump, "direction") == ["backward"]


def test_one_file_is_a_dump_of_one_entry(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_4", "y_float32_5")
    dump = open_dump(folder / "y_float32_5.npy")
    assert column(dump, "name") == ["y_float32_5"]
    assert dump.label == "y_float32_5.npy"


def test_one_bad_file_is_a_dump_of_one_row(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"junk")
    assert column(open_dump(tmp_path / "x.npy"), "status") == ["unreadable"]


def test_broken_links_pipes_and_loops_are_rows(tmp_path):
    folder = filled(tmp_path / "d", "good_float32_0")
    (folder / "dangling_float32_1.npy").symlink_to("nowhere")
    (folder / "loop_float32_2.npy").symlink_to("loop_float32_2.npy")
    os.mkfifo(folder / "pipe_float32_3.npy")
    (folder / "to_folder_float32_4.npy").symlink_to(tmp_path)
    (folder / "good_link_float32_5.npy").symlink_to("good_float32_0.npy")
    dump = open_dump(folder)
    reasons = column(dump, "reason")
    assert column(dump, "path") == ["good", "dangling", "loop", "pipe", "to_folder", "good_link"]
    assert [bool(reason) for reason in reasons] == [False, True, True, True, True, False]
    assert "No such file" in reasons[1]
    assert "symbolic links" in reasons[2]
    assert "pipe" in reasons[3]


def test_linked_folders_are_not_followed_but_named(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_0", "sub/y_float32_1")
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "rank1").symlink_to(folder / "sub")
    dump = open_dump(folder)
    assert column(dump, "path") == ["x", "sub/y"]
    assert sorted(dump.notes) == [
        *("rank1 is a link to a folder: not followed", "up is a link to a folder: not followed")
    ]


def test_hidden_folders_and_macos_leftovers_are_not_arrays(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_0", ".ipynb_checkpoints/x_float32_0", ".cache/y")
    (folder / "._x_float32_0.npy").write_bytes(b"\0\5\x16\7")
    assert column(open_dump(folder), "name") == ["x_float32_0"]


def refuse_listing(monkeypatch, *names):
    """Root may list everything: play the folders that refuse."""
    scandir = os.scandir

    def refusing(path):
        if Path(path).name in names:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)


def test_a_folder_that_may_not_be_listed_is_a_note(tmp_path, monkeypatch):
    folder = filled(tmp_path / "d", "x_float32_0", "secret/y_float32_1", "rank1/z_float32_2")
    refuse_listing(monkeypatch, "secret")
    dump = open_dump(folder)
    assert column(dump, "path") == ["x", "z"]
    assert dump.notes == ("folder secret was not searched: Permission denied",)


def test_many_such_folders_are_few_notes(tmp_path, monkeypatch):
    secrets = [f"secret{k}" for k in range(12)]
    folder = filled(tmp_path / "d", "x_float32_0", *(f"{s}/y_float32_1" for s in secrets))
    refuse_listing(monkeypatch, *secrets)
    dump = open_dump(folder)
    assert len(dump.notes) == 6
    assert dump.notes[-1] == "7 more folders were not searched"


def test_a_root_that_may_not_be_listed_is_refused_with_the_reason(tmp_path, monkeypatch):
    folder = filled(tmp_path / "d", "x_float32_0")
    refuse_listing(monkeypatch, "d")
    with pytest.raises(FormatError, match="not searched: Permission denied"):
        open_dump(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and users")
def test_files_and_folders_without_permission_in_a_process_that_is_not_root(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_0", "locked_float32_1", "closed/y_float32_2")
    os.chmod(folder / "locked_float32_1.npy", 0)
    os.chmod(folder / "closed", 0o444)  # may be listed, not entered
    code = (
        "import os, sys; os.chdir(sys.argv[1])\n"
        "open_dump('.'), len(SENTENCES)  # imported while the project can be read\n"
        "os.getuid() or os.setuid(65534)\n"
        "dump = open_dump('.')\n"
        "print([r[:17] for r in dump.index['reason'].values], dump.notes)"
    )
    code = "from troubleshooter_nb.messages.sentences import SENTENCES\n" + code
    code = "from troubleshooter_nb import open_dump\n" + code
    if os.getuid() == 0:
        for up in (folder, *folder.parents[:3]):
            if up.stat().st_uid == 0 and up != Path("/tmp"):
                up.chmod(up.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    os.chmod(folder / "closed", 0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['', 'Permission denied', 'Permission denied'] ()"


def test_a_file_that_vanishes_or_shrinks_after_opening_is_an_unreadable_pair(tmp_path):
    left = filled(tmp_path / "left", "a_float32_0", "b_float32_1", "c_float32_2")
    right = filled(tmp_path / "right", "a_float32_0", "b_float32_1", "c_float32_2")
    dumps = open_dump(left), open_dump(right)
    (left / "a_float32_0.npy").unlink()
    os.truncate(right / "b_float32_1.npy", 100)
    comparison = compare(*dumps)
    assert comparison.result["verdict"].values.tolist() == ["unreadable", "unreadable", "identical"]
    details = comparison.result["detail"].values.tolist()
    assert "a_float32_0.npy: No such file" in details[0]
    assert "b_float32_1.npy changed since it was opened" in details[1]
    with pytest.raises(ReadError, match="No such file"):
        dumps[0].array("a")


def test_an_empty_folder_is_refused_also_when_this_reader_is_asked_for(tmp_path):
    with pytest.raises(FormatError, match=r"a folder without \.npy files"):
        open_dump(tmp_path)
    with pytest.raises(FormatError, match=r"no \.npy files in"):
        open_dump(tmp_path, format="npy_dir")


DTYPES = [
    *("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "uint64", "bool", "complex64", "complex128", "longdouble"),
    *(token for token in DTYPE_TOKENS if hasattr(ml_dtypes, token)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_dtype_survives_saving_bit_for_bit(tmp_path, dtype, shape):
    dtype = np.dtype(getattr(ml_dtypes, dtype)) if hasattr(ml_dtypes, dtype) else np.dtype(dtype)
    if dtype.name in ("complex32", "bcomplex32"):
        pytest.skip("no arithmetic of ours")
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(np.float32).astype(dtype)
    dump = open_dump(save_dump({"x": array}, tmp_path / "d", card=RunCard()))
    assert column(dump, "dtype") == [str(dtype)]
    got = dump.array("x")
    assert got.dtype == dtype
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()


BITS = {"float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8, "bfloat16": np.uint16}


@pytest.mark.parametrize("token", BITS)
def test_all_bit_patterns_of_narrow_floats_survive(tmp_path, token):
    bits = np.arange(2 ** (8 * BITS[token]().itemsize), dtype=BITS[token])
    array = bits.view(getattr(ml_dtypes, token))
    got = open_dump(save_dump({"x": array}, tmp_path / "d", card=RunCard())).array("x")
    np.testing.assert_array_equal(got.view(BITS[token]), bits)


@pytest.mark.torch
@pytest.mark.parametrize("token", BITS)
def test_narrow_torch_tensors_survive_saving(tmp_path, token):
    import torch

    carrier = torch.uint8 if BITS[token] is np.uint8 else torch.int16
    bits = np.arange(2 ** (8 * BITS[token]().itemsize), dtype=BITS[token])
    signed = bits.view(np.uint8 if BITS[token] is np.uint8 else np.int16).copy()
    tensor = torch.from_numpy(signed).view(carrier).view(getattr(torch, token))
    tensors = {"flat": tensor, "square": tensor.reshape(2, -1).T, "one": tensor[3]}
    dump = open_dump(save_dump(tensors, tmp_path / "d", card=RunCard()))
    assert set(column(dump, "dtype")) == {token}
    np.testing.assert_array_equal(dump.array("flat").view(BITS[token]), bits)
    np.testing.assert_array_equal(dump.array("square").view(BITS[token]), bits.reshape(2, -1).T)
    assert dump.array("one").view(BITS[token]) == bits[3]


@pytest.mark.mindspore
@pytest.mark.parametrize("token", BITS)
def test_narrow_mindspore_tensors_survive_saving(tmp_path, token):
    import mindspore

    values = np.array([[0.0, -0.5, 3.0], [np.inf, 1.0, -2.0]], np.float32)
    if token == "float8_e4m3fn":
        values[1, 0] = 448.0
    tensor = mindspore.Tensor(values, getattr(mindspore, token))
    tensors = {"x": tensor, "one": mindspore.Tensor(-2.0, getattr(mindspore, token))}
    if token == "bfloat16":  # MindSpore 2.10 makes no float8 parameters
        tensors["p"] = mindspore.Parameter(tensor)
    dump = open_dump(save_dump(tensors, tmp_path / "d"))
    assert set(column(dump, "dtype")) == {token}
    for name in tensors.keys() - {"one"}:
        np.testing.assert_array_equal(dump[name].values, values)
    assert dump["one"].values == -2


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6)[::2, ::-3],
        np.arange(24.0).reshape(4, 6).T,
        np.arange(6, dtype=">f4"),
        np.broadcast_to(np.float32(3), (2, 5)),
        np.arange(8, dtype=ml_dtypes.bfloat16).reshape(2, 4).T[1:],
        np.arange(8, dtype=ml_dtypes.bfloat16)[::-2],
    ],
    ids=range(6),
)
def test_arrays_of_any_layout_survive_saving(tmp_path, array):
    dump = open_dump(save_dump({"x": array}, tmp_path / "d", card=RunCard()))
    np.testing.assert_array_equal(dump.array("x"), array)
    assert dump.array("x").dtype == array.dtype


def test_saving_takes_numbers_and_lists(tmp_path):
    dump = open_dump(save_dump({"n": 3, "x": 0.5, "l": [[1, 2], [3, 4]]}, tmp_path / "d"))
    assert column(dump, "shape") == [(), (), (2, 2)]
    assert dump.array("n") == 3


def test_saving_keeps_the_order_of_the_mapping_and_makes_folders(tmp_path):
    names = ["z", "a", "m/n/o", "b", *(f"x{k}" for k in range(10))]
    dump = open_dump(save_dump(dict.fromkeys(names, 1.0), tmp_path / "a" / "b"))
    assert column(dump, "path") == names


@pytest.mark.parametrize(
    "name",
    [
        *("", "/x", "x/", "a//b", ".", "..", "../x", "a/../../x", "a/./b", "/", "a\\b", "nul\0l"),
        *("x" * 300, "权" * 100, "ok/" + "y" * 300, ".hidden/x", "._x", "lone \ud800 surrogate"),
    ],
)
def test_names_that_leave_the_folder_or_fit_no_file_are_refused_before_writing(tmp_path, name):
    with pytest.raises(ValueError, match=r"cannot save under the name|surrogates not allowed"):
        save_dump({"fine": np.ones(2), name: np.ones(2)}, tmp_path / "d")
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["d"])


@pytest.mark.parametrize(
    "value",
    ["text", object(), None, [[1], [2, 3]], np.array(["a"]), np.zeros(2, "M8[s]"), {"a": 1}],
)
def test_values_without_numbers_are_refused_and_nothing_stays(tmp_path, value):
    with pytest.raises(ValueError, match="'bad': "):
        save_dump({"fine": np.ones(2), "bad": value}, tmp_path / "d")
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["d"])


def test_a_second_save_replaces_files_of_the_same_name_and_warns_about_others(tmp_path):
    folder = save_dump({"a": np.ones(2), "b": np.ones(2)}, tmp_path / "d")
    save_dump({"a": np.zeros(2), "b": np.zeros(2)}, folder)
    assert open_dump(folder).array("a").sum() == 0
    with pytest.warns(
        TroubleshooterWarning, match="holds 1 arrays of an earlier save.*b_float64_1"
    ):
        save_dump({"a": np.ones(2)}, folder)


def test_saved_files_may_be_read_like_any_other(tmp_path):
    mask = os.umask(0o022)
    try:
        folder = save_dump({"a/x": np.ones(2)}, tmp_path / "d")
    finally:
        os.umask(mask)
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)


SLOW_SAVE = """
import sys, time
import numpy as np
from troubleshooter_nb import save_dump

class Slow(dict):
    def values(self):
        for number in range(1000):
            print(number, flush=True)
            yield np.full((256, 1024), float(number))
            time.sleep(0.01)

save_dump(Slow({f"x{k}": 0 for k in range(1000)}), sys.argv[1])
"""


def test_a_killed_save_leaves_no_half_dump(tmp_path):
    folder = filled(tmp_path / "d", "old_float32_0")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_SAVE, str(folder)], stdout=subprocess.PIPE, text=True
    )
    with process:
        for line in process.stdout:
            if line.strip() == "5":
                break
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left_behind = [path.name for path in folder.iterdir() if path.name.startswith(".writing-")]
    assert len(left_behind) == 1
    assert column(open_dump(folder), "name") == ["old_float32_0"]


def test_an_interrupted_save_cleans_up(tmp_path):
    class Interrupted(dict):
        def values(self):
            yield np.ones(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_dump(Interrupted({"a": 0, "b": 0}), tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


def test_the_run_card_is_written_and_read_back(tmp_path):
    card = RunCard({"framework": "torch", "seed": 3, "tf32": False, "note": "网络", "lr": 1e-3})
    dump = open_dump(save_dump({"x": np.ones(2)}, tmp_path / "d", card=card))
    assert dump.card.to_dict() == card.to_dict()
    assert dump.notes == ()


def test_without_a_card_what_this_process_knows_is_written(tmp_path):
    dump = open_dump(save_dump({"x": np.ones(2)}, tmp_path / "d"))
    assert any(np.__version__ == value for value in dump.card.facts.values())


def test_facts_json_does_not_know_are_written_as_text(tmp_path):
    card = RunCard({"seed": np.int64(3), "path": Path("x")})
    dump = open_dump(save_dump({"x": np.ones(2)}, tmp_path / "d", card=card))
    assert dump.card.to_dict() == {"seed": "3", "path": "x"}


def test_the_card_of_the_first_rank_serves_a_dump_of_ranks(tmp_path):
    for rank in (1, 0):
        card = RunCard({"rank": rank})
        save_dump({"x": np.ones(2)}, tmp_path / "d" / f"rank{rank}", card=card)
    assert open_dump(tmp_path / "d").card.to_dict() == {"rank": 0}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "empty file"),
        ("not json", "Expecting value"),
        ("{", "run_card.json was not read"),
        ("[1, 2]", "not a JSON object"),
        ("3", "not a JSON object"),
        ("[" * 60000, "run_card.json was not read"),
        ('{"a":' * 10000, "run_card.json was not read"),
        ('{"a": "' + "x" * 70000 + '"}', "larger than 65,536 bytes"),
        (b"\xff\xfe\x00bad", "run_card.json was not read"),
        ('{"a": ' + "9" * 10000 + "}", "run_card.json was not read"),
    ],
)
def test_a_hostile_run_card_is_only_a_note(tmp_path, text, note):
    folder = filled(tmp_path / "d", "x_float32_0")
    (folder / "run_card.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    started = time.process_time()
    dump = open_dump(folder)
    assert len(dump) == 1
    assert dump.card.to_dict() == {}
    assert len(dump.notes) == 1
    assert dump.notes[0].startswith("run_card.json was not read: ")
    assert note in dump.notes[0]
    assert len(dump.notes[0]) < 300
    assert time.process_time() - started < 5


def test_a_run_card_keeps_plain_facts_only(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_0")
    facts = {"a": 1, "nested": {"b": [1, {}]}, "list": [1], "lone": "\ud800", "x" * 500: "y" * 500}
    (folder / "run_card.json").write_text(json.dumps(facts))
    card = open_dump(folder).card.to_dict()
    assert card["a"] == 1
    assert "nested" not in card
    assert "list" not in card
    json.dumps(card, ensure_ascii=False).encode()  # no lone surrogate is left
    assert max(len(str(key)) + len(str(value)) for key, value in card.items()) <= 400


def test_a_run_card_that_is_no_file_is_passed_over(tmp_path):
    folder = filled(tmp_path / "d", "x_float32_0")
    os.mkfifo(folder / "run_card.json")
    dump = open_dump(folder)
    assert dump.card.to_dict() == {}


def test_two_thousand_files_open_in_a_moment(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    content = (filled(tmp_path, "x") / "x.npy").read_bytes()
    for number in range(2000):
        (folder / f"layers.{number // 10}.w{number % 10}_float32_{number}.npy").write_bytes(content)
    started = time.process_time()
    dump = open_dump(folder)
    # Measured 0.3 s; ten times that is a sign of reading more than headers.
    assert time.process_time() - started < 3.0
    assert len(dump) == 2000


def test_the_refusal_of_other_paths(tmp_path):
    (tmp_path / "x.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe.npy")
    assert npy_dir.refusal(tmp_path / "x.txt") == "a file, but not .npy"
    assert npy_dir.refusal(tmp_path / "pipe.npy") == "neither a folder nor a file"
    (tmp_path / "dump.json").write_text("{}")
    assert npy_dir.refusal(tmp_path) == "holds dump.json, so it is a dump of msprobe"


def test_files_are_named_as_the_folder_was_given(tmp_path, monkeypatch):
    (tmp_path / "sub.a").mkdir()
    (tmp_path / "sub").mkdir()
    filled(tmp_path, "x_float32_0", "sub/y_float32_1", "sub.a/z_float32_2")
    monkeypatch.chdir(tmp_path)
    names = ["x_float32_0.npy", "sub/y_float32_1.npy", "sub.a/z_float32_2.npy"]
    for folder, front in ((".", ""), (tmp_path, f"{tmp_path}/"), ("sub/..", "sub/../")):
        assert [source.path for source in open_dump(folder).sources] == [front + n for n in names]
    assert [source.path for source in open_dump("x_float32_0.npy").sources] == names[:1]


def test_without_numbers_the_order_is_that_of_the_names_by_their_parts(tmp_path):
    for folder in ("a.b", "a", "a-b"):
        (tmp_path / folder).mkdir()
    filled(tmp_path, "a.b/x", "a/x", "a-b/x", "a/x_10", "a/x_9")
    assert open_dump(tmp_path).names == ["a-b/x", "a.b/x", "a/x", "a/x_9", "a/x_10"]


def dump_of_places(*places):
    """Two arrays in each step and rank, of which the second is of bfloat16."""
    entries = []
    for step, rank in places:
        values = np.arange(3.0) + 10 * step + rank
        for name, array in (("fc.weight", values), ("fc.bias", values.astype(ml_dtypes.bfloat16))):
            site = Site("file", name, role="parameter")
            entries.append(Entry(name, site, ArrayInMemory(array), step, rank))
    return Dump.from_entries(entries, label="d")


@pytest.mark.parametrize("places", [[(0, 0), (0, 1), (2, 0), (2, 1)], [(3, 0)], [(0, 0)]])
def test_a_dump_of_steps_and_ranks_is_read_back_to_the_same(tmp_path, places):
    again = open_dump(save_dump(dump_of_places(*places), tmp_path / "out"))
    assert [*zip(column(again, "step"), column(again, "rank"), strict=True)] == [
        place for place in places for _ in range(2)
    ]
    assert set(again.names) == {"fc.weight_float64_0", "fc.bias_bfloat16_1"}
    assert (tmp_path / "out/fc.weight_float64_0.npy").exists() == (places == [(0, 0)])
    for step, rank in places:
        one = again.select(step=step, rank=rank)
        assert one.array("fc.weight").tolist() == [10 * step + rank + k for k in range(3)]
        assert one.array("fc.bias").dtype == ml_dtypes.bfloat16
        assert one.array("fc.bias").astype(float).tolist() == one.array("fc.weight").tolist()


@pytest.mark.parametrize("name", ["folder", "x.pth"])
def test_numbers_and_texts_of_calls_are_left_out_and_counted(tmp_path, name):
    value = Entry("n", Site("api", "n"), dtype="int", value="3")
    dump = dump_of_places((0, 0))
    tensors = [
        Entry(name, Site("file", name), source)
        for name, source in zip(dump.names, dump.sources, strict=True)
    ]
    both = Dump.from_entries([value, *tensors, value._replace(name="m")], label="d")
    with pytest.warns(TroubleshooterWarning, match="'d': 2 numbers, texts or null") as caught:
        path = save_dump(both, tmp_path / name)
    assert caught[0].filename == __file__
    assert len(open_dump(path)) == 2
    known = Entry("s", Site("api", "s"), dtype="float32", shape=(2,), statistics={"max": 1.0})
    with pytest.raises(ValueError, match="'s' of 'd' cannot be read: the dump holds no values"):
        save_dump(Dump.from_entries([known], label="d"), tmp_path / f"other-{name}")
    assert not (tmp_path / f"other-{name}").exists()
