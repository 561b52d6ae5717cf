"""Damaged torch files: an error of ours or values, never anything else, never for long."""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.pth import open_pth, refusal

COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50
DATA = Path(__file__).parents[1] / "data"
INPUTS = DATA / "troubleshooter" / "inputs" / "pth"
BASES = {
    "zip": INPUTS / "wrapped_model_optimizer.pth",
    "bfloat16": INPUTS / "bfloat16.pth",
    "whole module": INPUTS / "whole_module.pth",
    "legacy": DATA / "torch" / "legacy.pth",
    "tar": DATA / "torch" / "tar.pth",
    "TorchScript": DATA / "torch" / "scripted.pth",
    "distributed metadata": DATA / "torch" / "distributed" / ".metadata",
    "distributed values": DATA / "torch" / "distributed" / "__0_0.distcp",
}


def values_of(path):
    dump = open_pth(path, label="x")
    return {
        name: source.read(0, math.prod(source.shape)).tobytes()
        for name, source in zip(dump.names, dump.sources, strict=True)
        if source is not None and source.size_bytes < 1 << 20
    }


@pytest.mark.parametrize("kind", BASES)
def test_a_damaged_file_gives_values_or_our_error(tmp_path, kind, record_property):
    base = BASES[kind]
    is_part = base.parent.name == "distributed"
    if is_part:
        shutil.copytree(base.parent, tmp_path / "d")
    path = tmp_path / "d" / base.name if is_part else tmp_path / "x.pth"
    opened = tmp_path / "d" if is_part else path
    expected = values_of(base.parent if is_part else base)
    content = base.read_bytes()
    rng = random.Random(f"pth {kind}")
    right = refused = 0
    for number in range(COUNT):
        accident = ACCIDENTS[number % len(ACCIDENTS)]
        data = bytearray(content)
        accident(data, rng)
        path.write_bytes(data)
        message = None
        with bounded(len(data), (kind, number, accident.__name__)):
            try:
                refusal(opened)
                right += values_of(opened) == expected
            except (FormatError, ReadError) as error:
                refused += 1
                message = str(error)
        assert message is None or opened.name in message
    said = f"{kind}: {COUNT} damaged, {refused} refused, {right} open with the right values"
    record_property("outcome", said)
    sys.stdout.write(f"{said}\n")  # shown by pytest -s or -rP
