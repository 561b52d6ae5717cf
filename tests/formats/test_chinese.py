"""What readers say of a file that is not as it should be, in Chinese."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile

import numpy as np
import pytest

from tests.formats.test_checkpoint_dir import saved
from tests.formats.test_ckpt import record
from tests.formats.test_npz import archive
from tests.formats.test_pth import TORCH, tensor, zipped
from tests.formats.test_safetensors import entry, with_header
from tests.formats.test_sharded import index
from troubleshooter_nb import open_dump, save_dump
from troubleshooter_nb.errors import (
    ArgumentError,
    FormatError,
    PathNotFoundError,
    ReadError,
    TroubleshooterWarning,
    UnknownFormatError,
)
from troubleshooter_nb.messages import ids_of, told
from troubleshooter_nb.options import option_context


@pytest.fixture(autouse=True)
def _chinese():
    with option_context(language="zh"):
        yield


def said(path):
    """What a dump says of its entries and of itself, in the language in force."""
    dump = open_dump(path)
    reasons = zip(dump.names, dump.index["reason"].values, strict=True)
    return {name: told(why) for name, why in reasons if why}, [told(note) for note in dump.notes]


def test_a_truncated_array(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(8.0))
    os.truncate(tmp_path / "x.npy", 150)
    [reason] = said(tmp_path)[0].values()
    assert (
        "文件被截断：(8,)（float64）需要 64 字节，文件只有 22 字节；请重新复制或重新保存" in reason
    )


def test_an_archive_of_arrays(tmp_path):
    path = archive(
        tmp_path, {"a.npy": np.array(["text"]), "b.npy": np.ones(2), "read.me": b"hello"}
    )
    reasons, notes = said(path)
    assert reasons == {"a": "其中是文本或日期（<U4），不是数值"}
    assert notes == ["未读取，不是数组：read.me"]


def test_damage_found_on_reading(tmp_path):
    path = archive(tmp_path, {"w.npy": np.zeros(4000)}, zipfile.ZIP_STORED)
    dump = open_dump(path)
    content = bytearray(path.read_bytes())
    content[20_000] ^= 1
    stamp = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(stamp, stamp))
    with pytest.raises(ReadError, match=r"x.npz：'w.npy' 已损坏：CRC-32 与内容不符"):
        dump.array("w")


def test_tensors_of_mindspore(tmp_path):
    path = tmp_path / "x.ckpt"
    path.write_bytes(
        record("w", "Float32", [1], bytes(8))
        + record("h", "HiFloat8", [1], b"\0")
        + record("t", "str", [1], "hello".encode("utf-32-le"))
    )
    reasons, notes = said(path)
    assert reasons == {
        "w": "形状 (1,) 需要 4 字节，实有 8 字节：文件已损坏",
        "h": "其中是 'HiFloat8' 类型的数值，无法读取",
    }
    assert notes == ["文本，不是张量：t='hello'"]
    os.truncate(path, path.stat().st_size - 3)
    with pytest.raises(
        FormatError, match=r"^x.ckpt：在 'h' 之后已损坏或被截断：.*；请重新复制或重新保存$"
    ):
        open_dump(path)


def test_tensors_of_torch(tmp_path):
    path = tmp_path / "x.pth"
    value = {"w": tensor((2,), (1,)), "v": tensor((9,), (1,)), "epoch": "three"}
    reasons, notes = said(zipped(path, value, {"0": bytes(24)}))
    assert reasons == {"v": "形状 (9,)（float32）需要 9 个元素的存储，实有 6 个；文件已损坏"}
    assert notes == ["不是张量：epoch"]


def test_a_damaged_pickle(tmp_path):
    (tmp_path / "x.pth").write_bytes(b"\x80\x02}X")
    with pytest.raises(FormatError) as caught:
        open_dump(tmp_path / "x.pth")
    assert re.fullmatch(
        r"x.pth：不是完好的 torch 文件：pickle 在第 3 字节处已损坏：.*；请重新复制或重新保存",
        str(caught.value),
    )
    assert ids_of(caught.value.args[0]) == ["files.in_file", "files.copy_or_save"]


def test_a_part_of_a_distributed_checkpoint_that_is_gone(tmp_path):
    folder = shutil.copytree(TORCH / "distributed", tmp_path / "folder")
    next(folder.glob("*.distcp")).unlink()
    reasons, _ = said(folder)
    assert set(reasons.values()) == {"__0_0.distcp：没有该文件或文件夹"}


def test_tensors_of_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header({"a": entry("F4"), "b": entry(offsets=(8, 16))}, bytes(20)))
    reasons, notes = said(path)
    assert reasons == {"a": "dtype 'F4' 不予读取"}
    assert notes == ["文件中有 4 字节不属于任何张量"]
    path.write_bytes(with_header({"a": entry(offsets=(0, 4))}, bytes(4)))
    with pytest.raises(FormatError) as caught:
        open_dump(path)
    what = "x.safetensors：条目 'a'：形状 (2,)（float32）需要 8 字节，实有 4 字节"
    assert str(caught.value) == f"{what}；文件已损坏，请重新复制或重新保存"


def test_shards(tmp_path):
    saved(tmp_path / "a.safetensors", 1.0)
    path = index(
        tmp_path, {"fc.weight": "a.safetensors", "x": "a.safetensors", "y": "b.safetensors"}
    )
    reasons, notes = said(path)
    assert reasons == {
        "x": "a.safetensors 中没有它；请重新下载或重新保存",
        "y": "b.safetensors：没有该文件或文件夹",
    }
    assert notes[0] == "分片中有而 model.safetensors.index.json 中没有：fc.bias"
    assert notes[1] == "不完整：3 个张量中有 2 个无法读取"
    path.write_text(json.dumps([]))
    with pytest.raises(FormatError, match="：索引不是 JSON 对象；请重新复制或重新保存"):
        open_dump(path)


def test_ranks(tmp_path):
    saved(tmp_path / "mp_rank_00_000/x.safetensors", 1.0)
    (tmp_path / "mp_rank_00_001").mkdir()
    (tmp_path / "mp_rank_00_001/x.ckpt").write_bytes(b"nothing of ours")
    (tmp_path / "mp_rank_00_002").mkdir()
    reasons, notes = said(tmp_path)
    [reason] = reasons.values()
    assert reason.startswith("x.ckpt：不是 MindSpore 的权重文件：")
    assert notes == [
        "按文件夹的顺序为 rank 编号：mp_rank_00_000 为 0、mp_rank_00_001 为 1、mp_rank_00_002 为 2",
        "mp_rank_00_002 中没有权重文件",
    ]


def test_paths(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(FileNotFoundError, match=r"没有该文件或文件夹：.*；其中有 'runs'") as caught:
        open_dump(tmp_path / "rums")
    assert isinstance(caught.value, PathNotFoundError)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(
        UnknownFormatError, match=r"(?s)未能识别 .*各读取器的回答：.*\n  ckpt：开头不是 MindSpore"
    ):
        open_dump(tmp_path / "notes.txt")


def test_what_cannot_be_saved(tmp_path):
    with pytest.warns(
        TroubleshooterWarning, match="^写出的 x.pth 缺少 1 个张量：a：torch 没有 int4$"
    ):
        save_dump(save_dump_of_int4(tmp_path), tmp_path / "x.pth")
    (tmp_path / "y.npz").write_bytes(b"")
    with pytest.raises(ArgumentError, match="权重文件不含运行信息卡"):
        save_dump({"a": np.ones(1)}, tmp_path / "z.pth", card=open_dump(tmp_path / "x.pth").card)


def save_dump_of_int4(tmp_path):
    """A dump with one tensor of int4 and one of float32."""
    path = tmp_path / "int4.ckpt"
    path.write_bytes(record("a", "Int4", [2], bytes(2)) + record("b", "Float32", [1], bytes(4)))
    return open_dump(path)
