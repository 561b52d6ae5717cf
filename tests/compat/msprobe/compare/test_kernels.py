"""The tables of kernel dumps that msprobe wrote, cell by cell; case 42 and 43."""

import csv

import pytest

from tests.compat.msprobe.compare.tables_of_peers import DATA, NOT_COMPARED, same
from troubleshooter_nb.compat.msprobe.compare.kernels import kernel_tables
from troubleshooter_nb.compat.msprobe.compare.releases import release_of

FOLDERS = {
    "kernel_real_trim": ("kernel_real/b", "kernel_real/a"),
    "kernel_npy": ("kernel_synthetic/npu_npy", "kernel_synthetic/bench_npy"),
    "kernel_stat": ("kernel_synthetic/npu_stat", "kernel_synthetic/bench_stat"),
}
# What 1.2.2 has without its sign, and as 0 % where the golden value is negative.
UNSIGNED = ("diff", "RelativeErr")


def short(name):
    """The end of a path that both runs have."""
    return name.rpartition("rank_0")[2] or name


def told(name):
    """A name of a row without the folder that the dump lay in."""
    return " ".join(map(short, name.split(" ")))


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("release", ["1.2", "26.2"])
def test_a_table_of_kernels_is_that_of_the_old_tool(kind, release, dumps):
    folder = {"1.2": "v1_2_2", "26.2": "v26_2_0"}[release]
    paths = [dumps / one for one in FOLDERS[kind]]
    found = kernel_tables(*paths, (), (), release_of(release)).tables
    assert [(one.rank, one.step) for one in found] == (
        [(0, 0)] if "real" in kind else [(0, 0), (0, 1)]
    )
    for one in found:
        file = DATA / "tables" / f"{folder}_{kind}_{one.rank}_{one.step}.csv"
        with file.open(newline="") as stream:
            headings, *wanted = csv.reader(stream)
        assert one.table.headings == headings[1:]
        ours = {told(row["NPU Name"]): row for row in one.table.rows}
        assert len(ours) == len(wanted)
        for _, *cells in wanted:
            theirs = dict(zip(headings[1:], cells, strict=True))
            row = ours[told(theirs["NPU Name"])]
            assert told(row["Bench Name"]) == told(theirs["Bench Name"])
            for heading in headings[3:]:
                if heading in (*NOT_COMPARED, "NPU CSV File", "Bench CSV File"):
                    continue
                if release == "1.2" and kind == "kernel_stat" and heading.endswith(UNSIGNED):
                    continue
                assert same(row[heading], theirs[heading]), (row["NPU Name"], heading)


def test_statistics_of_1_2_2_have_their_sign_here(dumps):
    paths = [dumps / one for one in FOLDERS["kernel_stat"]]
    old, new = (
        [
            row["Min diff"]
            for one in kernel_tables(*paths, (), (), release_of(release)).tables
            for row in one.table.rows
        ]
        for release in ("1.2", "26.2")
    )
    assert old == new
    assert min(old) < 0


def test_a_tensor_without_partner_is_a_row(dumps, tmp_path):
    """Of the target in its place, of the golden dump in a list of its own."""
    import shutil

    sides = []
    for name, source in zip(("npu", "bench"), FOLDERS["kernel_npy"], strict=True):
        sides.append(shutil.copytree(dumps / source, tmp_path / name))
    next(sides[0].rglob("MatMul.Default_fc1*")).unlink()
    next(sides[1].rglob("ReLU.*")).unlink()
    table = kernel_tables(*sides, (), (0,), release_of("1.2")).tables[0].table
    assert [row["Bench Name"] for row in table.rows].count("N/A") == 1
    assert len(table.golden_only) == 1
    assert table.golden_only[0]["NPU Name"] == "N/A"


def test_a_damaged_file_is_a_row_with_the_reason(dumps, tmp_path):
    import shutil

    sides = []
    for name, source in zip(("npu", "bench"), FOLDERS["kernel_npy"], strict=True):
        sides.append(shutil.copytree(dumps / source, tmp_path / name))
    next(sides[0].rglob("ReLU.*")).write_bytes(b"no array")
    table = kernel_tables(*sides, (), (0,), release_of("26.2")).tables[0].table
    row = next(row for row in table.rows if "ReLU" in row["NPU Name"])
    assert row["Cosine"] == "unsupported"
    assert row["Err_message"]
