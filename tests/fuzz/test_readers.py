"""Every reader on damaged and on hostile files: what it says, an error of ours, nothing else.

Not fast, not much: no more than 2 s of processor time and 200 MiB above the file for any of them.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter

import pytest

from tests.formats.accidents import bounded
from tests.fuzz.corpus import INPUTS, NETCDF
from tests.fuzz.mutators import mutated
from troubleshooter_nb.errors import TroubleshooterError
from troubleshooter_nb.formats import FORMATS

FEW = 6  # of each input
MANY = 10_000  # of all together
OUTCOMES = {"refused", "as it was", "parts of it", "other values"}
SEED = os.environ.get("TNB_FUZZ_SEED", "29")


def fuzzed(folder, name, count, seed=SEED):
    """How often a reader refused, gave what the sound file has, some of it, or something else."""
    if name == NETCDF:
        pytest.importorskip("netCDF4")
    base = folder / "sound"
    base.mkdir()
    given = INPUTS[name]
    path = given.make(base)
    right = given.read(path)
    assert right
    files = sorted(one for one in base.rglob("*") if one.is_file() and one.stat().st_size)
    contents = {file: file.read_bytes() for file in files}
    size = sum(map(len, contents.values()))
    rng = random.Random(f"{seed} {name}")
    outcomes: Counter[str] = Counter()
    for number in range(count):
        file = rng.choice(files)
        content, mutations = mutated(contents[file], rng)
        file.write_bytes(content)
        where = (name, seed, number, file.name, mutations)
        try:
            with bounded(size + len(content), where):
                ended = _ended(given, path, right)
        except Exception as error:
            error.add_note(f"mutation {where}")
            raise
        outcomes[ended] += 1
        file.write_bytes(contents[file])
    return outcomes


def _ended(given, path, right):
    try:
        found = given.read(path)
    except TroubleshooterError as error:
        return "refused" if 0 < len(str(error)) < 5000 else f"refused in {len(str(error))} letters"
    if found == right:
        return "as it was"
    differ = [key for key in right if key in found and found[key] not in (None, right[key])]
    return "other values" if differ else "parts of it"


def said(name, outcomes):
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(outcomes.items()))
    sys.stdout.write(f"{name}: {counts}\n")  # shown by pytest -s or -rP


@pytest.mark.parametrize("name", INPUTS)
def test_a_damaged_input_is_read_or_refused_and_nothing_else(tmp_path, name):
    outcomes = fuzzed(tmp_path, name, FEW)
    said(name, outcomes)
    assert outcomes.total() == FEW
    assert outcomes.keys() <= OUTCOMES


@pytest.mark.long
@pytest.mark.parametrize("name", INPUTS)
def test_ten_thousand_damaged_inputs_are_read_or_refused(tmp_path, name):
    count = -(-MANY // len(INPUTS))
    outcomes = fuzzed(tmp_path, name, count)
    said(name, outcomes)
    assert outcomes.keys() <= OUTCOMES
    # All ways out are taken, or the mutations are worth nothing.
    assert 0 < outcomes["refused"] + outcomes["parts of it"] < count


def test_every_format_has_an_input():
    assert {reader.name for reader in FORMATS} <= {given.reader for given in INPUTS.values()}
