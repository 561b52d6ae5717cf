"""Pickles become inert records; nothing in them runs, whatever it is."""

from __future__ import annotations

import collections
import datetime
import gc
import os
import pickle
import struct
import sys
import time

import pytest

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.inert_pickle import (
    Global,
    MadeBy,
    Persistent,
    PickledDict,
    unpickled,
    unpickled_at,
)

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def plain(value):
    """Records back as Python values, for comparison with what pickle itself makes."""
    if isinstance(value, PickledDict):
        return {plain(key): plain(one) for key, one in value.pairs}
    if isinstance(value, list | tuple):
        return type(value)(plain(one) for one in value)
    return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, False, 0, -1, 255, 65536, -(2**31), 2**31, 2**70, -(2**200), 1.5, float("inf")],
        ("text", "ä→\n\\", "", b"bytes\x00\xff", b"", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        {"a": {"b": [1, {"c": ()}]}, 2: "two", (1, 2): None},
        collections.OrderedDict([("x", 1), ("y", collections.OrderedDict(z=2))]),
        {"long": "x" * 70000, "list": list(range(3000)), "dict": {i: i for i in range(1500)}},
    ],
)
def test_plain_values_come_back_from_every_protocol(protocol, value):
    assert plain(unpickled(pickle.dumps(value, protocol)).root) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sets_come_as_lists(protocol):
    root = unpickled(pickle.dumps([{1, 2}, frozenset([3])], protocol)).root
    assert sorted(root[0]) == [1, 2]
    assert root[1] == [3]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shared_and_circular_values_keep_their_identity(protocol):
    value = [{"a": 1}]
    value += [value[0], value]
    root = unpickled(pickle.dumps(value, protocol)).root
    assert root[0] is root[1]
    assert root[2] is root


class Thing:
    def __init__(self):
        self.size = 3


class Pair(collections.namedtuple("Pair", "left right")):
    pass


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_become_records_of_their_class_and_state(protocol):
    root = unpickled(pickle.dumps([Thing(), datetime.date(2024, 1, 2)], protocol)).root
    assert root[0].path == f"{__name__}.Thing"
    assert root[0].state.get("size") == 3
    assert root[1].path == "datetime.date"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arguments_of_new_are_kept(protocol):
    root = unpickled(pickle.dumps(Pair(1, "b"), protocol)).root
    assert isinstance(root, MadeBy)
    assert root.args == (1, "b")


MALICIOUS = [
    b"cos\nsystem\n(S'touch x'\ntR.",
    b"cposix\nsystem\n(S'touch x'\ntR.",
    b"(S'touch x'\nios\nsystem\n.",
    b"(cos\nsystem\nS'touch x'\no.",
    b'c__builtin__\neval\n(S\'open("x", "w")\'\ntR.',
    b'cbuiltins\nexec\n(S\'open("x", "w")\'\ntR.',
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x07touch x\x85R.",
    b"cbuiltins\ngetattr\n(cos\n__dict__\nS'system'\ntR(S'touch x'\ntR.",
]


@pytest.mark.parametrize("content", MALICIOUS)
def test_nothing_runs(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    read = unpickled(content)
    assert isinstance(read.root, MadeBy)
    assert any("os" in name or "builtin" in name for name in read.globals)
    assert os.listdir(tmp_path) == []
    assert set(sys.modules) == before


def test_nothing_is_imported():
    name = "antigravity"
    read = unpickled(b"c" + name.encode() + b"\nfly\n(tR.")
    assert read.globals == ["antigravity.fly"]
    assert name not in sys.modules


def test_what_lies_outside_the_pickle_is_a_record():
    read = unpickled(b"\x80\x02X\x03\x00\x00\x00keyQ.")
    assert isinstance(read.root, Persistent)
    assert read.root.pid == "key"
    assert read.persistents == [read.root]
    assert unpickled(b"P12\n.").root.pid == "12"


def test_keys_that_cannot_be_compared_do_no_harm():
    root = unpickled(b"}(]K\x01cos\nsystem\nK\x02u.").root
    assert [value for _, value in root.pairs] == [1, 2]
    assert isinstance(root.pairs[1][0], Global)
    assert root.texts() == {}


@pytest.mark.parametrize("opening", [b"(", b"]", b"]q\x00"])
def test_depth_is_no_danger(opening):
    depth = 200_000
    closing = {b"(": b"t", b"]": b"a"}.get(opening[:1])
    root = unpickled(opening * depth + b"N" + closing * depth + b".").root
    assert root is not None
    del root


def test_a_state_dict_of_ten_thousand_tensors_is_read_at_once():
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    tensor += b"X\x01\x00\x00\x00aX\x03\x00\x00\x00cpuK\x04tQK\x00K\x02K\x02\x86K\x02K\x01\x86\x89"
    tensor += b"ccollections\nOrderedDict\n)RtR"
    taken = []
    for count in (1_000, 10_000):
        names = [b"X\x06\x00\x00\x00" + b"%06d" % number for number in range(count)]
        content = b"\x80\x02}(" + b"".join(name + tensor for name in names) + b"u."
        gc.disable()  # it goes over what other tests left
        started = time.thread_time()
        assert len(unpickled(content).root.pairs) == count
        taken.append(time.thread_time() - started)
        gc.enable()
    assert taken[1] < 50 * taken[0]  # ten times as many; a search for each would take a hundred


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\x80\x02", "before its STOP"),
        (b".", "takes more values"),
        (b"\x80\x02}X", "at byte 3"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x82\x01.", "cannot be read"),
        (b"\x97.", "cannot be read"),
        (b"h\x05.", "recalls value 5"),
        (b"t.", "takes more values"),
        (b"NNs.", "takes more values"),
        (b"NNNs.", "no dict"),
        (b"}(Nu.", "without value"),
        (b"NNa.", "no list"),
        (b"NNR.", "no class or function"),
        (b"cos\nsystem\nNR.", "without arguments"),
        (b"NNb.", "a state for something"),
        (b"K\x01K\x02\x93.", "name is no text"),
        (b"I12x\n.", "invalid literal"),
        (b"L" + b"9" * 5000 + b"L\n.", "a number too long"),
        (b"X\xff\xff\xff\x7fabc", "damaged at byte 0"),
        (b"\x8d" + struct.pack("<Q", 2**62) + b"abc", "damaged at byte 0"),
        (b"\x8b\xff\xff\xff\xff", "damaged at byte 0"),
        (b"X\x02\x00\x00\x00\xff\xfe.", "damaged at byte 0"),
        (b"garbage", "damaged at byte"),
    ],
)
def test_a_damaged_pickle_is_refused_with_the_byte(tmp_path, content, reason):
    with pytest.raises(FormatError, match=reason):
        unpickled(content)
    file = tmp_path / "x"
    file.write_bytes(content)
    with open(file, "rb") as stream, pytest.raises(FormatError, match=reason):
        unpickled_at(stream, len(content))


def test_huge_memo_numbers_take_no_memory():
    assert unpickled(b"Nr\xff\xff\xff\xffp99999999999999999\n.").root is None


def test_pickles_behind_one_another(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(pickle.dumps([1], 2) + pickle.dumps({"a": 2}, 2) + b"rest")
    with open(file, "rb") as stream:
        assert unpickled_at(stream, 1000).root == [1]
        assert plain(unpickled_at(stream, 1000).root) == {"a": 2}
        assert stream.read() == b"rest"
