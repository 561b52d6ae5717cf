"""Every table that msprobe wrote of the fixtures, cell by cell."""

import collections

import pytest

from tests.compat.msprobe.compare.tables_of_peers import (
    CASES,
    METRICS,
    NOT_COMPARED,
    VERDICTS,
    held,
    same,
)
from troubleshooter_nb.compat.msprobe.compare.advice import advice_on
from troubleshooter_nb.compat.msprobe.compare.highlights import highlight
from troubleshooter_nb.compat.msprobe.compare.pairs import Mappings, pair_values
from troubleshooter_nb.compat.msprobe.compare.releases import release_of
from troubleshooter_nb.compat.msprobe.compare.rows import measured_rows, mode_of
from troubleshooter_nb.compat.msprobe.compare.run import layout_of
from troubleshooter_nb.compat.msprobe.compare.tables import table_of
from troubleshooter_nb.compat.msprobe.compare.values import read_side
from troubleshooter_nb.compat.msprobe.compare.verdicts import judge
from troubleshooter_nb.formats.pairing_files import read_mapping

IDS = [case.table for case in CASES]


def compared(case, dumps):
    """Our rows and table of a case."""
    release = release_of(case.release)
    sides = []
    for path in (case.target, case.golden):
        folder = dumps / path
        sides.append(read_side(folder / "debug.json" if "save" in case.table else folder))
    mappings = Mappings(
        **{
            kind: given if given is True else read_mapping(given, kind=kind)
            for kind, given in case.options.items()
            if kind != "fuzzy"
        }
    )
    paired = pair_values(*sides, release, mappings, fuzzy="fuzzy" in case.options)
    mode = mode_of(*sides)
    rows = measured_rows(paired.rows, *sides, release, mode)
    judge(rows, release, mode, is_torch=sides[0].has_torch_names)
    if release.verdicts == "classic":
        highlight(rows, release, mode)
    with_stack = "NPU_Stack_Info" in case.rows()[0]
    layout = layout_of(release, mode, sides[0], mappings, with_stack=with_stack)
    return rows, table_of(rows, [], layout, sides[0].stacks)


def wanted_rows(case, table):
    """The old tool's rows; 8.3.3 has none for gradients of parameters that have a number."""
    headings, wanted = case.rows()
    ours = table.rows
    if case.table == "v8_3_3_msadapter":
        ours = [row for row in ours if "parameters_grad" not in row["NPU Name"]]
        assert len(table.rows) - len(ours) == 4
    return headings, wanted, ours


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_table_is_that_of_the_old_tool(case, dumps):
    rows, table = compared(case, dumps)
    headings, wanted, ours = wanted_rows(case, table)
    assert table.headings == headings
    assert len(ours) == len(wanted)
    for row, (_, *cells) in zip(ours, wanted, strict=True):
        for heading, theirs in zip(headings, cells, strict=True):
            if heading in NOT_COMPARED or held(case, row, heading, theirs):
                continue
            assert same(row[heading], theirs), (row["NPU Name"], heading, row[heading], theirs)
    if case.advice:
        assert advice_on(rows).lines[:2] == case.advice


@pytest.mark.parametrize("case", [c for c in CASES if c.release != "26.2"], ids=str)
def test_rows_have_the_colours_of_the_old_tool(case, dumps):
    if case.table in ("v8_3_3_msadapter", "v1_2_2_x_tf_L0_lm"):
        return  # other rows, and no tensors to colour by; the rest of both is compared above
    rows, _ = compared(case, dumps)
    for row, (color, *_) in zip(rows, case.rows()[1], strict=True):
        assert row.color == color, row.pair.value.name


def test_as_many_cells_are_compared_as_the_fixtures_have(dumps):
    """401 rows of metrics, 877 verdicts of the older releases, 492 cells of differences."""
    counts = collections.Counter()
    for case in CASES:
        _, table = compared(case, dumps)
        headings, wanted, ours = wanted_rows(case, table)
        for row, (_, *cells) in zip(ours, wanted, strict=True):
            by_name = dict(zip(headings, cells, strict=True))
            for heading in VERDICTS:
                if heading in by_name and case.release != "26.2":
                    counts["verdicts"] += not held(case, row, heading, by_name[heading])
            if "Cosine" in by_name and row["NPU max"] != "N/A" and row["Bench max"] != "N/A":
                known = [
                    not held(case, row, name, by_name[name]) for name in METRICS if name in by_name
                ]
                counts["metrics"] += all(known)
            if "Max diff" in by_name and case.release == "26.2":
                counts["differences"] += 4 * (row["Bench Name"] != "N/A")
    assert counts["metrics"] >= 401
    assert counts["verdicts"] >= 877
    assert counts["differences"] >= 492


def test_what_only_the_golden_dump_has_is_in_the_table(dumps):
    case = next(case for case in CASES if case.table == "v26_2_0_x_L1_am_bare")
    sides = [read_side(dumps / path) for path in (case.target, case.golden)]
    release = release_of("26.2")
    paired = pair_values(*sides, release, Mappings(api=True))
    met = {id(pair.golden) for pair in paired.rows if pair.golden}
    assert len(met) + len(paired.golden_only) == len(sides[1].values)
    assert {pair.golden.name for pair in paired.golden_only} > {
        "Functional.linear.0.forward.input.0"
    }


def test_no_row_is_marked_whose_tensors_are_identical(dumps):
    """Case 41: the old tool marks the first output of a call, whichever is bad."""
    case = next(case for case in CASES if case.table == "v26_2_0_stress")
    rows, _ = compared(case, dumps)
    marked = [row for row in rows if row.verdict in ("warning", "error")]
    assert len(marked) == 7
    for row in marked:
        target, golden = row.sides
        same_scalar = not target.is_tensor and target.figures == golden.figures
        assert not same_scalar
        assert row.number("MaxAbsErr") != 0


def test_a_cross_framework_table_is_not_all_errors(dumps):
    """Case 44: 19 of 20 rows agree, the last has no gradient on either side."""
    case = next(case for case in CASES if case.table == "v26_2_0_x_L0_cm_yaml")
    rows, _ = compared(case, dumps)
    assert [row.verdict for row in rows] == ["pass"] * 20
    largest = max(row.number("MaxAbsErr") for row in rows if row.is_matched)
    assert largest == pytest.approx(1.86265e-07, rel=1e-5)
