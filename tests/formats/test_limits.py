"""Files beyond a limit are refused with it and the way to raise it; up to it, time is linear."""

from __future__ import annotations

import re
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from tests.fuzz import large
from troubleshooter_nb import open_dump, open_series, option_context, options
from troubleshooter_nb.errors import FormatError, MappingFileError, TroubleshooterWarning
from troubleshooter_nb.formats import limits
from troubleshooter_nb.formats.inert_pickle import unpickled
from troubleshooter_nb.formats.mapping_file import read_weight_map
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.saved_comparison import open_comparison

RAISED = r"the limit is [\d,]+; if you trust it, set_options\(limits=(\d+)\) or TNB_LIMITS=\1 opens"
# limit, what it is set to, reader, writer, parts, name
CASES = [
    ("weight_map", 100, read_weight_map, large.weight_map_yaml, 9, "x.yaml"),
    ("weight_map", 100, read_weight_map, large.weight_map_json, 9, "x.json"),
    ("mapping", 100, read_mapping, large.mapping_yaml, 9, "x.yaml"),
    ("tensors", 5, open_dump, large.ckpt_of_records, 9, "x.ckpt"),
    ("tensors", 5, open_dump, large.safetensors_of_entries, 9, "x.safetensors"),
    ("tensors", 5, open_dump, large.npz_of_arrays, 9, "x.npz"),
    ("zip_directory", 100, open_dump, large.npz_of_arrays, 9, "x.npz"),
    ("safetensors_header", 100, open_dump, large.safetensors_of_entries, 9, "x.safetensors"),
    ("log", 100, open_series, large.log_of_steps, 9, "x.log"),
    ("log_cells", 50, open_series, large.json_lines_of_names, 9, "x.jsonl"),
]
# What is named by the limit of an index, of a pickle and so on is read by the same few lines.


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[5]}")
def test_a_file_beyond_a_limit_opens_when_it_is_raised_as_it_says(tmp_path, monkeypatch, case):
    name, most, read, write, count, file = case
    write(tmp_path / file, count)
    monkeypatch.setitem(limits.MOST, name, most)
    with pytest.raises((FormatError, MappingFileError), match=RAISED) as caught:
        read(tmp_path / file)
    times = int(re.search(RAISED, str(caught.value))[1])
    with option_context(limits=times - 1 or 1), pytest.raises(ValueError, match=RAISED):
        read(tmp_path / file)
    with option_context(limits=times):
        read(tmp_path / file)


def test_what_aliases_stand_for_is_refused_until_the_limit_is_raised(tmp_path, monkeypatch):
    large.mapping_of_aliases(tmp_path / "x.yaml", 3)  # 1,110 texts and their lists
    monkeypatch.setitem(limits.MOST, "yaml_values", 100)
    with pytest.raises(MappingFileError, match=rf"stand for more than 100 values; .*{RAISED}"):
        read_mapping(tmp_path / "x.yaml")
    with (
        option_context(limits=20),
        pytest.raises(MappingFileError, match=r"expected one name, got a list$"),
    ):
        read_mapping(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pickle", b"\x80\x02]" + b"K\x01a" * 100 + b"."),
        ("pickle_operations", b"\x80\x02]" + b"K\x01a" * 100 + b"."),
        ("pickle_open", b"\x80\x02" + b"]" * 100 + b"a" * 99 + b"."),
        ("pickle_open", b"\x80\x02" + b"(" * 100 + b"t" * 100 + b"."),
        ("pickle_open", b"\x80\x02" + b"}" * 100 + b"0" * 99 + b"."),
    ],
)
def test_a_pickle_beyond_a_limit_is_read_when_it_is_raised(monkeypatch, name, content):
    monkeypatch.setitem(limits.MOST, name, 60)
    with pytest.raises(FormatError, match=RAISED) as caught:
        unpickled(content)
    assert "damaged" not in str(caught.value)
    with option_context(limits=10):
        unpickled(content)


def test_a_comparison_beyond_the_limit_says_so(tmp_path, monkeypatch):
    (tmp_path / "x.json").write_text("{}" + " " * 200)
    monkeypatch.setitem(limits.MOST, "comparison", 100)
    with pytest.raises(FormatError, match=RAISED):
        open_comparison(tmp_path / "x.json")


def test_zeros_open_by_their_header_and_are_read_when_asked(tmp_path):
    path = tmp_path / "x.npz"
    size = 100 << 20
    large.npz_of_zeros(path, size)
    assert path.stat().st_size < size // 900
    open_dump(path)
    tracemalloc.start()
    try:
        dump = open_dump(path)
        read = [dump.sources[0].read(at, at + 9) for at in (0, size // 50)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert not np.any(read)
    assert dump.index["shape"].values[0] == (size,)


def test_an_archive_that_stands_for_too_much_keeps_what_does_not(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    rng = np.random.default_rng(1)
    sparse = np.where(rng.random(30_000) < 0.1, rng.normal(size=30_000), 0)
    arrays = {"sparse": sparse, "zeros": np.zeros(10**6), "few": np.zeros(9_000)}
    np.savez_compressed(path, **arrays)
    monkeypatch.setitem(limits.MOST, "unpacked", 100_000)
    dump = open_dump(path)
    reasons = dict(zip(dump.names, dump.index["reason"].values, strict=True))
    assert [name for name, reason in reasons.items() if reason] == ["zeros"]
    times = re.search(rf"stand for 8,000,\d+; {RAISED}", str(reasons["zeros"]))[1]
    with option_context(limits=int(times)):
        assert not open_dump(path).array("zeros").any()


LINEAR = [
    (read_weight_map, large.weight_map_yaml, 500, "x.yaml"),
    (read_weight_map, large.weight_map_json, 2_500, "x.json"),
    (read_mapping, large.mapping_json, 800, "x.json"),
    (read_mapping, large.mapping_layers, 1_000, "x.yaml"),
    (read_mapping, large.mapping_apis, 400, "x.yaml"),
    (open_dump, large.ckpt_of_records, 300, "x.ckpt"),
    (open_series, large.log_of_steps, 700, "x.log"),
    (open_series, large.csv_of_steps, 1_200, "x.csv"),
    (open_series, large.json_lines_of_steps, 900, "x.jsonl"),
    (open_series, large.log_of_gaps, 100, "x.log"),
    (open_series, large.log_of_words, 20, "x.log"),
]


@pytest.mark.parametrize(("read", "write", "count", "file"), LINEAR)
def test_eight_times_as_long_takes_eight_times_as_long(tmp_path, read, write, count, file):
    taken = []
    for times in (1, 8):
        write(tmp_path / file, times * count)
        best = float("inf")
        for _ in range(2):
            started = time.thread_time()
            try:
                read(tmp_path / file)
            except FormatError:
                assert write in (large.log_of_gaps, large.log_of_words)
            best = min(best, time.thread_time() - started)
        taken.append(best)
    assert taken[1] < 24 * taken[0]  # squared it would be 64


def test_a_line_costs_no_more_for_its_gaps_and_words(tmp_path):
    """Where a pattern tries every length at every place, a line of 4,000 letters takes 0.1 s."""
    taken = Counter()
    for write in (large.log_of_blank_steps, large.log_of_gaps, large.log_of_words):
        write(tmp_path / "x.log", 40)
        started = time.thread_time()
        try:
            open_series(tmp_path / "x.log")
        except FormatError:
            assert write is not large.log_of_blank_steps
        taken[write] += time.thread_time() - started
    # As many letters: lines of steps, and those of nothing.
    steps = taken.pop(large.log_of_blank_steps)
    assert max(taken.values()) < 12 * steps


@pytest.mark.parametrize(("wanted", "times"), [("", 1), ("1", 1), ("40", 40)])
def test_the_environment_raises_the_limits(monkeypatch, wanted, times):
    monkeypatch.setenv("TNB_LIMITS", wanted)
    assert options._limits_of_environment() == times


@pytest.mark.parametrize("wanted", ["0", "-1", "much", "1.5", "9" * 30])
def test_an_environment_that_is_no_number_is_said(monkeypatch, wanted):
    monkeypatch.setenv("TNB_LIMITS", wanted)
    with pytest.warns(TroubleshooterWarning, match="TNB_LIMITS is a whole number from 1"):
        assert options._limits_of_environment() == 1


def test_a_stored_archive_of_any_size_is_no_bomb(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros(10_000))
    monkeypatch.setitem(limits.MOST, "unpacked", 10)
    assert open_dump(path).array("a").shape == (10_000,)
