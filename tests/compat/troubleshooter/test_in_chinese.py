"""What the old calls say that is ours, in Chinese; the old tool's own words stay."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import save
from troubleshooter_nb.compat.troubleshooter import passed_over
from troubleshooter_nb.errors import NotOfferedError, TroubleshooterWarning
from troubleshooter_nb.options import option_context


@pytest.fixture(autouse=True)
def _chinese():
    with option_context(language="zh"):
        yield


def test_what_is_not_offered_says_what_to_use():
    with pytest.raises(NotOfferedError, match=r"不提供 migrator.api_dump_start；请在两个网络中"):
        ts.migrator.api_dump_start()


def test_what_does_nothing_says_so(monkeypatch, caplog):
    monkeypatch.setattr(passed_over, "_said", set())
    ts.tracking()
    assert "tracking 在此不起作用，脚本继续运行；要找到第一个 NaN" in caplog.text


def test_a_table_is_the_old_one_and_the_remarks_beside_it_are_ours(tmp_path, caplog, capsys):
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "x.npy", np.zeros(2))
    np.save(tmp_path / "a" / "y.npy", np.array(["text"]))
    np.save(tmp_path / "b" / "z.npy", np.zeros(2))
    ts.migrator.compare_npy_dir(tmp_path / "a", tmp_path / "b")
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first.startswith("[*User Warning*] 有些文件在另一侧没有同名文件")
    assert second.startswith("[*User Attention*] The compare directory information:")
    assert third.startswith("[*User Warning*] 无法读取")
    table = capsys.readouterr().out
    assert "The list of comparison results" in table
    assert "File is unreadable" in table


def test_a_wrong_argument_is_told(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="orig_dir 必须是已有的文件夹，实际为 None"):
        ts.migrator.compare_npy_dir(None, tmp_path)
    with pytest.raises(ValueError, match=r"没有可比较的 .npy 文件"):
        ts.migrator.compare_npy_dir(tmp_path / "a", tmp_path)


def test_saving_says_what_it_cannot_save_and_what_lies_there(tmp_path):
    with pytest.raises(TypeError, match="'x'：无法保存 str；需要张量"):
        ts.save(tmp_path / "x", "text")
    with pytest.raises(ValueError, match="output_mode 应为 'npy' 或 'print'"):
        ts.save(tmp_path / "x", 1.0, output_mode="csv")
    with pytest.raises(ValueError, match="隐藏的文件夹和文件不会被读取"):
        ts.save(tmp_path / "._x", 1.0)
    np.save(tmp_path / "old.npy", np.zeros(1))
    with pytest.warns(TroubleshooterWarning, match="中有先前运行保存的数组"):
        save(tmp_path / "x", 1.0)
