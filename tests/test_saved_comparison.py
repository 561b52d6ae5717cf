"""Comparisons that were saved, opened again: what they showed, they show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import report
from troubleshooter_nb.errors import FormatError

MSPROBE = Path(__file__).parent / "data" / "msprobe" / "v26_2_0" / "torch"


def _transposed():
    weight = np.random.default_rng(0).standard_normal((40, 40)).astype("f4")
    left = {"fc.weight": weight, "fc.bias": np.ones(40, "f4"), "only": np.ones(3)}
    return tnb.compare(left, {"fc.weight": weight.T.copy(), "fc.bias": np.ones(40, "f4")})


def _of_zero():
    """A relative error that is infinite, beside NaN on one side."""
    broken = np.array([1.0, np.nan, np.inf], "f4")
    return tnb.compare({"x": np.ones(4), "y": broken}, {"x": np.zeros(4), "y": np.ones(3, "f4")})


def _layers():
    return tnb.compare(MSPROBE / "t_mlp_mix_tensorB", MSPROBE / "t_mlp_mix_tensor")


def _statistics():
    return tnb.compare(MSPROBE / "t_mlp_mix_statisticsB", MSPROBE / "t_mlp_mix_statistics")


@pytest.mark.parametrize("suffix", [".json", ".nc"])
@pytest.mark.parametrize("make", [_transposed, _of_zero, _statistics, _layers])
def test_what_it_showed_it_shows_again(tmp_path, make, suffix):
    found = make()
    again = tnb.open_comparison(tnb.export(found, tmp_path / f"kept{suffix}"))
    pd.testing.assert_frame_equal(again.to_dataframe(), found.to_dataframe())
    assert (again.verdict, again.exit_code) == (found.verdict, found.exit_code)
    assert repr(again) == repr(found)
    assert str(again.explain()) == str(found.explain())
    assert (again.left_card, again.right_card) == (found.left_card, found.right_card)
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(
        found.to_dict(), sort_keys=True, default=str
    )
    counts = found.result["error_histogram"].values
    np.testing.assert_array_equal(again.result["error_histogram"].values, counts)
    twice = tnb.open_comparison(tnb.export(again, tmp_path / f"twice{suffix}"))
    assert repr(twice) == repr(found)


def test_figures_that_are_infinite_come_back_from_json(tmp_path):
    found = _of_zero()
    assert np.isinf(found.result["rel_l2_error"].values).any()
    content = json.loads(tnb.export(found, tmp_path / "a.json").read_text(encoding="utf-8"))
    assert content["infinite"]["rel_l2_error"]["inf"] == [0]
    assert content["made_by"] == tnb.__version__


def test_a_table_that_the_user_wrote_as_netcdf_opens_with_all_that_was_found(tmp_path):
    found = _transposed()
    found.to_dataset().to_netcdf(tmp_path / "own.nc", engine="netcdf4")
    again = tnb.open_comparison(tmp_path / "own.nc")
    assert [finding.cause for finding in again.findings] == ["linear_transposed"]
    assert str(again.explain()) == str(found.explain())


def test_files_of_older_versions_open_with_what_they_have(tmp_path):
    found = _transposed()
    file = tnb.export(found, tmp_path / "a.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    for name in ("histogram", "infinite", "made_by", "left_card", "right_card", "gaps"):
        del content[name]
    file.write_text(json.dumps(content), encoding="utf-8")
    assert str(tnb.open_comparison(file).explain()) == str(found.explain())
    table = found.to_dataset()
    del table.attrs["found"]
    table.to_netcdf(tmp_path / "old.nc", engine="netcdf4")
    assert tnb.open_comparison(tmp_path / "old.nc").exit_code == found.exit_code


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.pop("pairs"),
        lambda content: content["pairs"][0].update(verdict="fine"),
        lambda content: content.update(histogram={"exponents": [0], "counts": [[1, 2]]}),
        lambda content: content.update(infinite={"rel_l2_error": {"inf": [99], "-inf": []}}),
        lambda content: content.update(rtol="much"),
    ],
)
def test_a_damaged_file_is_told_as_one(tmp_path, damage):
    file = tnb.export(_transposed(), tmp_path / "a.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    damage(content)
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError, match=r"a\.json is no saved comparison"):
        tnb.open_comparison(file)


def test_only_comparisons_have_a_netcdf(tmp_path):
    with pytest.raises(ValueError, match=r"\.nc"):
        tnb.export(tnb.Dump.from_arrays({"x": np.ones(2)}), tmp_path / "x.nc")


@pytest.mark.parametrize("suffix", [".html", ".csv", ".json", ".md", ".txt", ".xlsx", ".nc"])
def test_an_export_is_there_whole_or_as_it_was(tmp_path, monkeypatch, suffix):
    found = _transposed()
    file = tmp_path / f"kept{suffix}"
    before = tnb.export(found, file).read_bytes()
    write = report._WRITERS[suffix]

    def half(obj, path):
        write(obj, path)
        path.write_bytes(path.read_bytes()[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(report._WRITERS, suffix, half)
    with pytest.raises(OSError, match="No space left"):
        tnb.export(found, file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_json_that_nests_deep_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match=r"x\.json"):
        tnb.open_comparison(tmp_path / "x.json")


def test_a_netcdf_whose_blocks_are_damaged_is_refused(tmp_path):
    pytest.importorskip("netCDF4")
    path = tmp_path / "x.nc"
    report.export(_transposed(), path)
    sound = path.read_bytes()
    for part in (1, 2):  # of 20: of the second HDF5 never came back
        at = len(sound) * part // 20
        path.write_bytes(sound[:at] + b"\xff" * 64 + sound[at + 64 :])
        with pytest.raises(FormatError, match=r"x\.nc .*: not the bytes that were saved"):
            tnb.open_comparison(path)
    # What was open of a damaged file once came instead of what is there now.
    report.export(_of_zero(), path)
    assert tnb.open_comparison(path).result["left"].values.tolist() == ["x", "y"]
