"""What these calls say, in Chinese; the word by which scripts know an overflow stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from troubleshooter_nb.compat.torch_npu.hooks import set_dump_path
from troubleshooter_nb.compat.torch_npu.hooks.refusals import OverflowStopError
from troubleshooter_nb.compat.torch_npu.hooks.tools import compare
from troubleshooter_nb.messages import Message
from troubleshooter_nb.options import option_context

DATA = Path(__file__).parents[2] / "data/torch_npu_hooks"


@pytest.fixture(autouse=True)
def _chinese():
    with option_context(language="zh"):
        yield


def test_a_refusal_says_what_to_do(tmp_path):
    with pytest.raises(RuntimeError, match=r"是文件夹；请指定其中的文件$"):
        set_dump_path(tmp_path)
    files = (DATA / f"edge/sampled_vs_full.{side}.pkl" for side in ("npu", "bench"))
    with pytest.raises(ValueError, match="一份经过采样，另一份没有"):
        compare(*files, tmp_path / "out.csv")


def test_an_overflow_is_known_by_its_first_word():
    label = "Functional_linear_forward"
    said = Message("torch_npu_hooks.overflow", label=label, path="/x/Overflow_info_1.pkl")
    text = str(OverflowStopError(said))
    assert (
        text == f"[check overflow]: 模块 '{label}' 溢出，dump 文件保存在 '/x/Overflow_info_1.pkl'。"
    )
