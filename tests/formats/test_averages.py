"""Moving averages beside the weights they are of, under names made of theirs."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb import compare, draft_weight_map, open_dump, save_dump
from troubleshooter_nb.naming.mirrors import mirrors_of

SHAPES = {
    "blocks.0.attn.qkv.weight": (12, 4),
    "blocks.0.norm.weight": (4,),
    "blocks.0.norm.bias": (4,),
    "head.weight": (3, 4),
}


def averages_of(shapes):
    """Averages that names and shapes make sure, to their weights."""
    sure = [mirror for mirror in mirrors_of(shapes) if mirror.is_average]
    return {name: weight for mirror in sure for name, weight in mirror.pairs.items()}


def weights():
    rng = np.random.default_rng(5)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def averaged(arrays, named):
    return {named(name): array * np.float32(0.999) for name, array in arrays.items()}


@pytest.mark.parametrize("suffix", ["pth", "safetensors", "ckpt"])
@pytest.mark.parametrize(
    ("front", "named"),
    [
        ("", lambda name: f"ema_{name.replace('.', '_')}"),
        ("", lambda name: f"model_ema_{name.replace('.', '_')}"),
        ("generator.", lambda name: f"generator_ema.{name}"),
        ("student.", lambda name: f"ema_student.{name}"),
        ("", lambda name: f"swa.{name}"),
    ],
)
def test_averages_are_set_aside_and_raw_is_compared_with_raw(tmp_path, suffix, front, named):
    raw = weights()
    both = {front + name: array for name, array in raw.items()} | averaged(raw, named)
    save_dump(both, tmp_path / f"both.{suffix}")
    save_dump(raw, tmp_path / f"raw.{suffix}")
    dump = open_dump(tmp_path / f"both.{suffix}")
    averages = dump.select(role="average")
    assert sorted(averages.names) == sorted(map(named, raw))
    assert any("moving averages of others and set aside" in note for note in dump.notes)
    cmp = compare(dump, tmp_path / f"raw.{suffix}")
    assert cmp.verdict == "✓ 4 of 4 pairs agree"
    found = draft_weight_map(tmp_path / f"both.{suffix}", tmp_path / f"raw.{suffix}")
    assert len(found) == len(raw)
    assert not any("ema" in str(row) for row in found.rows)


def test_an_average_needs_its_weight_in_its_shape():
    shapes = {"fc.weight": (2, 2), "ema_fc_weight": (2, 3), "ema_fc_bias": (2,), "schema_x": (2, 2)}
    assert averages_of(shapes) == {}
    assert averages_of(shapes | {"ema_fc_weight": (2, 2)}) == {"ema_fc_weight": "fc.weight"}


def test_a_network_with_a_part_called_ema_keeps_it():
    shapes = {"ema.weight": (2,), "ema.bias": (2,), "fc.weight": (4,), "fc.bias": (4,)}
    assert averages_of(shapes) == {}


def test_a_name_that_two_weights_flatten_to_is_of_neither():
    shapes = {"a.b_c.weight": (2,), "a_b.c.weight": (2,), "ema_a_b_c_weight": (2,)}
    assert averages_of(shapes) == {}
