"""`verify` finds one flipped bit in whatever is written here, and calls nothing intact unseen."""

from __future__ import annotations

import json
import os
import random
import shutil
import zipfile
import zlib

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.formats.recorded import recorded
from troubleshooter_nb import Dump, export, open_dump, save, save_dump, verify
from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.errors import PathNotFoundError, UnknownFormatError
from troubleshooter_nb.formats import checksums

DRAWS, LONG_DRAWS = 12, 400
ARRAYS = {
    "fc.weight": np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32),
    "fc.bias": np.arange(70.0),
    "steps": np.array(7),
}
CHECKPOINTS = [".safetensors", ".ckpt", ".pth"]


def saved_folder(folder):
    return save_dump(ARRAYS, folder / "dump")


def saved_dump_of_ranks(folder):
    whole = Dump.from_arrays(ARRAYS)
    two = whole.index.assign(rank=("entry", np.array([0, 1, 1])))
    return save_dump(Dump(two, whole.sources, whole.label), folder / "dump")


def saved_calls(folder):
    for name, array in ARRAYS.items():
        save(folder / "dump" / name, array)
    return folder / "dump"


def checkpoint(suffix):
    return lambda folder: save_dump(ARRAYS, folder / f"net{suffix}")


def archive(folder, write=np.savez):
    write(folder / "net.npz", **ARRAYS)
    return folder / "net.npz"


def packed_archive(folder):
    return archive(folder, np.savez_compressed)


def recording(folder):
    return recorded(ARRAYS, folder)


def comparison(folder):
    pytest.importorskip("netCDF4")
    cmp = tnb.compare(ARRAYS, {**ARRAYS, "steps": np.array(8)})
    return export(cmp, folder / "cmp.nc")


WRITTEN = {
    "npy_dir": saved_folder,
    "npy_dir of ranks": saved_dump_of_ranks,
    **{suffix: checkpoint(suffix) for suffix in CHECKPOINTS},
    "npz": archive,
    "packed npz": packed_archive,
    "recording": recording,
}


def files_of(path):
    """The files that hold values, and the bytes of each that are values."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in (".npy", ".bin"))


def places(path):
    """Where values lie: of each tensor the file, the first byte and how many there are."""
    found = []
    for source in open_dump(path).sources:
        if hasattr(source, "spans"):
            found += [(source.path, *span) for span in source.spans]
        else:
            found.append((source.path, source.member.begin, source.member.packed))
    return found


def flip(file, at, bit):
    with open(file, "r+b") as stream:
        stream.seek(at)
        (byte,) = stream.read(1)
        stream.seek(at)
        stream.write(bytes([byte ^ (1 << bit)]))


def assert_flips_are_found(path, draws):
    draw, spans = random.Random(0), places(path)
    assert verify(path).passed, verify(path)
    for _ in range(draws):
        file, begin, length = draw.choice(spans)
        at, bit = begin + draw.randrange(length), draw.randrange(8)
        flip(file, at, bit)
        found = verify(path)
        assert found.exit_code == 1, (file, at, bit, found)
        flip(file, at, bit)
    assert verify(path).passed


@pytest.mark.parametrize("kind", WRITTEN)
def test_one_flipped_bit_is_found(kind, tmp_path):
    assert_flips_are_found(WRITTEN[kind](tmp_path), DRAWS)


@pytest.mark.long
@pytest.mark.parametrize("kind", WRITTEN)
def test_any_flipped_bit_is_found(kind, tmp_path):
    assert_flips_are_found(WRITTEN[kind](tmp_path), LONG_DRAWS)


def test_a_flipped_bit_in_a_saved_comparison_is_never_intact(tmp_path):
    file = comparison(tmp_path)
    assert verify(file).passed
    draw, whole = random.Random(0), file.read_bytes()
    figure = np.float64(tnb.open_comparison(file).to_dataset()["max_abs_error"].values.max())
    at = whole.index(figure.tobytes())
    for place in (at, at + 7):
        flip(file, place, draw.randrange(8))
        assert verify(file).exit_code == 1
        file.write_bytes(whole)


def test_only_the_damaged_entry_is_called_damaged(tmp_path):
    for suffix in (".safetensors", ".pth"):
        file = save_dump(ARRAYS, tmp_path / f"net{suffix}")
        (_, begin, _) = dict(zip(open_dump(file).names, places(file), strict=True))["fc.bias"]
        flip(file, begin + 3, 1)
        rows = verify(file).to_dataframe().set_index("name")
        assert rows.index[rows["status"] == "damaged"].tolist() == ["fc.bias"]
        assert set(rows["status"]) == {"damaged", "intact"}


def test_a_header_with_other_meaning_is_found(tmp_path):
    file = save_dump(ARRAYS, tmp_path / "net.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"[40,70]", b"[70,40]"))
    assert open_dump(file).array("fc.weight").shape == (70, 40)
    found = verify(file)
    assert found.exit_code == 1
    assert "intact" not in set(found.table["status"].values)


@pytest.mark.mindspore  # which brings safetensors
def test_a_file_that_another_program_wrote_again_has_no_checksum(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    from safetensors import safe_open

    file = save_dump(ARRAYS, tmp_path / "net.safetensors")
    with safe_open(file, "np") as opened:
        kept = opened.metadata()
        tensors = {name: np.array(opened.get_tensor(name) * 2) for name in opened.keys()}  # noqa: SIM118
    safetensors.save_file(tensors, file, metadata=kept)
    found = verify(file)
    assert found.exit_code == 2
    assert set(found.table["status"].values) == {"no_checksum"}


@pytest.mark.mindspore  # which brings safetensors
def test_other_programs_read_what_is_written(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    read = safetensors.load_file(save_dump(ARRAYS, tmp_path / "net.safetensors"))
    assert [*read] == [*ARRAYS]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)


def test_what_others_wrote_without_a_checksum_is_said_to_have_none(tmp_path):
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "x.npy", ARRAYS["fc.bias"])
    header = json.dumps({"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    plain = tmp_path / "x.safetensors"
    plain.write_bytes(len(header).to_bytes(8, "little") + header + b"\7")
    ckpt = save_dump(ARRAYS, tmp_path / "x.ckpt")
    ckpt.write_bytes(ckpt.read_bytes()[:-22])
    saved = saved_calls(tmp_path)
    for path in (saved, tmp_path / "folder", tmp_path / "folder" / "x.npy", plain, ckpt):
        found = verify(path)
        assert set(found.table["status"].values) == {"no_checksum"}, path
        assert (found.exit_code, found.passed) == (2, False)
        assert "no checksum" in repr(found)


@pytest.mark.torch
def test_a_zip_whose_checksums_torch_left_out_has_none(tmp_path):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.serialization, "set_crc32_options"):
        pytest.skip("this torch always writes them")
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"x": torch.ones(3)}, tmp_path / "x.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert verify(tmp_path / "x.pth").exit_code == 2
    assert open_dump(tmp_path / "x.pth").notes == ()


@pytest.mark.mindspore
def test_checksums_of_mindspore_are_read(tmp_path):
    mindspore = pytest.importorskip("mindspore")
    tensors = [{"name": "b", "data": mindspore.Tensor(ARRAYS["fc.weight"])}]
    tensors += [{"name": "a", "data": mindspore.Tensor(np.arange(6, dtype=np.int32))}]
    for format in ("ckpt", "safetensors"):
        file = tmp_path / f"x.{format}"
        mindspore.save_checkpoint(tensors, str(file), format=format, crc_check=True)
        assert_flips_are_found(file, 4)


@pytest.mark.mindspore
def test_mindspore_checks_what_is_written_here(tmp_path):
    mindspore = pytest.importorskip("mindspore")
    file = save_dump(ARRAYS, tmp_path / "net.ckpt")
    assert set(mindspore.load_checkpoint(str(file), crc_check=True)) == set(ARRAYS)
    flip(*places(file)[0][:2], 5)
    with pytest.raises(ValueError, match="Failed to read the checkpoint"):
        mindspore.load_checkpoint(str(file), crc_check=True)


def test_a_listed_array_that_is_gone_is_damage(tmp_path):
    folder = saved_folder(tmp_path)
    (folder / "fc.bias_float64_1.npy").unlink()
    found = verify(folder)
    assert found.exit_code == 1
    assert "listed, and not there" in repr(found)


def test_a_list_keeps_up_with_what_is_saved_and_replaced(tmp_path):
    folder = saved_folder(tmp_path)
    first = (folder / checksums.FILE).read_bytes()
    save_dump(ARRAYS, folder)
    assert (folder / checksums.FILE).read_bytes() == first
    save_dump({**ARRAYS, "fc.bias": np.ones(70)}, folder)
    assert verify(folder).passed
    save_dump({"other": np.ones(2)}, folder, exist="replace")
    assert (verify(folder).passed, len(verify(folder))) == (True, 1)
    save_dump({"inner/x": np.ones(2)}, folder, exist="replace")
    save_dump({"y": np.ones(2)}, folder, exist="replace")
    assert not (folder / "inner" / checksums.FILE).exists()


def test_a_list_is_what_sfv_tools_take(tmp_path):
    folder = saved_folder(tmp_path)
    for line in (folder / checksums.FILE).read_text().splitlines():
        name, crc = line.rsplit(" ", 1)
        assert int(crc, 16) == zlib.crc32((folder / name).read_bytes())


def test_an_array_that_came_back_from_before_is_sound_until_the_next_save(tmp_path):
    # As after a kill between the line and the file that it is of.
    folder = saved_folder(tmp_path)
    checksums.add_line(folder, "steps_int64_2.npy", 12345)
    assert verify(folder).passed


def test_an_array_in_another_order_is_summed_as_it_lies(tmp_path):
    big = np.asfortranarray(np.random.default_rng(0).standard_normal((900, 1300)))
    folder = save_dump({"big": big, "cut": big[::2, 3:]}, tmp_path / "dump")
    assert verify(folder).passed


def test_a_save_that_was_cut_off_does_not_pass(tmp_path):
    folder = saved_folder(tmp_path)
    (folder / ".placing-1-00000000-0-00000000").mkdir()
    (folder / ".placing-1-00000000-0-00000000" / "x.npy").write_bytes(b"x")
    assert verify(folder).exit_code == 2


def test_a_recording_that_was_not_closed_is_not_intact_as_a_whole(tmp_path):
    run = recording(tmp_path)
    index = run / "rank0" / "index.jsonl"
    *lines, _ = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join(lines))
    rows = verify(run).to_dataframe().set_index("name")
    assert rows.loc["index.jsonl", "status"] == "no_checksum"


def test_a_changed_line_of_a_recording_is_found(tmp_path):
    run = recording(tmp_path)
    index = run / "rank0" / "index.jsonl"
    index.write_bytes(index.read_bytes().replace(b"[40,70]", b"[70,40]"))
    rows = verify(run).to_dataframe().set_index("name")
    assert rows.loc["index.jsonl", "status"] == "damaged"


def test_what_cannot_be_opened_is_an_error_and_what_its_checksum_betrays_is_damaged(tmp_path):
    with pytest.raises(PathNotFoundError, match="nothing"):
        verify(tmp_path / "nothing")
    (tmp_path / "x.yaml").write_text("a: 1\n")
    with pytest.raises(UnknownFormatError, match="was not recognised"):
        verify(tmp_path / "x.yaml")
    file = save_dump(ARRAYS, tmp_path / "net.ckpt")
    flip(file, 3, 0)
    assert verify(file).exit_code == 1


def test_a_zip_with_a_damaged_pickle_is_damaged(tmp_path):
    file = save_dump(ARRAYS, tmp_path / "net.pth")
    with zipfile.ZipFile(file) as opened:
        at = opened.getinfo("archive/data.pkl").header_offset + 100
    flip(file, file.read_bytes().index(b"fc.weight", at - 100), 1)
    assert verify(file).exit_code == 1


def test_memory_does_not_grow_with_the_file(tmp_path):
    import tracemalloc

    sizes = []
    for count in (1 << 20, 1 << 22):
        file = save_dump({"x": np.zeros(count)}, tmp_path / f"{count}.safetensors")
        tracemalloc.start()
        assert verify(file).passed
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[1] < 1.5 * sizes[0]


def test_it_shows_and_exports_what_is_damaged_first(tmp_path):
    folder = saved_folder(tmp_path)
    flip(folder / "steps_int64_2.npy", 130, 0)
    found = verify(folder)
    assert repr(found).splitlines()[0] == "✗ dump · 1 damaged · 2 intact"
    assert repr(found).splitlines()[1].split()[:2] == ["damaged", "steps_int64_2"]
    html = found._repr_html_()
    assert html.index("steps_int64_2") < html.index("fc.bias_float64_1")
    for suffix in (".html", ".csv", ".json", ".md", ".txt"):
        assert "steps_int64_2" in export(found, tmp_path / f"found{suffix}").read_text()
    with tnb.option_context(language="zh"):
        assert "损坏" in repr(found)


def test_the_command_ends_with_what_was_found(tmp_path, capsys):
    folder = saved_folder(tmp_path)
    assert main(["verify", str(folder)]) == exit_codes.PASSED
    assert "3 intact" in capsys.readouterr().out
    flip(folder / "steps_int64_2.npy", 130, 0)
    assert main(["verify", str(folder), "--json"]) == exit_codes.DIFFERS
    rows = json.loads(capsys.readouterr().out)
    assert {row["status"] for row in rows} == {"intact", "damaged"}
    (folder / checksums.FILE).unlink()
    assert main(["verify", str(folder)]) == exit_codes.UNDECIDED
    assert main(["verify", str(tmp_path / "nothing")]) == exit_codes.UNDECIDED


def test_a_copy_without_the_list_is_not_called_intact(tmp_path):
    folder = saved_folder(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    for file in folder.glob("*.npy"):
        shutil.copy(file, other)
    assert verify(other).exit_code == 2
    assert os.path.exists(folder / checksums.FILE)
