"""Pairing: the table of partners, and edits that return a new one."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import xarray as xr

from troubleshooter_nb import Dump, Pairing, compare, pair_dumps, save
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError, PairingError
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import option_context
from troubleshooter_nb.pairing import Match

STORED = {"str": object, "tuple": object, "int64": np.int64, "float64": np.float64, "bool": bool}


def memory(label, *names):
    return Dump.from_arrays(
        {name: np.full(2, float(k)) for k, name in enumerate(names)}, label=label
    )


@pytest.fixture
def pairing():
    """a and b have partners, c and z have none."""
    return pair_dumps(memory("l", "a", "b", "c"), memory("r", "a", "b", "z"), method="name")


@pytest.fixture
def steps():
    """Two entries of one name on each side, in two steps."""
    dumps = []
    for label in ("l", "r"):
        entries = [
            Entry(name, Site("file", name), ArrayInMemory(np.ones(2)), step=step, order=k)
            for step in (0, 5)
            for k, name in enumerate((f"x{label}", "y"))
        ]
        dumps.append(Dump.from_entries(entries, label=label))
    return pair_dumps(*dumps, method="name")


def rows(pairing):
    """(left, right, method, expected) of every row."""
    names = ("left", "right", "method", "expected")
    return list(zip(*(pairing.table[name].values.tolist() for name in names), strict=True))


def documented():
    """The column table of the docstring: name -> (dtype, meaning)."""
    table = re.search(r"::\n\n(.*?)\n *left, right : Dump", Pairing.__doc__, re.S)[1]
    found = {}
    for line in table.splitlines():
        names, dtype, meaning = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        for name in names.split(", "):
            found[name] = (dtype, meaning)
    return found


def test_the_documented_columns_are_the_columns(pairing):
    described = documented()
    assert list(described) == list(PAIRING_COLUMNS) == list(pairing.table)
    for name, declared in PAIRING_COLUMNS.items():
        column = pairing.table[name]
        assert described[name][0] == declared.dtype
        assert column.dtype == STORED[declared.dtype], name
        said = {"description": declared.meaning}
        assert column.attrs == said | ({"units": declared.unit} if declared.unit else {})
        if str(declared.unknown) in ("-1", "nan") and name not in ("step", "rank"):
            assert f"{declared.unknown} " in described[name][1], name
    assert pairing.table.attrs["schema"] == "troubleshooter_nb.pairing/1"


def test_an_entry_without_partner_has_the_documented_values(pairing):
    alone = pairing.table.isel(pair=rows(pairing).index(("c", "", "unmatched", False)))
    for name in ("right", "right_entry", "right_shape", "note", "confidence", "expected"):
        np.testing.assert_equal(alone[name].item(), PAIRING_COLUMNS[name].unknown, name)


def test_counts_and_names_of_the_unmatched(pairing):
    assert len(pairing) == 4
    assert pairing.matched == 2
    assert pairing.unmatched_left == ["c"]
    assert pairing.unmatched_right == ["z"]


def test_matches_rebuild_the_same_pairing(pairing):
    again = Pairing.from_matches(pairing.left, pairing.right, pairing.matches())
    xr.testing.assert_identical(again.table, pairing.table)


def test_an_empty_pairing_has_all_columns():
    empty = pair_dumps(memory("l"), memory("r"))
    assert len(empty) == 0
    assert list(empty.table) == list(PAIRING_COLUMNS)
    assert empty.to_dataframe().shape == (0, len(PAIRING_COLUMNS))
    assert repr(empty)
    assert isinstance(empty._repr_html_(), str)


def test_pairing_two_unmatched_entries_makes_one_row(pairing):
    edited = pairing.pair("c", "z")
    assert rows(edited) == [
        ("a", "a", "name", False),
        ("b", "b", "name", False),
        ("c", "z", "user", False),
    ]
    assert edited.table["confidence"].values[2] == 1
    assert len(pairing) == 4  # the first pairing stays as it was


def test_pairing_across_two_pairs_frees_their_partners(pairing):
    assert rows(pairing.pair("a", "b")) == [
        ("a", "b", "user", False),
        ("", "a", "unmatched", False),
        ("b", "", "unmatched", False),
        ("c", "", "unmatched", False),
        ("", "z", "unmatched", False),
    ]


def test_pairing_a_pair_again_makes_it_the_users(pairing):
    assert rows(pairing.pair("a", "a"))[0] == ("a", "a", "user", False)
    assert len(pairing.pair("a", "a")) == 4


@pytest.mark.parametrize(("left", "right"), [("c", "a"), ("a", "z")])
def test_pairing_an_unmatched_entry_with_a_paired_one(pairing, left, right):
    edited = pairing.pair(left, right)
    assert (left, right, "user", False) in rows(edited)
    assert len(edited) == 4
    every_entry_once(edited)


def test_unpair_splits_a_pair_in_place(pairing):
    assert rows(pairing.unpair("a"))[:2] == [
        ("a", "", "unmatched", False),
        ("", "a", "unmatched", False),
    ]
    assert pairing.unpair("a").pair("a", "a").matched == 2


def test_unpair_takes_a_right_name_where_the_left_has_none(pairing):
    edited = pairing.pair("c", "z")
    assert edited.unpair("z").unmatched_right == ["z"]


def test_unpair_of_an_entry_without_partner_is_an_error(pairing):
    with pytest.raises(PairingError, match="'c' has no partner"):
        pairing.unpair("c")


def test_expected_missing_entries_pass(pairing):
    edited = pairing.expect_missing("c", "z")
    assert [row for row in rows(edited) if row[3]] == [
        ("c", "", "unmatched", True),
        ("", "z", "unmatched", True),
    ]
    assert edited.table["note"].values.tolist().count("expected to be missing") == 2
    assert compare(edited.left, edited.right, pairing=edited).passed
    assert not compare(pairing.left, pairing.right, pairing=pairing).passed


def test_expecting_a_paired_entry_to_be_missing_names_the_pair(pairing):
    paired = pairing.pair("c", "z")
    with pytest.raises(PairingError, match=r"'c' has a partner .*'c' and 'z'.* unpair it first"):
        paired.expect_missing("c")


def every_entry_once(pairing):
    for side, dump in (("left", pairing.left), ("right", pairing.right)):
        entries = pairing.table[f"{side}_entry"].values
        assert sorted(entries[entries >= 0]) == list(range(len(dump)))


def test_every_edit_keeps_every_entry_once(pairing):
    edited = pairing
    for change in (
        lambda p: p.pair("a", "b"),
        lambda p: p.pair("b", "a"),
        lambda p: p.unpair("a"),
        lambda p: p.pair("c", "b"),
        lambda p: p.expect_missing("a"),
        lambda p: p.pair("a", "z"),
    ):
        edited = change(edited)
        every_entry_once(edited)
    assert rows(edited)[0][3] is False  # what has a partner again is not expected to be missing


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.pair("aa", "a"), "no entry 'aa' on the left; closest: 'a'"),
        (lambda p: p.pair("a", "aa"), "no entry 'aa' on the right; closest: 'a'"),
        (lambda p: p.unpair("q"), "no entry 'q' on either side"),
        (lambda p: p.expect_missing("q"), "no entry 'q' on either side"),
        (lambda p: p.candidates("aa"), "no entry 'aa' on either side; closest: 'a' on the left"),
        (lambda p: p.pair("a", "a", step=7), "no entry 'a' on the left in step 7"),
        (lambda p: p.unpair("a", rank=2), "no entry 'a' on the left in rank 2"),
        (lambda p: p.pair("", ""), "no entry '' on the left"),
    ],
)
def test_an_unknown_name_lists_the_closest(pairing, edit, message):
    with pytest.raises(EntryNotFoundError, match=message):
        edit(pairing)


def test_short_names_of_the_right_side_are_found_as_those_of_the_left(tmp_path):
    for side, names in (("l", ["fc.weight_0"]), ("r", ["fc.weight_0", "bn.count"])):
        for name in names:
            save(tmp_path / side / name, np.arange(3.0))
    found = pair_dumps(tmp_path / "l", tmp_path / "r")
    (full,) = found.unmatched_right
    assert full != "bn.count"
    assert found.expect_missing("bn.count").table["expected"].values.tolist() == [False, True]
    assert found.candidates("bn.count") == found.candidates(full)


def test_a_name_of_several_steps_asks_for_the_step(steps):
    with pytest.raises(AmbiguousEntryError, match=r"'y' occurs in 2 steps .* give step= or rank="):
        steps.unpair("y")
    with pytest.raises(AmbiguousEntryError, match="'xr' occurs in 2"):
        steps.expect_missing("xr")
    with pytest.raises(AmbiguousEntryError, match="'xl' occurs in 2"):
        steps.pair("xl", "xr")


def test_edits_of_one_step_leave_the_others_alone(steps):
    edited = steps.pair("xl", "xr", step=5)
    where = edited.table["step"].values[edited.table["method"].values == "user"]
    assert where.tolist() == [5]
    assert edited.unpair("y", step=0, rank=0).matched == 2
    expected = steps.expect_missing("xr", step=5).table
    assert expected["step"].values[expected["expected"].values].tolist() == [5]


def test_entries_of_different_steps_are_never_paired():
    def of(**steps):
        values = ArrayInMemory(np.ones(2))
        return Dump.from_entries(
            [Entry(name, Site("file", name), values, step=step) for name, step in steps.items()]
        )

    left, right = of(a=0), of(b=1, c=2)
    pairing = pair_dumps(left, right)
    assert pairing.matched == 0
    with pytest.raises(PairingError, match="'a' is of step 0, rank 0 and 'b' of step 1, rank 0"):
        pairing.pair("a", "b")


def test_a_pairing_is_frozen(pairing):
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairing.table = None
    pairing.to_dataset()["left"].values[:] = "changed"
    frame = pairing.to_dataframe()
    frame.loc[:, "left"] = "changed"
    assert pairing.table["left"].values.tolist() == ["a", "b", "c", ""]


def test_the_table_goes_to_netcdf(tmp_path, pairing):
    pytest.importorskip("netCDF4")
    pairing.to_dataset().to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "x.nc", engine="netcdf4") as back:
        assert back["left"].values.tolist() == pairing.table["left"].values.tolist()
        assert back["left_entry"].dtype == np.int64


def test_a_pairing_made_by_hand_compares():
    left, right = memory("l", "a", "b"), memory("r", "x", "y")
    pairing = Pairing.from_matches(
        left, right, [Match(0, 1, "user", 1.0), Match(1, 0, "user", 1.0)]
    )
    result = compare(left, right, pairing=pairing).result
    assert dict(zip(result["left"].values, result["right"].values, strict=True)) == {
        "a": "y",
        "b": "x",
    }


def test_a_pairing_says_everything_in_chinese(pairing):
    left = {"l1.weight": np.ones(2), "l2.bias": np.ones(3)}
    near = pair_dumps(left, {"l1.weight": np.ones(2), "l2.w": np.ones(2)})
    matched = pairing.match_rest()
    with option_context(language="zh"):
        assert "自动匹配：此形状仅此一对" in repr(matched)
        assert "已与 l1.weight 配对" in repr(near)
        assert "已与 l1.weight 配对" in near._repr_html_()
        assert "预期无对应" in pairing.expect_missing("c")._repr_html_()
        said = "两侧都没有条目 'l1.wight'；最接近：左侧 'l1.weight'"
        with pytest.raises(EntryNotFoundError, match=said):
            near.unpair("l1.wight")


def test_what_a_person_paired_is_told_from_what_was_matched(pairing):
    assert "Paired by the user" not in repr(pairing.match_rest())
    assert "Paired by the user (1 of 1)" in repr(pairing.pair("c", "z"))
