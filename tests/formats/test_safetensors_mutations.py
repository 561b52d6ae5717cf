"""Damaged safetensors and npz files are read or refused, quickly, and nothing else happens."""

from __future__ import annotations

import json
import os
import random
import zipfile

import ml_dtypes
import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.npz import open_npz
from troubleshooter_nb.formats.safetensors_ import open_safetensors, write_safetensors

COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50


def arrays():
    rng = np.random.default_rng(5)
    return {
        "fc.weight": rng.normal(size=(8, 16)).astype(np.float32),
        "fc.bias": rng.normal(size=8).astype(np.float32),
        "half": np.arange(12).astype(ml_dtypes.bfloat16).reshape(3, 4),
        "count": np.int64(7).reshape(()),
    }


def made_safetensors(path):
    def item(name, array):
        return Item(name, array.dtype, array.shape, lambda: [array.reshape(-1)])

    write_safetensors(path, [item(name, array) for name, array in arrays().items()])


def made_stored(path):
    np.savez(
        path,
        **{name: array.view("V2") if name == "half" else array for name, array in arrays().items()},
    )


def made_deflated(path):
    given = arrays()
    given["fc.weight"] = np.asfortranarray(given["fc.weight"])
    given["half"] = given["half"].astype(np.float32)
    np.savez_compressed(path, **given)


def made_mixed(path):
    made_stored(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", path.read_bytes())
        archive.writestr("text.txt", "text")


KINDS = {
    "safetensors": (made_safetensors, open_safetensors),
    "stored.npz": (made_stored, open_npz),
    "deflated.npz": (made_deflated, open_npz),
    "mixed.npz": (made_mixed, open_npz),
}


NUMBERS = [-1, 0, 1, 3, 2**31, 2**32 - 1, 2**63, 2**64, 10**30, 1.5, True, None, "8", [], {}]


def header_edited(data, rng):
    """Another header: the JSON is sound, what it says is not."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8 : 8 + length]))
    name = rng.choice([key for key in header if key != "__metadata__"])
    other = rng.choice([key for key in header if key != "__metadata__"])
    facts = header[name]
    kind = rng.randrange(7)
    if kind == 0:
        facts["data_offsets"][rng.randrange(2)] = rng.choice(NUMBERS)
    elif kind == 1:
        facts["shape"] = [rng.choice(NUMBERS) for _ in range(rng.randint(0, 3))]
    elif kind == 2:
        facts["data_offsets"] = header[other]["data_offsets"]
    elif kind == 3:
        facts["dtype"] = rng.choice(["F4", "F64", "C64", "BOOL", "F8_E5M2", "", None, 3])
    elif kind == 4:
        header["__metadata__"] = rng.choice([{"tied": name}, {name: "Int4"}, {"a": 1}, [], 3])
    elif kind == 5:
        header.pop(name)
    raw = json.dumps(header).encode()
    if kind == 6:
        raw = raw.replace(f'"{name}"'.encode(), f'"{other}"'.encode())
    if rng.random() < 0.1:
        raw = b'{"a":' * 50_000 + raw + b"}" * 50_000
    claimed = rng.choice([len(raw)] * 8 + [rng.getrandbits(64), len(raw) + rng.randint(-9, 9)])
    data[: 8 + length] = claimed.to_bytes(8, "little") + raw


def mutated(content, rng, is_safetensors):
    data = bytearray(content)
    if is_safetensors and rng.random() < 0.5:
        header_edited(data, rng)
    else:
        rng.choice(ACCIDENTS)(data, rng)
    return bytes(data)


def read_all(path, open_):
    """The bytes of each entry, or None; the errors that may be raised become reasons."""
    try:
        dump = open_(path, label="x")
    except FormatError as error:
        return None, [str(error)]
    values, said = {}, []
    for name, source, reason in zip(
        dump.names, dump.sources, dump.index["reason"].values, strict=True
    ):
        values[name] = None
        if source is None:
            said.append(str(reason))
            continue
        size = int(np.prod(source.shape, dtype=object))
        try:
            values[name] = b"".join(
                source.read(start, min(start + 50, size)).tobytes() for start in range(0, size, 50)
            )
        except ReadError as error:
            said.append(str(error))
    return values, said


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path, kind):
    make, open_ = KINDS[kind]
    path = tmp_path / f"x.{kind.rpartition('.')[2]}"
    make(path)
    content = path.read_bytes()
    right, _ = read_all(path, open_)
    rng = random.Random(f"safetensors {kind}")
    same = refused = 0
    for number in range(COUNT):
        path.write_bytes(mutated(content, rng, kind == "safetensors"))
        with bounded(len(content), number):
            values, said = read_all(path, open_)
        assert all(0 < len(reason) < 500 for reason in said), said
        refused += values is None
        same += values == right
    # Whoever changes the reader looks at this with pytest -rP.
    print(f"{kind}: of {COUNT} files {refused} are refused, {same} give all the right values")  # noqa: T201
    # All ways out are taken, or the mutations are worth nothing.
    assert 0 < refused < COUNT
    assert same < COUNT // 2
