"""What these calls say, in Chinese; headings, words of cells and labels of the tool stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compat.ptdbg_ascend.dumps import DATA, LINEAR, headings, param, run, table, v4, written
from tests.messages.rules import english_left
from troubleshooter_nb.compat.ptdbg_ascend import compare, compare_distributed, register_hook
from troubleshooter_nb.errors import TroubleshooterError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.options import option_context

ONES = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def _chinese():
    with option_context(language="zh"):
        yield


def test_refusals_say_what_to_do(tmp_path):
    rank = run(tmp_path / "rank", {LINEAR[2]: ONES})
    torn = written(tmp_path / "torn", [[LINEAR[2], 0, []]])
    odd = param(rank, torn, arrays=False)
    hooks = {**param(rank, rank, arrays=False), "npu_pkl_path": DATA / "module_full/npu.pkl"}
    calls = [
        (lambda: compare(odd, tmp_path), "请重新 dump，或用"),
        (lambda: compare(hooks, tmp_path), "torch_npu.hooks 的行"),
        (lambda: compare({**v4(), "npu_pkl_path": "."}, tmp_path), "是文件夹；请指定其中的"),
        (lambda: compare({**v4(), "npu_dump_data_dir": ""}, tmp_path), "缺少 npu_dump_data_dir；"),
        (lambda: compare(v4(), tmp_path, release="0"), "不能是 '0'"),
        (lambda: compare_distributed(rank, rank, tmp_path), "没有 rank0、rank1 等文件夹"),
        (register_hook, "不提供 register_hook；请用其后继工具"),
    ]
    for call, said in calls:
        with pytest.raises(TroubleshooterError, match=said) as caught:
            call()
        message = caught.value.args[0]
        assert isinstance(message, Message)
        assert not english_left(message)


def test_the_table_has_its_headings_and_chinese_messages(tmp_path, capsys):
    tensors = dict.fromkeys(LINEAR, ONES)
    left, right = run(tmp_path / "left", tensors), run(tmp_path / "right", tensors)
    (left / f"dump/{LINEAR[0]}.npy").unlink()
    np.save(right / f"dump/{LINEAR[2]}.npy", -ONES)
    path = compare(param(left, right, log=True), tmp_path / "out")
    assert headings(path)[-2:] == ["Accuracy Reached or Not", "Err_message"]
    rows = table(path)
    assert rows[0]["Err_message"] == f"NPU：dump 中没有 {LINEAR[0]}.npy"
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Nan", "Yes", "No"]
    printed = capsys.readouterr().out
    assert f"表格为 {path}" in printed
    assert "Expert Advice: 该调用的输入一致而输出不一致" in printed
