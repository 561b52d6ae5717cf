"""What `docs/guards.md` shows of comparing runs, as it is written there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import troubleshooter_nb as tnb

PAGE = (Path(__file__).parents[1] / "docs/guards.md").read_text(encoding="utf-8")


@pytest.mark.torch
def test_every_block_of_the_page_runs_and_finds_what_it_says(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "guards.py", "exec"), names)
    (found,) = names["rec"].differences
    assert (found.path, found.layer, found.origin) == ("1", "SiLU", "created")
    cause = tnb.compare(names["rec"].dump, "golden").first_divergence
    assert cause.row["left"].item() == "Module.1.SiLU.forward.0.output.0"
    names["test_the_network_computes_what_it_did"](tmp_path)
    names["test_the_network_computes_what_it_did_by_fingerprints"]()
    names["network"] = lambda make=names["network"]: make(names["nn"].SiLU)
    with pytest.raises(AssertionError, match=r"the two are not the same"):
        names["test_the_network_computes_what_it_did"](tmp_path)
    with pytest.raises(AssertionError, match="differences from 'golden_small'"):
        names["test_the_network_computes_what_it_did_by_fingerprints"]()
