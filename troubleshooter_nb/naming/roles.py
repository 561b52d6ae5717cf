"""What a name says a tensor or layer does in its network: ``qkv``, ``gate``, ``emb``, ``lm_head``.

Names are those of tensors, of layers, or of entries of a dump that hold either, in any case:
``model.layers.0.mlp.up_proj.weight``, ``Module.encoder.GRU.forward.0.parameters.weight_hh_l0``.
A role is evidence, never proof: whoever asks has looked at the values, or says that it is a guess.
"""

from __future__ import annotations

import re


def pattern(text: str) -> re.Pattern[str]:
    """Words in any case; ``<`` and ``>`` are ends of a run of letters, ``{`` and ``}`` of a part.

    Parts are set apart by dots, underscores or slashes.
    """
    for sign, meant in (
        ("<", "(?<![a-z])"),
        (">", "(?![a-z])"),
        ("{", "(?:^|[._/])"),
        ("}", "(?:[._/]|$)"),
    ):
        text = text.replace(sign, meant)
    return re.compile(text, re.IGNORECASE)


# Not ensemble, assembly, member. Parts of a mixture are "shared" experts, images have "tokens".
_EMBEDDING = pattern(
    r"emb(?!l|er)|{(wte|wpe|vocab|lookup|table)}|(?:^|\.)(shared|tok|tokens?|tok_\w+)(?:\.|$)"
)
_POSITION = pattern(r"<pos(?!t)|position|rotary|<rope|freq|wpe")  # post_attention_layernorm
_HEAD = pattern(r"head|output|decoder|classifier|predictions|logits")
_PRODUCT = pattern(r"\.(linear|matmul|dense)\b")
_PACKED_ATTENTION = pattern(r"qkv|in_proj|c_attn|query_key_value|\bkv|_kv")
_QUERY_OR_KEY = pattern(r"{(q|k|wq|wk|query|key|qkv|rotary)}")
_ATTENTION = pattern(r"att(n|ention)")
_RECURRENT_TENSOR = pattern(r"(weight|bias)_(ih|hh)(?:_l[0-9]+)?(?:_reverse)?(?![a-z0-9])")
_RECURRENT = pattern(r"lstm|gru|rnn")
# Not group, upsample; aggregate.
_GATE = pattern(r"<gate|<up>|<up_?proj|glu")
_FEED_FORWARD = pattern(r"mlp|ffn|feed_?forward|<w(1|3|13)(?![0-9])|fc1|h_to_4h|expert")
_EXPERT = pattern(r"expert|<moe")
_NORM = pattern(r"norm|{(ln|bn|gn)[_0-9]*}")
_OF_SHAPE = frozenset(
    "oneslike zeroslike emptylike fulllike randlike randnlike randintlike newones newzeros newempty"
    " newfull shape size numel dim".split()
)
# Integers that a run is given, and words of those that it computes: topk_ids, next_token_ids.
_GIVEN = pattern(
    r"{(ids?|ind(ex|ices)|tokens?|labels?|targets?|pos(itions?)?|masks?|len(gth)?s?|seqlens)(_?[0-9]+)?$"
)
_COMPUTED = pattern(
    r"{(pred\w*|outputs?|gen(erated)?|top_?k?[0-9]*|sampled?|arg\w+|next|experts?|rout\w+|sorted"
    r"|selected|best|beams?|chosen|kept?|nms|max|min|hyp\w*|decoded)}"
)
_IDS = pattern(r"{ids(_?[0-9]+)?$")
# Not of what is to be predicted, nor of images and losses.
_MASK = pattern(r"<masks?>")
_OTHER_MASK = pattern(r"<(loss|labels?|mlm|masked|special|causal|pixel|image|target|drop\w*)>")
_PADDING_MASK = pattern(r"<pad(ding)?(_?masks?)?>")
_TOKEN_TYPE = pattern(r"<token_?types?|<segments?>")
_LENGTH = pattern(r"{(len(gth)?s?|seq_?len(gth)?s?|\w+_len(gth)?s?)$")
# What an adapter calls its own tensors, and the weight that it adds to.
_OF_ADAPTER = pattern(
    r"[._/](base_layer|(lora|adapter)_?(a|b|down|up|left|right)?)([._/](default|weight|\w+))*$"
)
_LEAF = re.compile(r"[._/]weight$", re.IGNORECASE)
_IN_A_LIST = pattern(r"{[0-9]+}")
# A whole part of a name: layers.7.weight.
_LAYER_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")


def is_embedding(name: str) -> bool:
    """A table of vectors to be looked up: ``embed_tokens``, ``wte``, T5's ``shared``."""
    return bool(_EMBEDDING.search(name))


def reads_shape_alone(word: str) -> bool:
    """An operator that looks at no value of its argument: ``ones_like``, ``shape``."""
    return word.replace("_", "") in _OF_SHAPE


def is_position(name: str) -> bool:
    """What tells positions apart: ``wpe``, ``pos_embed``, ``rotary_emb.inv_freq``."""
    return bool(_POSITION.search(name))


def is_head(name: str) -> bool:
    """What makes the outputs of a network: ``lm_head``, ``cls.predictions.decoder``."""
    return bool(_HEAD.search(name))


def is_vocabulary(name: str) -> bool:
    """What has a row per word: an embedding of words, or a head."""
    return (is_embedding(name) or is_head(name)) and not is_position(name)


def is_product(name: str) -> bool:
    """An operator that multiplies by a matrix, called without a layer: ``Functional.linear.0``."""
    return bool(_PRODUCT.search(name))


def is_packed_attention(name: str) -> bool:
    """Queries, keys and values, or two of them, in one: ``c_attn``, ``in_proj_weight``."""
    return bool(_PACKED_ATTENTION.search(name))


def is_query_or_key(name: str) -> bool:
    """What positions are rotated in, alone or packed: ``q_proj``, ``attention.wk``."""
    return bool(_QUERY_OR_KEY.search(name))


def is_attention(name: str) -> bool:
    """An attention, or what lies in it: ``self_attn``, ``attention.dense``."""
    return bool(_ATTENTION.search(name))


def is_recurrent_tensor(name: str) -> bool:
    """A weight or bias whose rows are those of gates: ``rnn.weight_hh_l0_reverse``."""
    return bool(_RECURRENT_TENSOR.search(name))


def is_recurrent(name: str) -> bool:
    """A recurrent layer or what lies in it: ``encoder.lstm.weight_ih_l0``."""
    return is_recurrent_tensor(name) or bool(_RECURRENT.search(name))


def is_gate(name: str) -> bool:
    """A part of a gated layer, or both, by their own name: ``gate_up_proj``, ``swiglu``."""
    return bool(_GATE.search(name))


def is_gated(name: str) -> bool:
    """A layer that may hold a gate beside the values it opens: `is_gate`, ``mlp.w1``, ``fc1``."""
    return is_gate(name) or bool(_FEED_FORWARD.search(name))


def is_expert(name: str) -> bool:
    """An expert of a mixture, or all of them in one: ``block_sparse_moe.experts.3``."""
    return bool(_EXPERT.search(name))


def is_norm(name: str) -> bool:
    """A normalisation: ``ln_1``, ``post_attention_layernorm``, ``bn2``."""
    return bool(_NORM.search(name))


def is_given(name: str, *, is_exact: bool) -> bool:
    """What a run is given and does not compute: ids of tokens, labels, positions, masks, lengths.

    `is_exact` says whether it holds integers or bool. Of floats only ids are told by their name:
    masks and positions may have been made.
    """
    pattern = _GIVEN if is_exact else _IDS
    return bool(pattern.search(name)) and not _COMPUTED.search(name)


def is_token_type(name: str) -> bool:
    """What says of which text a token is: ``token_type_ids``, ``segment_embeddings``."""
    return bool(_TOKEN_TYPE.search(name))


def is_mask(name: str) -> bool:
    """What says which tokens are seen: ``attention_mask``, ``src_key_padding_mask``."""
    return bool(_MASK.search(name) or _PADDING_MASK.search(name)) and not _OTHER_MASK.search(name)


def is_padding_mask(name: str) -> bool:
    """A mask that is true where tokens are padding, as torch and MindSpore call them."""
    return bool(_PADDING_MASK.search(name))


def is_length(name: str) -> bool:
    """How many tokens each sample has: ``lengths``, ``input_lens``."""
    return bool(_LENGTH.search(name))


def adapter_stem(name: str) -> str:
    """The layer that a weight, or a factor of an adapter, belongs to: ``h.0.q_proj``.

    Of ``h.0.q_proj.weight``, ``h.0.q_proj.base_layer.weight`` and ``h.0.q_proj.lora_A.weight``.
    """
    return _LEAF.sub("", _OF_ADAPTER.sub("", name))


def is_in_a_list(name: str) -> bool:
    """Whether it lies in a numbered layer: ``layers.3.fc``, not ``fc1``."""
    return bool(_IN_A_LIST.search(name))


def without_layer_numbers(name: str) -> str:
    """The name with ``#`` for numbers of layers: ``layers.#.fc1.weight``."""
    return _LAYER_NUMBER.sub("#", name)
