"""Weights that a checkpoint stores in parts: quantized ones, and low-rank factors of adapters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_Shape = tuple[int, ...]
# Factors of LoRA and its kin, as peft, kohya, LyCORIS, mindpet and MindFormers call them.
_FACTOR = re.compile(
    r"(?i)(?:^|[._/])(?:mindpet_delta_)?(?:(?:lora|dora|vera|adalora)_(?:embedding_)?"
    r"(?:a|b|e|left|right|down|up|mid|alpha|rank|lambda_[bd]|magnitude_vector|scaling)"
    r"|hada_[wt][12](?:_[ab])?|lokr_[wt][12](?:_[ab])?|ia3_l)(?=[._/]|$)"
)
# Numbers beside factors, which other layers may be called by as well.
_OF_FACTORS = frozenset("alpha rank rank_num r scaling scale dora_scale magnitude".split())
_BASES = ("", "base_layer.", "base.", "original.", "orig.", "linear.", "frozen.")
# What holds the values of a quantized weight, and what turns them back: GPTQ, AWQ, bitsandbytes,
# compressed-tensors, torch.ao, TensorRT-LLM and MindSpore's golden stick.
_PACKED = (
    "weight",
    "qweight",
    "weight_packed",
    "weight_int8",
    "weight_quant",
    "quant_weight",
    "CB",
)
_FACTS = frozenset(
    "qzeros scales scale zeros zero_point zero_points weight_scale weight_scales weight_scale_inv "
    "weight_scale_2 weight_global_scale scale_inv scale_weight scb absmax quant_map g_idx "
    "weight_g_idx weight_zero_point weight_offset weight_shape input_scale input_offset act_scale "
    "activation_scaling_factor weights_scaling_factor weight_format nested_absmax nested_quant_map "
    "dequant_scale quant_scale quant_bias deq_scale prequant_scaling_factor input_zp output_scale "
    "output_zero_point input_zero_point smooth_scale qscale".split()
)
_QUANT_STATE = re.compile(r"\.quant_state(?:\.|$)")


class Part(NamedTuple):
    """One tensor of a weight that is stored in parts: the weight's own name, and which part."""

    weight: str
    slot: str


class Fact(NamedTuple):
    """What is known of a tensor: its shape, and whether it holds integers or numbers of a byte."""

    shape: _Shape
    is_integer: bool
    is_narrow: bool


def adapters_of(facts: Mapping[str, Fact]) -> dict[str, Part]:
    """The factors of adapters among the tensors of one checkpoint.

    By what they are called, and, whatever they are called, by their shapes: two matrices of r rows
    and of r columns inside of a layer whose own weight has the shape of their product.
    """
    found: dict[str, Part] = {}
    stems: set[str] = set()
    for name in facts:
        if match := _FACTOR.search(name):
            stem = name[: match.start()]
            stems.add(stem)
            found[name] = Part(f"{stem}.weight".lstrip("."), name[match.start() :].strip("._/"))
    for stem, names in _by_stem(facts).items():
        pair = _factors(stem, names, facts)
        if pair:
            stems.add(stem)
            found |= {name: Part(f"{stem}.weight", name[len(stem) + 1 :]) for name in pair}
    for stem in stems:
        for word in _OF_FACTORS:
            name = f"{stem}.{word}"
            if name in facts and len(facts[name].shape) < 2:
                found.setdefault(name, Part(f"{stem}.weight", word))
    return found


def _by_stem(facts: Mapping[str, Fact]) -> dict[str, list[str]]:
    """Matrices directly in a layer, or in one that holds nothing else, by the layer's place."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, fact in facts.items():
        if len(fact.shape) == 2:
            stem = name.removesuffix(".weight").rpartition(".")[0]
            if stem:
                found[stem].append(name)
    return found


def _factors(stem: str, names: Sequence[str], facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """The two matrices whose product has the shape of the weight beside them."""
    bases = [f"{stem}.{base}weight" for base in _BASES]
    base = next((name for name in bases if name in facts), "")
    if not base or len(facts[base].shape) != 2:
        return ()
    rows, columns = facts[base].shape
    others = [name for name in names if name not in bases]
    pairs = [
        (first, second)
        for first in others
        for second in others
        if first != second
        and facts[second].shape == (rows, facts[first].shape[0])
        and facts[first].shape[1] == columns
        and facts[first].shape[0] < min(rows, columns)
    ]
    return pairs[0] if len(pairs) == 1 else ()


def quantized_of(facts: Mapping[str, Fact]) -> tuple[dict[str, Part], dict[str, list[str]]]:
    """The tensors of quantized weights, and those that only their values can make parts of one.

    A weight of integers or of numbers of one byte is quantized where a scale, a zero point or
    another fact of that kind lies beside it, and that is then a part of it.

    Returns
    -------
    dict of str to Part
        By name.
    dict of str to list of str
        Weights that nothing beside them is called like a scale of, to names of what has the shape
        of one: it is one where all its values are positive.
    """
    found: dict[str, Part] = {}
    open_: dict[str, list[str]] = {}
    inside: dict[str, list[str]] = defaultdict(list)
    for name in facts:
        stem = name
        while stem:
            stem = stem.rpartition(".")[0]
            inside[stem].append(name)
    for name, fact in facts.items():
        front, _, leaf = name.rpartition(".")
        is_packed = fact.is_narrow or (leaf in _PACKED[1:] and fact.is_integer)
        if leaf not in _PACKED or not is_packed or not front:
            continue
        beside = [one for one in inside[front] if one != name]
        parts = [one for one in beside if _is_fact(one, front)]
        weight = f"{front}.weight"
        if parts:
            found |= {one: Part(weight, one[len(front) + 1 :]) for one in (name, *parts)}
        elif scales := [one for one in beside if _may_scale(facts[one], fact, one, front)]:
            open_[name] = scales
    return found, open_


def _is_fact(name: str, front: str) -> bool:
    inner = name[len(front) + 1 :]
    words = inner.lower().split(".")
    return words[-1] in _FACTS or bool(_QUANT_STATE.search(f".{inner}"))


def _may_scale(fact: Fact, weight: Fact, name: str, front: str) -> bool:
    """Whether a tensor has one value for all of a weight, for each row, or for groups of a row."""
    inner = name[len(front) + 1 :]
    if fact.is_integer or inner in ("bias", "beta") or "." in inner:
        return False
    rows = weight.shape[:1]
    return fact.shape in ((), (1,), rows, (*rows, 1))
