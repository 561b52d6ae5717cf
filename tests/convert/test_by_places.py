"""Rows by the places that words of names say: alone, packed, stacked, or none at all."""

import numpy as np
import pytest

from troubleshooter_nb.convert.by_places import rows_by_place
from troubleshooter_nb.naming.blocks import Place, place_in_blocks
from troubleshooter_nb.transforms import Spec


def specs(**shapes):
    return {name.replace("__", "."): Spec(shape, np.dtype("f4")) for name, shape in shapes.items()}


def rows(source, target):
    return {
        row.targets: (row.sources, str(row.transform)) for row, _ in rows_by_place(source, target)
    }


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.layers.3.self_attn.q_proj.weight", ("", (3,), "q", "weight")),
        ("transformer.h.0.attn.c_attn.bias", ("", (0,), "qkv", "bias")),
        (
            "bert.encoder.layer.1.attention.output.LayerNorm.gamma",
            ("encoder", (1,), "norm_1", "weight"),
        ),
        ("bert.encoder.layer.1.output.LayerNorm.beta", ("encoder", (1,), "norm_2", "bias")),
        ("layers.0.post_attention_layernorm.weight", ("", (0,), "norm_2", "weight")),
        (
            "decoder.layers.0.mlp.linear_fc1.layer_norm_weight",
            ("decoder", (0,), "norm_2", "weight"),
        ),
        ("layers.2.mlp.experts.5.w3.weight", ("", (2, 5), "up", "weight")),
        ("layers.2.mlp.experts.gate_up_proj", ("", (2,), "gate_up", "weight")),
        (
            "decoder.block.0.layer.1.EncDecAttention.k.weight",
            ("decoder", (0, 1), "cross_k", "weight"),
        ),
        ("model.decoder.embed_positions.weight", ("decoder", (), "position", "weight")),
        ("lm_head.weight", ("", (), "head", "weight")),
    ],
)
def test_words_say_a_place(name, place):
    assert place_in_blocks(name) == Place(*place)


@pytest.mark.parametrize(
    "name", ["conv1.weight", "layers.0.norm1.running_mean", "fc.weight", "layers.0.weight", "step"]
)
def test_other_words_say_none(name):
    assert place_in_blocks(name) is None


def test_parts_are_joined_where_their_rows_add_up():
    parts = {
        f"h__0__attn__{one}_proj__weight": (rows, 6)
        for one, rows in zip("qkv", (8, 4, 4), strict=True)
    }
    source, target = specs(**parts), specs(layers__0__attention__qkv__weight=(16, 6))
    joined = {("layers.0.attention.qkv.weight",): (tuple(source), "concat(0)")}
    assert rows(source, target) == joined
    parted = {tuple(source): (("layers.0.attention.qkv.weight",), "split(0, 8, 4, 4)")}
    assert rows(target, source) == parted
    assert rows(source, specs(layers__0__attention__qkv__weight=(18, 6))) == {}
    del source["h.0.attn.k_proj.weight"]
    assert rows(source, target) == {}


def test_a_weight_of_input_by_output_is_transposed_first():
    source = specs(h__0__attn__c_attn__weight=(6, 18), h__0__attn__c_attn__bias=(18,))
    target = {
        name: spec
        for one in "qkv"
        for name, spec in specs(
            **{f"layers__0__attn__{one}__weight": (6, 6), f"layers__0__attn__{one}__bias": (6,)}
        ).items()
    }
    made = [how for _, how in rows(source, target).values()]
    assert made == ["transpose | split(0, 6, 6, 6)", "split(0, 6, 6, 6)"]


def test_square_weights_follow_those_whose_shape_tells():
    source = specs(h__0__attn__c_proj__weight=(6, 6), h__0__mlp__c_fc__weight=(6, 24))
    there = specs(layers__0__attn__out_proj__weight=(6, 6), layers__0__fc1__weight=(24, 6))
    assert [how for _, how in rows(source, there).values()] == ["transpose", "transpose"]
    same = specs(layers__0__attn__out_proj__weight=(6, 6), layers__0__fc1__weight=(6, 24))
    assert [how for _, how in rows(source, same).values()] == ["copy", "copy"]


def test_experts_are_stacked_and_unstacked():
    source = specs(
        **{
            f"layers__0__mlp__experts__{e}__{w}__weight": (8, 6)
            for e in range(3)
            for w in ("w1", "w3")
        }
    )
    target = specs(layers__0__mlp__experts__gate_up_proj=(3, 16, 6))
    name = ("layers.0.mlp.experts.gate_up_proj",)
    assert rows(source, target) == {name: (tuple(source), "concat(0) | reshape(3, 16, 6)")}
    back = "reshape(48, 6) | split(0, 8, 8, 8, 8, 8, 8)"
    assert rows(target, source) == {tuple(source): (name, back)}
    turned = specs(layers__0__mlp__experts__gate_up_proj=(3, 6, 16))
    assert rows(source, turned)[name][1].endswith("permute(0, 2, 1)")


def test_two_tensors_at_one_place_are_left_to_others():
    source = specs(a__layers__0__q__weight=(6, 6), b__layers__0__q__weight=(6, 6))
    assert rows(source, specs(layers__0__attn__wq__weight=(6, 6))) == {}
    both = specs(encoder__layers__0__q__weight=(6, 6), decoder__layers__0__q__weight=(6, 6))
    assert len(rows(both, both)) == 2
