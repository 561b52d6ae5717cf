"""Json of Polygraphy: results of runners, inputs, arrays in base64, damage."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import random

import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats import limits
from troubleshooter_nb.formats.polygraphy_json import open_polygraphy_json, refusal

COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50


# What Polygraphy's encoders of ndarray, LazyArray, IterationResult and RunResults write
# (polygraphy/json/serde.py and comparator/struct.py, 0.47 and 0.49), with its indent of 4.


def encoded(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return {"array": base64.b64encode(stream.getvalue()).decode(), "polygraphy_class": "ndarray"}


def results(**runners):
    return {
        "lst": [
            [
                runner,
                [
                    {
                        "outputs": {
                            name: {"values": encoded(array), "polygraphy_class": "LazyArray"}
                            for name, array in outputs.items()
                        },
                        "runtime": 0.25,
                        "runner_name": runner,
                        "polygraphy_class": "IterationResult",
                    }
                    for outputs in iterations
                ],
            ]
            for runner, iterations in runners.items()
        ],
        "polygraphy_class": "RunResults",
    }


def written(path, thing):
    path.write_text(json.dumps(thing, indent=4))
    return path


def column(dump, name):
    return dump.index[name].values.tolist()


def arrays():
    rng = np.random.default_rng(11)
    return {
        "logits": rng.normal(size=(3, 5)).astype(np.float32),
        "averylongnamelikeGlobalAveragePool": rng.normal(size=7),
        "half": np.arange(6, dtype=np.float16),
        "turned": np.asfortranarray(rng.normal(size=(4, 3))),
        "flags": np.array([True, False]),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float32),
    }


def test_outputs_of_a_runner_are_read_in_every_dtype_and_shape(tmp_path):
    file = written(tmp_path / "o.json", results(**{"trt-runner-N0": [arrays(), arrays()]}))
    dump = open_dump(file)
    assert dump.format == "polygraphy_json"
    assert column(dump, "step") == [0] * 7 + [1] * 7
    assert set(column(dump, "role")) == {"output"}
    first = dump.select(step=0)
    assert first.names == list(arrays())
    for name, array in arrays().items():
        got = first.array(name)
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
    assert dump.notes == ("outputs of trt-runner-N0",)


def test_any_range_is_the_same_range_of_the_array(tmp_path):
    dump = open_dump(written(tmp_path / "o.json", results(r=[arrays()])))
    rng = np.random.default_rng(3)
    for name, array in arrays().items():
        source = dump.sources[dump.position(name)]
        assert pickle.loads(pickle.dumps(source)) == source
        flat = array.reshape(-1)
        for _ in range(20):
            start, stop = sorted(int(k) for k in rng.integers(0, array.size + 1, 2))
            np.testing.assert_array_equal(source.read(start, stop), flat[start:stop])


def test_inputs_are_a_list_of_iterations(tmp_path):
    feed = [{"x": encoded(np.full(3, float(step)))} for step in range(2)]
    dump = open_dump(written(tmp_path / "i.json", feed))
    assert (column(dump, "step"), column(dump, "role")) == ([0, 1], ["input", "input"])
    assert dump.select(step=1).array("x").tolist() == [1, 1, 1]


def test_several_runners_stand_in_front_of_the_names(tmp_path):
    both = results(trt=[{"y": np.ones(2)}], onnxrt=[{"y": np.zeros(2)}])
    dump = open_dump(written(tmp_path / "o.json", both))
    assert dump.names == ["trt/y", "onnxrt/y"]
    assert column(dump, "path") == ["y", "y"]


def test_the_older_markers_are_read_as_well(tmp_path):
    text = json.dumps(results(r=[{"y": np.arange(3.0)}]))
    for kind in ("ndarray", "LazyArray", "IterationResult", "RunResults"):
        old = f'"__polygraphy_encoded_{kind}": "polygraphy_serialized_json_type"'
        text = text.replace(f'"polygraphy_class": "{kind}"', old)
    (tmp_path / "o.json").write_text(text)
    assert open_dump(tmp_path / "o.json").array("y").tolist() == [0, 1, 2]


def test_arrays_that_are_no_arrays_are_entries_with_a_reason(tmp_path):
    feed = {
        "good": encoded(np.ones(2)),
        "latin": {"array": "\x93NUMPY\x01", "polygraphy_class": "ndarray"},
        "torch": {"values": {"array": "gAJ9"}, "polygraphy_class": "Tensor"},
        "none": {"array": None},
        "text": "hello",
        "cut": {"array": encoded(np.ones(200))["array"][:400]},
        "odd": {"array": encoded(np.ones(200))["array"][:399]},
        "objects": {"array": base64.b64encode(_npy_of_objects()).decode()},
    }
    dump = open_dump(written(tmp_path / "i.json", [feed]))
    reasons = dict(zip(dump.names, column(dump, "reason"), strict=True))
    assert reasons.pop("good") == ""
    for name, text in {
        "latin": "latin-1",
        "torch": "pickle, which is never loaded",
        "none": "no array in base64",
        "text": "no array in base64",
        "cut": "truncated",
        "odd": "are no base64",
        "objects": "Python objects",
    }.items():
        assert text in reasons[name]


def _npy_of_objects():
    stream = io.BytesIO()
    np.save(stream, np.array([{}], object), allow_pickle=True)
    return stream.getvalue()


def test_a_changed_file_is_not_read(tmp_path):
    file = written(tmp_path / "i.json", [{"x": encoded(np.ones(3))}])
    source = open_dump(file).sources[0]
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ReadError, match="changed since it was opened"):
        source.read(0, 3)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"lst": [["r", 3]], "polygraphy_class": "RunResults"}', "is no pair"),
        ('{"lst": [["r", [{}]]], "polygraphy_class": "RunResults"}', "has no outputs"),
        ('{"lst": [], "polygraphy_class": "RunResults"}', "no tensors in it"),
        ('{"polygraphy_class": "TacticReplayData"}', "neither results of runners nor"),
        ('{"lst": [', "no json"),
        ('{"lst": ' + "[" * 100_000, "no json"),
        ("[]", "no tensors in it"),
    ],
)
def test_other_json_is_refused_with_words(tmp_path, text, match):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError, match=match):
        open_polygraphy_json(tmp_path / "x.json", label="x")


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", "x", "", '{"weight_map": {"a": "b"}}'])
def test_foreign_json_is_left_to_others(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert refusal(tmp_path / "x.json")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setitem(limits.MOST, "polygraphy_json", 100)
    file = written(tmp_path / "i.json", [{"x": encoded(np.ones(30))}])
    with pytest.raises(FormatError, match="save fewer outputs"):
        open_polygraphy_json(file, label="x")


def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path):
    path = written(tmp_path / "o.json", results(r=[arrays()]))
    content = path.read_bytes()
    rng = random.Random("polygraphy")
    said = []
    refused = 0
    for number in range(COUNT):
        data = bytearray(content)
        rng.choice(ACCIDENTS)(data, rng)
        path.write_bytes(bytes(data))
        with bounded(len(content), number):
            try:
                dump = open_polygraphy_json(path, label="x")
            except FormatError as error:
                said.append(str(error))
                refused += 1
                continue
            for source in filter(None, dump.sources):
                try:
                    source.read(0, int(np.prod(source.shape, dtype=object)))
                except ReadError as error:
                    said.append(str(error))
            repr(dump)
    assert all(0 < len(text) < 500 for text in said)
    assert 0 < refused < COUNT
