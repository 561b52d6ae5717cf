"""What is of another type than a call takes is refused in our words, in either language."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.formats.mapping_file import read_weight_map, write_weight_map
from troubleshooter_nb.options import option_context

ONE = Dump.from_arrays({"x": np.ones(2)})
CALLS = {
    "open_dump": (lambda: tnb.open_dump(3), "a path is a str or path-like, got int"),
    "open_dump None": (lambda: tnb.open_dump(None), "a path is a str or path-like, got NoneType"),
    "read_weight_map": (lambda: read_weight_map(3), "a path is a str or path-like, got int"),
    "export": (
        lambda: tnb.export(tnb.compare(ONE, ONE), 3),
        "a path is a str or path-like, got int",
    ),
    "write_weight_map": (
        lambda: write_weight_map(3, "a.yaml"),
        "weight_map takes a WeightMap, got int",
    ),
    "compare": (lambda: tnb.compare(ONE, ONE, noise=3), "noise takes a NoiseModel, got int"),
    "missing_places": (lambda: tnb.missing_places(ONE, 4), "right takes a Dump, got int"),
    "from_arrays": (lambda: Dump.from_arrays(3), "arrays takes a Mapping, got int"),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_type_is_refused(name):
    call, said = CALLS[name]
    with pytest.raises(tnb.errors.ArgumentTypeError) as caught:
        call()
    assert str(caught.value) == said
    with option_context(language="zh"):
        assert "应为" in str(caught.value)
        assert str(caught.value).endswith("得到 " + said.rpartition(" ")[2])
