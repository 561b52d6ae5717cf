"""The door to the widgets: what is said where Jupyter is missing, broken or not around."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from troubleshooter_nb import pair_dumps
from troubleshooter_nb.errors import ExtraMissingError
from troubleshooter_nb.weight_map import Spec, WeightMap
from troubleshooter_nb.widgets import edit, explore
from troubleshooter_nb.widgets.words import editor_word

SPECS = {"a": Spec((2,), np.dtype("f4"))}
MAP = WeightMap((), SPECS, SPECS)


def without(monkeypatch, package, *users):
    """As if a package were not there, and its users were not imported yet."""
    for name in list(sys.modules):
        if name.partition(".")[0] in users:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.notebook
@pytest.mark.parametrize(("call", "value"), [(edit, MAP), (explore, pair_dumps({}, {}))])
def test_what_anywidget_lacks_is_a_sentence_and_no_traceback(monkeypatch, call, value):
    without(monkeypatch, "psygnal", "anywidget")
    said = rf"{call.__name__}\(\) needs anywidget, which cannot be imported here \(.*psygnal"
    with pytest.raises(ExtraMissingError, match=said) as info:
        call(value)
    (shown,) = info.value._render_traceback_()
    assert "pip install 'troubleshooter_nb[notebook]'" in shown
    assert isinstance(info.value.__cause__, ImportError)


@pytest.mark.notebook
def test_where_ipython_is_missing_a_sentence_says_so(monkeypatch):
    without(monkeypatch, "IPython", "anywidget", "IPython")
    with pytest.raises(ExtraMissingError, match=r"cannot be imported here \(.*IPython"):
        edit(MAP)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.widgets.find_spec", lambda name: None)
    with pytest.raises(ExtraMissingError, match=r"explore\(\) needs anywidget and ipywidgets: pip"):
        explore(MAP)


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": {"a": np.ones(2)}}, "no source=:"),
        ({"target": {"a": np.ones(2)}}, "no target=:"),
        ({"source": {}, "target": {}}, "no source= and no target=:"),
    ],
)
def test_values_beside_a_pairing_are_refused(given, said):
    pairing = pair_dumps({"a": np.ones(2)}, {"a": np.ones(2)})
    with pytest.raises(TypeError, match=rf"edit\(\) of a Pairing takes {said} it has its dumps"):
        edit(pairing, **given)
    assert edit(pairing).value is pairing


def test_the_words_without_a_front_end_hold_in_a_terminal_too():
    assert "in a notebook" in editor_word("static")
    assert "在笔记本中" in editor_word("static", "zh")
