"""Bits that change in one entry, or between entries, leave the other entries as they were."""

from __future__ import annotations

import random

import pytest

import troubleshooter_nb as tnb
from tests.fuzz.corpus import INPUTS, values_of
from troubleshooter_nb.formats.archive_source import ArchiveSource

COUNT = 4  # entries of each that are damaged
# Inputs whose format has a checksum that reading looks at: a changed bit never comes as a value.
CHECKED = {"npz stored", "npz deflated", "record"}
PLAIN = {
    "safetensors",
    "ckpt",
    "pth",
    "pth legacy",
    "npy folder",
    "sharded",
    "ranks",
    "checkpoints",
}


def places_of(dump):
    """Of each entry the file and the ranges of its values, by row."""
    found = {}
    for row, source in enumerate(dump.sources):
        if source is None or not source.size_bytes:
            continue
        if isinstance(source, ArchiveSource):
            begin = source.member.begin
            found[row] = source.path, [(begin, begin + source.member.packed)]
        else:
            found[row] = source.path, [(begin, begin + length) for begin, length in source.spans]
    return found


def opened(name, path):
    if name == "checkpoints":
        return tnb.open_series(path)
    return tnb.open_dump(path, format=INPUTS[name].reader)


@pytest.mark.parametrize("name", sorted(CHECKED | PLAIN))
def test_bits_of_one_entry_leave_the_others(tmp_path, name):
    path = INPUTS[name].make(tmp_path)
    dump = opened(name, path)
    right, places = values_of(dump), places_of(dump)
    rng = random.Random(name)
    said = 0
    for row in rng.sample(sorted(places), min(COUNT, len(places))):
        file, ranges = places[row]
        with open(file, "r+b") as stream:
            sound = stream.read()
            damaged = bytearray(sound)
            begin, end = rng.choice(ranges)
            damaged[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
            stream.seek(0)
            stream.write(damaged)
        found = values_of(opened(name, path))
        key = list(right)[row]
        # Entries that share the bytes change with it.
        mine = {list(right)[other] for other, place in places.items() if place == places[row]}
        assert {one for one in right if found[one] != right[one]} <= mine | {key}
        if found[key] is None:
            said += 1
        else:
            assert found[key][:2] == right[key][:2]
            assert name not in CHECKED
        with open(file, "r+b") as stream:
            stream.write(sound)
    assert said or name not in CHECKED


def gaps_of(dump, content):
    """The bytes of a file that are no values, nor next to any header: fillers of one sign."""
    values = sorted(one for _, ranges in places_of(dump).values() for one in ranges)
    found = []
    for begin, _ in values:
        start = begin - 1
        while start > 0 and content[start] in b" Z\0" and content[start] == content[begin - 1]:
            start -= 1
        found += range(start + 2, begin)
    return found


@pytest.mark.parametrize("name", ["safetensors", "pth"])
def test_bits_between_entries_change_no_value(tmp_path, name):
    path = INPUTS[name].make(tmp_path)
    sound = path.read_bytes()
    dump = opened(name, path)
    right, gaps = values_of(dump), gaps_of(dump, sound)
    assert gaps
    rng = random.Random(name)
    for at in rng.sample(gaps, min(12, len(gaps))):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = values_of(opened(name, path))
        except tnb.FormatError:
            continue
        assert all(found[one] in (None, right[one]) for one in right)
