"""The place in a stack of transformer layers that the words of a name give a tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from troubleshooter_nb.naming.roles import (
    is_attention,
    is_embedding,
    is_head,
    is_norm,
    is_position,
    pattern,
)

Leaf = Literal["weight", "bias"]
# What is packed in one tensor, in its order.
PACKED: Mapping[str, tuple[str, ...]] = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}
_LEAVES: Mapping[str, Leaf] = {
    **dict.fromkeys(
        ("weight", "gamma", "scale", "kernel", "embedding_table", "embedding"), "weight"
    ),
    **dict.fromkeys(("bias", "beta"), "bias"),
}
_NUMBER = re.compile(r"(?:^|[./]|layers?_|blocks?_)([0-9]+)(?=[./]|$)", re.IGNORECASE)
_STACK = pattern(r"encoder|decoder")
_CROSS = pattern(r"cross|enc(oder)?_?dec|encoder_attn")
# The first that is found has the word. Those of one layer's attention, of its norms, of the rest.
_ATTENTION = (
    ("qkv", pattern(r"qkv|in_proj|c_attn|query_key_value|w_pack")),
    ("q", pattern(r"{(w?q|query)}")),
    ("k", pattern(r"{(w?k|key)}")),
    ("v", pattern(r"{(w?v|value)}")),
    ("o", pattern(r"{(w?o|out|output|proj|projection)}")),
)
_NORMS = (
    ("q_norm", pattern(r"{(q|query)_?(layer_?)?norm")),
    ("k_norm", pattern(r"{(k|key)_?(layer_?)?norm")),
    ("norm_1", pattern(r"att(entio)?n[._/]output")),
    ("norm_2", pattern(r"(ln|norm)_?2|post_?att|ffn|mlp|feed_?forward|after|fc1|final|output")),
    ("norm_1", pattern(r"(ln|norm)_?1|input|att(entio)?n|before|qkv")),
)
_FEED_FORWARD = (
    ("gate_up", pattern(r"gate_?up|w13|gate_and_up")),
    ("gate", pattern(r"{(gate|w1|wi_0)}")),
    ("up", pattern(r"{(up|w3|wi_1)}")),
    ("down", pattern(r"{(down|w2|wo|projection|c_proj)}|(fc|lin|linear|dense)_?2|4h_to_h")),
    ("inner", pattern(r"(fc|lin|linear|dense)_?1|c_fc|h_to_4h|intermediate|{(wi|mapping)}")),
    ("down", pattern(r"{output}")),
)
_OUTSIDE = (
    ("type", pattern(r"token_?type|segment")),
    ("pooler", pattern(r"pooler")),
)


class Place(NamedTuple):
    """Where in a stack of layers a tensor lies.

    Attributes
    ----------
    stack : str
        ``encoder`` or ``decoder`` where the name says so.
    numbers : tuple of int
        Of the layer, and of what it lies in there; empty outside of the layers.
    role : str
        A key of `PACKED` or one of its parts, ``o``, ``inner``, ``down``, ``norm_1``, ``head``...;
        of an attention over another sequence behind ``cross_``.
    leaf : {"weight", "bias"}
    """

    stack: str
    numbers: tuple[int, ...]
    role: str
    leaf: Leaf


def place_in_blocks(name: str) -> Place | None:
    """The place that a tensor's name says; None where its words say none.

    A place is evidence, never proof: words of one meaning are many, and some have two.
    """
    path, leaf = _leaf_of(name)
    numbers = tuple(int(found) for found in _NUMBER.findall(path))
    role = _role_in_layer(path) if numbers else _role_outside(path)
    # Statistics of a norm, or its counter, are no weight of it.
    if not role or (path == name and (is_norm(path) or not numbers)):
        return None
    stack = _STACK.search(path)
    return Place(stack.group().lower() if stack else "", numbers, role, leaf)


def _leaf_of(name: str) -> tuple[str, Leaf]:
    """The layer and which of its tensors; the whole name for a weight without a word of its own."""
    path, _, end = name.rpartition(".")
    if end in _LEAVES:
        return path, _LEAVES[end]
    word = end.rpartition("_")[2]  # Megatron's linear_qkv.layer_norm_weight
    if word in _LEAVES:
        return f"{path}.{end[: -len(word) - 1]}", _LEAVES[word]
    return name, "weight"


def _in_attention(words: str) -> str:
    """The part of what an attention packs, if these words say one."""
    return _first(_ATTENTION[:4], words)


def _role_in_layer(path: str) -> str:
    words = _NUMBER.split(path)[-1]  # what is said of the layer, not of the network
    cross = "cross_" if _CROSS.search(words) else ""
    if is_norm(words):
        role = _first(_NORMS, words)
    elif is_attention(words):
        role = _first(_ATTENTION, words)
    else:
        role = _in_attention(words) or _first(_FEED_FORWARD, words)
    return cross + role if role else ""


def _role_outside(path: str) -> str:
    if is_norm(path):
        return "norm_of_embeddings" if is_embedding(path) else "last_norm"
    if named := _first(_OUTSIDE, path):
        return named
    if is_position(path):
        return "position"
    if is_embedding(path):
        return "embedding"
    # Of an attention without numbers only what it packs: another layer may have an output as well.
    return "head" if is_head(path) else _in_attention(path)


def _first(roles: tuple[tuple[str, re.Pattern[str]], ...], path: str) -> str:
    return next((role for role, words in roles if words.search(path)), "")
