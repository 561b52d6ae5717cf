"""The HTML builder: what it escapes, and what no page may hold."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.render.html import Markup, element, join, shortest

HALF = "a\ud800b"  # half of a pair of surrogates, as a file may hold it


def test_half_a_pair_of_surrogates_is_written_as_its_number():
    assert element("td", HALF, title=HALF) == '<td title="a\\ud800b">a\\ud800b</td>'
    assert join([Markup("<b>"), "é<"], "·") == "<b>·é&lt;"
    assert shortest(lambda rows: element("p", HALF), {"html_bytes": 1}, 4) == "<p>a\\ud800b</p>"


@pytest.mark.parametrize("draw", ["compare", "pair_dumps"])
def test_reprs_of_such_names_can_be_written(draw):
    sides = [{HALF: np.ones(3), "x": np.ones(2)}, {HALF: np.zeros(3), "x": np.ones(2)}]
    html = getattr(tnb, draw)(*sides)._repr_html_()
    assert "a\\ud800b" in html
    html.encode()
