"""The outcome of a notebook: what it is made of, how it travels in an output."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.templates.outcome import exit_code_in

SAME = {"x": np.ones(3)}
OTHER = {"x": np.arange(3.0)}


def passed():
    return tnb.compare(SAME, SAME)


def differs():
    return tnb.compare(SAME, OTHER)


def undecided():
    return tnb.compare(SAME | {"y": np.ones(2)}, SAME)


def test_one_comparison_gives_its_exit_code():
    found = [tnb.outcome(make()).exit_code for make in (passed, differs, undecided)]
    assert found == [0, 1, 2]


def test_a_difference_counts_more_than_what_could_not_be_decided():
    assert tnb.outcome(undecided(), differs(), passed()).exit_code == 1
    assert tnb.outcome(passed(), undecided(), None).exit_code == 2
    assert tnb.outcome(passed(), None).exit_code == 0


def test_curves_checkpoints_and_overflow_have_outcomes(tmp_path):
    losses = 3.0 / np.arange(1.0, 41.0)
    curves = [tnb.compare_series(losses, losses + step) for step in (0.0, 1.0)]
    assert [tnb.outcome(one).exit_code for one in curves] == [0, 1]
    assert tnb.outcome(tnb.diff_checkpoints(SAME, OTHER)).exit_code == 1
    assert tnb.outcome(tnb.Overflow()).exit_code == 2
    assert tnb.outcome(tnb.Overflow(calls=3)).exit_code == 0
    row = {"kind": "starts", "step": 0}
    assert tnb.outcome(tnb.Overflow(rows=(row,), calls=3)).exit_code == 1


def test_what_can_neither_pass_nor_differ_is_refused():
    with pytest.raises(TypeError, match="got dict"):
        tnb.outcome({})
    with pytest.raises(ValueError, match="at least one comparison"):
        tnb.outcome(None)


@pytest.mark.parametrize(("language", "said"), [("en", "outcome: differs"), ("zh", "结果：不一致")])
def test_the_output_of_a_cell_holds_the_exit_code_beside_words(language, said):
    with tnb.option_context(language=language):
        data, metadata = tnb.outcome(differs())._repr_mimebundle_()
    assert data["text/plain"].startswith(said)
    assert exit_code_in({"cells": [{"outputs": [{"metadata": metadata}]}]}) == 1


@pytest.mark.parametrize("said", [{}, {"exit_code": 7}, {"exit_code": "0"}, "differs", None])
def test_anything_else_is_no_outcome(said):
    assert (
        exit_code_in({"cells": [{"outputs": [{"metadata": {"troubleshooter_nb": said}}]}]}) is None
    )
    assert exit_code_in({"cells": [{"cell_type": "markdown"}, {"outputs": [{}]}]}) is None
