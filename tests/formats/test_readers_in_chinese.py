"""What readers of dumps say of damaged and foreign things, in Chinese."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.messages.rules import CHINESE, english_in
from troubleshooter_nb import open_dump
from troubleshooter_nb.formats import FORMATS
from troubleshooter_nb.formats.series import open_series
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.options import option_context

DATA = Path(__file__).parents[1] / "data"


def npy_dir(folder):
    np.save(folder / "fc_float32_0.npy", np.zeros(100, np.float32))
    data = (folder / "fc_float32_0.npy").read_bytes()
    (folder / "fc_float32_0.npy").write_bytes(data[:200])
    (folder / "away").symlink_to(DATA, target_is_directory=True)
    (folder / "run_card.json").write_text("[1]")
    (folder / "net.ckpt").write_bytes(b"x")
    return folder


def async_npy(folder):
    name = "1_Torch_add_forward_input0_shape[9]_stride[1]_offset[0]_format[2].npy"
    np.save(folder / name, np.zeros(3, np.float32))
    np.save(folder / "other.npy", np.zeros(3, np.float32))
    return folder


def print_text(folder):
    head = "_TS_SAVE_NAME:{}\nTensor(shape=[2], dtype=Float32, value="
    values = ("[1.0 ... 2.0])", "[1.0 2.0", "[1.0 2.0 3.0])", "[1.0])", "[1.0 x])")
    prints = [head.format(number) + text for number, text in enumerate(values)]
    (folder / "screen.txt").write_text("\n".join([*prints, "_TS_SAVE_NAME:6", "nothing", ""]))
    return folder / "screen.txt"


def polygraphy_json(folder):
    stream = io.BytesIO()
    np.save(stream, np.zeros(100, np.float32))
    text = base64.b64encode(stream.getvalue()).decode()
    outputs = {
        "cut": {"array": text[:240], "polygraphy_class": "ndarray"},
        "odd": {"array": text[:239], "polygraphy_class": "ndarray"},
        "torch": {"values": {"array": "x", "polygraphy_class": "Tensor"}},
        "old": {"array": "\u00e9", "polygraphy_class": "ndarray"},
    }
    results = {"lst": [["onnx", [{"outputs": outputs}]]], "polygraphy_class": "RunResults"}
    (folder / "outputs.json").write_text(json.dumps(results))
    return folder / "outputs.json"


def api_dump(folder):
    shutil.copytree(DATA / "api_dump" / "pt_dump", folder / "d")
    info = next((folder / "d" / "rank0").glob("*_info.csv"))
    lines = info.read_text().splitlines(keepends=True)
    text = "".join(lines)
    lines[1] = "nonsense\n"
    lines[2] = lines[2].replace("[2, 4, 4, 4]", "[2, 4, -4, 4]")
    again = [line for line in lines if "_forward" in line]
    info.write_text("".join([*lines, *again, lines[-1][:40]]))
    for file in (folder / "d" / "rank0" / "torch_api_dump").glob("*.npy"):
        if json.dumps(file.stem) in text.splitlines()[2]:
            file.unlink()
    (folder / "d" / "rank0" / "torch_api_dump_stack.json").write_text("[]")
    return folder / "d"


def kernel_dir(folder):
    source = DATA / "kernel" / "kernel_synthetic" / "npu_stat" / "rank0" / "Net" / "0" / "0"
    text = (source / "statistic.csv").read_text()
    rows = text.splitlines()
    (folder / "statistic.csv").write_text("\n".join([*rows[:3], "short,row", ""]))
    np.save(folder / "other.npy", np.zeros(1, np.float32))
    (folder / "mapping.csv").touch()
    return folder


def msprobe_dir(folder):
    source = next((DATA / "msprobe" / "v8_3_3" / "torch" / "t_mlp_mix_tensor").rglob("dump.json"))
    for rank in (0, 2):
        shutil.copytree(source.parent, folder / "step1" / f"rank{rank}")
    (folder / "step1" / "rank2" / "dump.json").write_text('{"task": "tensor", "data": {')
    first = folder / "step1" / "rank0"
    next((first / "dump_tensor_data").iterdir()).unlink()
    (first / "dump_tensor_data" / "other.npy").touch()
    (first / "stack.json").write_text("[]")
    (folder / "step3" / "rank0").mkdir(parents=True)
    return folder


def hooks_file(folder):
    file = folder / "x.pkl"
    names = [f"{number}_Torch_add_forward_output" for number in range(9)]
    lines = [
        json.dumps([names[0], [1.0, 2.0], "torch.float16", [2]]),
        json.dumps([names[1], [1.0, 2.0], "torch.float32", [3]]),
        json.dumps([names[2], [1.0, 2.0], "torch.float32", [-3]]),
        json.dumps([names[3], [1.0], "torch.float32", "x"]),
        json.dumps([names[4], [1.0], 3, 4, 5, 6, 7]),
        json.dumps([names[5], 1, 2]),
        json.dumps([names[0], [1.0, 2.0], "torch.float16", [2]]),
        "nonsense",
        f'["{names[8]}", [1.0, 2.0',
    ]
    file.write_text("\n".join(lines))
    return file


def ptdbg(folder):
    source = DATA / "torch_npu_hooks" / "ptdbg" / "v4" / "npu"
    shutil.copytree(source, folder / "npu")
    np.save(next((folder / "npu").rglob("*.npy")), np.array(["x"]))
    return folder / "npu"


BROKEN = (
    *(npy_dir, async_npy, print_text, polygraphy_json, api_dump, kernel_dir),
    *(msprobe_dir, hooks_file, ptdbg),
)


def assert_chinese(texts):
    assert texts
    for text in texts:
        assert isinstance(text, Message), text
        shown = text.told("zh")
        assert CHINESE.search(shown), shown
        # Texts of Python's own readers are no words of ours.
        foreign = re.sub(r"Expecting [\w ']+|Invalid [\w ]+|Unterminated [\w ]+", "", shown)
        assert not english_in(foreign), shown


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_notes_and_reasons_of_a_damaged_dump_are_chinese(tmp_path, broken):
    dump = open_dump(broken(tmp_path))
    reasons = [reason for reason in dump.index["reason"].values if reason]
    assert reasons or broken is kernel_dir
    assert_chinese([*dump.notes, *reasons])
    for text in [*dump.notes, *reasons]:
        with option_context(language="zh"):
            assert told(text) == text.told("zh") != str(text)


@pytest.mark.parametrize("reader", FORMATS, ids=lambda reader: reader.name)
def test_what_a_reader_refuses_it_refuses_in_chinese(tmp_path, reader):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("nothing")
    (tmp_path / "text.json").write_text("{}")
    (tmp_path / "text.pkl").write_text('["x", 1]')
    refusals = (reader.refusal(path) for path in sorted(tmp_path.iterdir()))
    assert_chinese([refusal for refusal in refusals if refusal is not None])


@pytest.mark.parametrize(
    "text",
    [
        "step,loss\n1,2.0\n2,1.9,7\n,3.0\n2,1.8\n",
        "epoch 1 step 1 loss 2.0\nepoch 1 step 2 loss 1.9\nepoch 2 step 1 loss 1.8\n",
        "loss 2.0\nloss 1.9\n",
        "epoch 1 loss 2.0\nepoch 2 loss 1.9\n",
    ],
)
def test_notes_of_a_log_are_chinese(tmp_path, text):
    (tmp_path / "log.txt").write_text(text)
    assert_chinese(open_series(tmp_path / "log.txt").notes)


@pytest.mark.parametrize("text", ["nothing", "[1]", '[{"a": 1}]', "[[1", '{"a": 1} x\n', "\0"])
def test_why_a_file_is_no_series_is_chinese(tmp_path, text):
    (tmp_path / "log.txt").write_text(text)
    with option_context(language="zh"), pytest.raises(ValueError, match=r"^log\.txt：") as caught:
        open_series(tmp_path / "log.txt")
    assert_chinese([caught.value.args[0]])


def test_a_folder_above_dumps_is_refused_in_chinese():
    with (
        option_context(language="zh"),
        pytest.raises(ValueError, match="含有 4 份 dump 数据") as caught,
    ):
        open_dump(DATA / "api_dump")
    assert_chinese([caught.value.args[0]])
