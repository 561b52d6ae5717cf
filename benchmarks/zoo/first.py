"""The half of the zoo that the rules of drafting were written beside."""

from __future__ import annotations

import numpy as np

from zoo import sources
from zoo.drawn import Arrays, Family, Random, drawn_all, linear, renamed
from zoo.sources import GROUPS, HEADS


def llama_fused(random: Random) -> Family:
    """Hugging Face's Llama to one whose q, k, v and whose gate and up lie in one tensor each."""
    ours = sources.llama(random)
    theirs: Arrays = {}
    for name, value in ours.items():
        front, _, end = name.rpartition(".self_attn.")
        place, _, part = name.rpartition(".mlp.")
        if end == "q_proj.weight":
            parts = [ours[f"{front}.self_attn.{one}_proj.weight"] for one in "qkv"]
            theirs[f"{front}.self_attn.qkv_proj.weight"] = np.concatenate(parts)
        elif part == "gate_proj.weight":
            parts = [value, ours[f"{place}.mlp.up_proj.weight"]]
            theirs[f"{place}.mlp.gate_up_proj.weight"] = np.concatenate(parts)
        elif end not in ("k_proj.weight", "v_proj.weight") and part != "up_proj.weight":
            theirs[name] = value
    return Family(ours, theirs)


def gpt2_linear(random: Random) -> Family:
    """GPT-2 to linear layers, q, k and v by themselves, named as OPT is."""
    ours = sources.gpt2(random)
    words = {
        "transformer.wte": "model.decoder.embed_tokens",
        "transformer.wpe": "model.decoder.embed_positions",
        "transformer.ln_f": "model.decoder.final_layer_norm",
        "transformer.h": "model.decoder.layers",
        "attn.c_proj": "self_attn.out_proj",
        "mlp.c_fc": "fc1",
        "mlp.c_proj": "fc2",
        "ln_1": "self_attn_layer_norm",
        "ln_2": "final_layer_norm",
    }
    theirs: Arrays = {}
    for name, value in ours.items():
        turned = value.T if ".c_" in name else value
        if "c_attn" in name:
            for one, part in zip("qkv", np.split(turned, 3), strict=True):
                to = renamed(name, {**words, "attn.c_attn": f"self_attn.{one}_proj"})
                theirs[to] = np.ascontiguousarray(part)
        else:
            theirs[renamed(name, words)] = np.ascontiguousarray(turned)
    return Family(ours, theirs)


BERT_OF_MINDSPORE = {
    "bert.embeddings.word_embeddings.weight": "bert.bert.bert_embedding_lookup.embedding_table",
    "bert.embeddings.position_embeddings.weight": (
        "bert.bert.bert_embedding_postprocessor.full_position_embedding.embedding_table"
    ),
    "bert.embeddings.token_type_embeddings.weight": (
        "bert.bert.bert_embedding_postprocessor.token_type_embedding.embedding_table"
    ),
    "bert.embeddings.LayerNorm": "bert.bert.bert_embedding_postprocessor.layernorm",
    "bert.encoder.layer.": "bert.bert.bert_encoder.layers.",
    "attention.self.query": "attention.attention.query_layer",
    "attention.self.key": "attention.attention.key_layer",
    "attention.self.value": "attention.attention.value_layer",
    "intermediate.dense": "intermediate",
    "bert.pooler.dense": "bert.bert.dense",
    "LayerNorm": "layernorm",
    "layernorm.weight": "layernorm.gamma",
    "layernorm.bias": "layernorm.beta",
}


def bert_mindspore(random: Random) -> Family:
    """Hugging Face's BERT to that of MindSpore's models."""
    ours = sources.bert(random)
    return Family(ours, {renamed(name, BERT_OF_MINDSPORE): ours[name] for name in ours})


def bert_of_old(random: Random) -> Family:
    """The same from a file of old, with gamma and beta in torch."""
    ours = sources.bert(random, scale="gamma", offset="beta")
    return Family(ours, {renamed(name, BERT_OF_MINDSPORE): ours[name] for name in ours})


def resnet_mindspore(random: Random) -> Family:
    """Torchvision's ResNet of bottlenecks to that of MindSpore's models."""
    ours: Arrays = {}

    def convolution(path: str, norm: str, out: int, into: int, side: int) -> None:
        ours.update(drawn_all(random, {f"{path}.weight": (out, into, side, side)}))
        for end in ("weight", "bias", "running_mean", "running_var"):
            ours.update(drawn_all(random, {f"{norm}.{end}": (out,)}))
        ours[f"{norm}.num_batches_tracked"] = np.asarray(7, np.int64)

    convolution("conv1", "bn1", 16, 3, 7)
    into = 16
    for stage, width in enumerate((16, 24, 32, 40), 1):
        for block in range(2):
            front = f"layer{stage}.{block}"
            convolution(f"{front}.conv1", f"{front}.bn1", width, into, 1)
            convolution(f"{front}.conv2", f"{front}.bn2", width, width, 3)
            convolution(f"{front}.conv3", f"{front}.bn3", 2 * width, width, 1)
            if not block:
                path = f"{front}.downsample"
                convolution(f"{path}.0", f"{path}.1", 2 * width, into, 1)
            into = 2 * width
    ours |= drawn_all(random, linear("fc", 20, into))
    ends = {
        "weight": "gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
    }
    theirs: Arrays = {}
    for name, value in ours.items():
        path, _, leaf = name.rpartition(".")
        if leaf == "num_batches_tracked":
            continue
        is_norm = f"{path}.running_mean" in ours
        path = "end_point" if path == "fc" else path.replace("downsample", "down_sample_layer")
        theirs[f"{path}.{ends[leaf] if is_norm else leaf}"] = value
    return Family(ours, theirs)


def mixtral_stacked(random: Random) -> Family:
    """Mixtral's experts to two tensors: ``[E, 2 I, H]`` of w1 and w3, and ``[E, H, I]`` of w2."""
    ours = sources.mixtral(random)
    theirs: Arrays = {}
    for name, value in ours.items():
        front, found, end = name.partition(".block_sparse_moe.experts.")
        if not found:
            theirs[name.replace("block_sparse_moe.gate", "mlp.gate")] = value
        elif end == "0.w1.weight":
            paths = [f"{front}{found}{e}" for e in range(4)]
            both = [np.concatenate([ours[f"{p}.w1.weight"], ours[f"{p}.w3.weight"]]) for p in paths]
            theirs[f"{front}.mlp.experts.gate_up_proj"] = np.stack(both)
            down = [ours[f"{path}.w2.weight"] for path in paths]
            theirs[f"{front}.mlp.experts.down_proj"] = np.stack(down)
    return Family(ours, theirs)


def _megatron(random: Random, groups: int, *, by_rank: bool) -> Family:
    """Two ranks of Megatron one behind the other to Hugging Face's Llama.

    Within a rank q, k and v lie by themselves if `by_rank`, else those of each group of heads.
    """
    theirs = sources.llama(random, groups=groups)
    blocks = 2 if by_rank else groups
    ours: Arrays = {}
    places = {
        "model.embed_tokens": "embedding.word_embeddings",
        "model.norm": "decoder.final_layernorm",
        "lm_head": "output_layer",
        "model.layers": "decoder.layers",
        "self_attn.o_proj": "self_attention.linear_proj",
        "mlp.down_proj": "mlp.linear_fc2",
        "input_layernorm.weight": "self_attention.linear_qkv.layer_norm_weight",
        "post_attention_layernorm.weight": "mlp.linear_fc1.layer_norm_weight",
    }
    for name, value in theirs.items():
        front, _, end = name.rpartition(".")[0].rpartition(".")
        to = renamed(name, places)
        if end == "q_proj":
            parts = [np.split(theirs[f"{front}.{one}_proj.weight"], blocks) for one in "qkv"]
            packed = np.concatenate([part for each in zip(*parts, strict=True) for part in each])
            ours[to.replace("self_attn.q_proj", "self_attention.linear_qkv")] = packed
        elif end == "gate_proj":
            pair = [np.split(theirs[f"{front}.{one}_proj.weight"], 2) for one in ("gate", "up")]
            packed = np.concatenate([part for each in zip(*pair, strict=True) for part in each])
            ours[to.replace("gate_proj", "linear_fc1")] = packed
        elif end not in ("k_proj", "v_proj", "up_proj"):
            ours[to] = value
    return Family(ours, theirs)


def megatron_ranks(random: Random) -> Family:
    """As many heads of keys as of queries, packed per rank."""
    return _megatron(random, HEADS, by_rank=True)


def megatron_grouped(random: Random) -> Family:
    """Grouped heads, packed per rank."""
    return _megatron(random, GROUPS, by_rank=True)


def megatron_groups(random: Random) -> Family:
    """Grouped heads, packed per group."""
    return _megatron(random, 3, by_rank=False)


FAMILIES = {
    "Llama, fused": llama_fused,
    "GPT-2, linear": gpt2_linear,
    "BERT, MindSpore": bert_mindspore,
    "BERT of old, MindSpore": bert_of_old,
    "ResNet, MindSpore": resnet_mindspore,
    "Mixtral, stacked": mixtral_stacked,
    "Megatron, 2 ranks": megatron_ranks,
    "Megatron, 2 ranks, grouped": megatron_grouped,
    "Megatron, by group": megatron_groups,
}
