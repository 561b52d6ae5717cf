"""Gradients that people saved under names and in folders of their own are asked as gradients."""

from __future__ import annotations

import os

import numpy as np
import pytest

import troubleshooter_nb as tnb

_SHAPES = {
    "embed.weight": (8, 6),
    "enc.0.q.weight": (6, 6),
    "enc.0.q.bias": (6,),
    "enc.1.norm.weight": (6,),
    "enc.1.norm.bias": (6,),
    "head.weight": (3, 6),
}


def gradients(scale=1.0):
    rng = np.random.default_rng(7)
    return {
        name: (scale * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in _SHAPES.items()
    }


def saved(folder, arrays, named):
    os.makedirs(folder)
    for place, (name, array) in enumerate(arrays.items()):
        np.save(folder / f"{named(place, name)}.npy", array)
    return folder


def scaled(tmp_path, folder, named=lambda _, name: name):
    """The same gradients, scaled by 1024 on the left, saved in the same way."""
    sides = ((tmp_path / "L" / folder, 1024.0), (tmp_path / "R" / folder, 1.0))
    return [saved(side, gradients(scale), named) for side, scale in sides]


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        ("grads", lambda _, name: name),
        ("grads", lambda place, name: f"{name}_{place + 30}"),  # TroubleShooter's positions
        ("out", lambda place, name: f"{place}_grads.{name}_{place}"),  # up to 1.0.18
        ("out", lambda place, name: f"torch_grads.{name}_{place}_float32_{place}"),  # 1.0.19
        ("pgrads", lambda _, name: name),
        ("weightgrad", lambda _, name: name),
        ("grads/step0", lambda _, name: name),
        ("grads_0001", lambda _, name: name),
        ("grads/0003/rank_1", lambda _, name: name),
    ],
)
def test_a_loss_scale_is_found_whatever_gradients_are_called(tmp_path, folder, named):
    cmp = tnb.compare(*scaled(tmp_path, folder, named))
    columns = cmp.pairing.left.columns
    assert set(columns["role"]) == {"parameter"}
    assert set(columns["direction"]) == {"backward"}
    assert cmp.findings[0].cause == "loss_scale_left"
    assert [check.what for check in cmp.preflight if check.what == "parameters"] == []
    assert "head.weight" in str(cmp.first_divergence.row["left"].values)


def test_what_is_walked_backward_is_gradients(tmp_path):
    left, right = scaled(tmp_path, "values")
    as_weights, as_gradients = (tnb.compare(left, right, walk=w) for w in ("auto", "backward"))
    assert [c.status for c in as_weights.preflight if c.what == "parameters"] == ["bad"]
    assert not [c for c in as_gradients.preflight if c.what == "parameters"]
    assert as_gradients.findings[0].cause == "loss_scale_left"
    # The template pairs first.
    dumps = [tnb.open_dump(side).summarise() for side in (left, right)]
    cmp = tnb.compare(*dumps, pairing=tnb.pair_dumps(*dumps), walk="backward")
    assert cmp.findings[0].cause == "loss_scale_left"


def test_weights_beside_their_gradients_stay_weights_when_walked_backward():
    arrays = gradients()
    both = arrays | {f"grads.{name}": array for name, array in arrays.items()}
    cmp = tnb.compare(both, both, walk="backward")
    directions = cmp.pairing.left.columns["direction"].tolist()
    assert directions == [""] * len(arrays) + ["backward"] * len(arrays)


def test_a_folder_of_numbered_weights_is_none_of_gradients(tmp_path):
    left, right = scaled(tmp_path, "weights", lambda place, name: f"{name}_{place}")
    cmp = tnb.compare(left, right)
    assert set(cmp.pairing.left.columns["direction"]) == {""}
