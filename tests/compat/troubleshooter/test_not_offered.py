"""Calls that are out exist, and say what to use instead."""

from __future__ import annotations

import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.errors import NotOfferedError, TroubleshooterError

CALLS = [
    "migrator.NetDifferenceFinder",
    *(f"migrator.api_dump_{verb}" for verb in ("init", "start", "stop", "compare")),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_out_says_what_to_use(call):
    function = ts
    for part in call.split("."):
        function = getattr(function, part)
    with pytest.raises(NotOfferedError, match=rf"^{call} is not offered by troubleshooter_nb; \w"):
        function("net", weight_map_save_path="x")
    assert issubclass(NotOfferedError, NotImplementedError)
    assert issubclass(NotOfferedError, TroubleshooterError)
    assert function.__name__ == call.rpartition(".")[2]


@pytest.mark.parametrize("module", [ts, ts.migrator, ts.widget], ids=lambda module: module.__name__)
def test_every_listed_name_is_there(module):
    assert all(hasattr(module, name) for name in module.__all__)
    assert len(module.__all__) == len(set(module.__all__))
