"""pair_dumps on networks whose true partners are known: names of two frameworks, orders, extras."""

from __future__ import annotations

import random

import numpy as np
import pytest

from troubleshooter_nb import Dump, pair_dumps
from troubleshooter_nb.dump import Entry
from troubleshooter_nb.naming import site_of_npy_stem


class Hollow:
    """An array source with a shape and no values: big networks cost nothing."""

    def __init__(self, shape):
        self.shape, self.dtype = tuple(shape), np.dtype(np.float32)
        self.size_bytes = 4 * int(np.prod(shape))

    def read(self, start, stop, into=None):
        return np.zeros(stop - start, np.float32)


HF = {
    "word": "transformer.wte.weight",
    "position": "transformer.wpe.weight",
    "block": "transformer.h.{}.",
    "ln1": "ln_1",
    "qkv": "attn.c_attn",
    "proj": "attn.c_proj",
    "ln2": "ln_2",
    "fc": "mlp.c_fc",
    "out": "mlp.c_proj",
    "norm": "transformer.ln_f",
    "head": "lm_head.weight",
}
SHORT = {
    "word": "tok.weight",
    "position": "pos.weight",
    "block": "blocks.{}.",
    "ln1": "ln1",
    "qkv": "attn.qkv",
    "proj": "attn.proj",
    "ln2": "ln2",
    "fc": "fc",
    "out": "out",
    "norm": "norm",
    "head": "head.weight",
}
MS = {
    "word": "backbone.word_embedding.embedding_table",
    "position": "backbone.position_embedding.embedding_table",
    "block": "backbone.blocks.{}.",
    "ln1": "layernorm1",
    "qkv": "attention.dense_qkv",
    "proj": "attention.projection",
    "ln2": "layernorm2",
    "fc": "output.mapping",
    "out": "output.projection",
    "norm": "backbone.layernorm",
    "head": "head.weight",
}
MEGATRON = {
    "word": "gpt.embedding.word.embedding_table",
    "position": "gpt.embedding.pos.embedding_table",
    "block": "gpt.layers.{}.",
    "ln1": "input_layernorm",
    "qkv": "self_attention.query_key_value",
    "proj": "self_attention.dense",
    "ln2": "post_attention_layernorm",
    "fc": "mlp.dense_h_to_4h",
    "out": "mlp.dense_4h_to_h",
    "norm": "gpt.final_layernorm",
    "head": "output_layer.weight",
}
MINDSPORE_STYLES = (MS, MEGATRON)


def gpt(style, depth=12, width=64):
    """(identity, name, shape) of every parameter, in the order of the modules."""
    leaves = ("gamma", "beta") if style in MINDSPORE_STYLES else ("weight", "bias")
    found = [
        (("word",), style["word"], (1000, width)),
        (("position",), style["position"], (96, width)),
    ]
    shapes = {
        "qkv": (3 * width, width),
        "proj": (width, width),
        "fc": (4 * width, width),
        "out": (width, 4 * width),
    }
    for k in range(depth):
        for part in ("ln1", "qkv", "proj", "ln2", "fc", "out"):
            name = style["block"].format(k) + style[part]
            if part in shapes:
                found.append(((k, part, 0), f"{name}.weight", shapes[part]))
                found.append(((k, part, 1), f"{name}.bias", shapes[part][:1]))
            else:
                found.append(((k, part, 0), f"{name}.{leaves[0]}", (width,)))
                found.append(((k, part, 1), f"{name}.{leaves[1]}", (width,)))
    found += [(("norm", i), f"{style['norm']}.{leaf}", (width,)) for i, leaf in enumerate(leaves)]
    return [*found, (("head",), style["head"], (1000, width))]


TORCH_BLOCK = {
    "ln1": "input_layernorm",
    **{c: f"self_attn.{c}_proj" for c in "qkvo"},
    "ln2": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
# In another order than torch's, and other words for nearly everything.
MINDSPORE_BLOCK = {
    **{c: f"attention.w{c}" for c in "qkvo"},
    "gate": "feed_forward.w1",
    "down": "feed_forward.w2",
    "up": "feed_forward.w3",
    "ln1": "attention_norm",
    "ln2": "ffn_norm",
}


def llama(block, depth=8, width=64):
    """Separate query, key and value: four matrices of one shape in every block."""
    shapes = dict.fromkeys("qkvo", (width, width)) | dict.fromkeys(("ln1", "ln2"), (width,))
    shapes |= {"gate": (3 * width, width), "up": (3 * width, width), "down": (width, 3 * width)}
    found = [(("word",), "model.tok_embeddings.weight", (500, width))]
    for k in range(depth):
        for part, name in block.items():
            found.append(((k, part), f"model.layers.{k}.{name}.weight", shapes[part]))
    found.append((("norm",), "model.norm.weight", (width,)))
    return [*found, (("head",), "lm_head.weight", (500, width))]


TORCHVISION = {
    "bn": "bn{}",
    "conv": "conv{}",
    "down": "downsample",
    "stage": "layer{}",
    "fc": "fc",
    "leaves": ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"],
}
MODEL_ZOO = TORCHVISION | {
    "down": "down_sample_layer",
    "fc": "end_point",
    "leaves": ["moving_mean", "moving_variance", "gamma", "beta"],
}
RENAMED = {
    "bn": "batch_norm{}",
    "conv": "conv2d{}",
    "down": "shortcut",
    "stage": "stage{}",
    "fc": "classifier",
    "leaves": ["gamma", "beta", "moving_mean", "moving_variance"],
}
MEANING = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean"}
MEANING |= {"moving_variance": "running_var"}


def resnet(style, blocks=(2, 2, 2, 2)):
    found = []

    def conv(identity, name, shape):
        found.append((identity, f"{name}.weight", shape))

    def norm(identity, name, width):
        for leaf in style["leaves"]:
            shape = () if leaf == "num_batches_tracked" else (width,)
            found.append(((*identity, MEANING.get(leaf, leaf)), f"{name}.{leaf}", shape))

    conv(("conv1",), style["conv"].format(1), (16, 3, 7, 7))
    norm(("bn1",), style["bn"].format(1), 16)
    channels = 16
    for s, count in enumerate(blocks, 1):
        width = 16 * 2 ** (s - 1)
        for b in range(count):
            before = f"{style['stage'].format(s)}.{b}."
            for k, shape in ((1, (width, channels, 3, 3)), (2, (width, width, 3, 3))):
                conv((s, b, f"conv{k}"), before + style["conv"].format(k), shape)
                norm((s, b, f"bn{k}"), before + style["bn"].format(k), width)
            if channels != width:
                conv((s, b, "down"), f"{before}{style['down']}.0", (width, channels, 1, 1))
                norm((s, b, "downbn"), f"{before}{style['down']}.1", width)
            channels = width
    found.append((("fc", 0), f"{style['fc']}.weight", (100, channels)))
    return [*found, (("fc", 1), f"{style['fc']}.bias", (100,))]


def norms_last(net):
    """The same GPT with the norms of every block saved behind its other parameters."""

    def place(item):
        where, part = item[0][0], item[0][-2:][0]
        if isinstance(where, int):
            return 1, where, str(part).startswith("ln")
        return 0 if where in ("word", "position") else 2, 0, False

    return sorted(net, key=place)


def with_adapter(net, block, width=64):
    """One more layer, of shapes the network is full of, in the middle of it."""
    where = next(k for k, item in enumerate(net) if item[0] == (block, "ln2", 0))
    before = net[where][1].rsplit(".", 2)[0]
    adapter = [
        ("dense.weight", (width, width)),
        *[(name, (width,)) for name in ("dense.bias", "norm.gamma", "norm.beta")],
    ]
    added = [(("adapter", name), f"{before}.adapter.{name}", shape) for name, shape in adapter]
    return [*net[:where], *added, *net[where:]]


def saved(net):
    """A dump of gradients saved in this order, as npy_dir would open it."""
    return Dump.from_entries(
        [
            Entry(
                f"{stem}_float32_{k}",
                site_of_npy_stem(stem, folder="grads"),
                Hollow(shape),
                order=k,
            )
            for k, (_, stem, shape) in enumerate(net)
        ]
    )


def score(left, right):
    """Share of true partners found, and (left, right, confidence) of the wrong pairs."""
    pairing = pair_dumps(saved(left), saved(right))
    where = {identity: j for j, (identity, _, _) in enumerate(right)}
    true = {i: where[identity] for i, (identity, _, _) in enumerate(left) if identity in where}
    got = {m.left: (m.right, m.confidence) for m in pairing.matches() if min(m.left, m.right) >= 0}
    found = sum(got.get(i, (-1,))[0] == j for i, j in true.items())
    wrong = [(left[i][1], right[j][1], c) for i, (j, c) in got.items() if true.get(i) != j]
    return found / len(true), wrong


def by_alphabet(net):
    return sorted(net, key=lambda item: item[1])


def nameless(net):
    """What MindSpore's grad returns: a tuple, saved as a list."""
    return [(identity, f"ms_grads.{k}", shape) for k, (identity, _, shape) in enumerate(net)]


NETWORKS = {
    "equal names": (gpt(HF), gpt(HF)),
    "hugging face, mindspore": (gpt(HF), gpt(MS)),
    "hugging face, megatron": (gpt(HF), gpt(MEGATRON)),
    "hugging face, short": (gpt(HF), gpt(SHORT)),
    "mindspore, megatron": (gpt(MS), gpt(MEGATRON)),
    "short, mindspore": (gpt(SHORT), gpt(MS)),
    "embeddings last": (gpt(HF), [*gpt(MS)[2:], *gpt(MS)[:2]]),
    "norms last, mindspore": (gpt(HF), norms_last(gpt(MS))),
    "norms last, megatron": (gpt(HF), norms_last(gpt(MEGATRON))),
    "norms last, short": (gpt(SHORT), norms_last(gpt(MS))),
    "one more layer, hugging face": (gpt(HF), with_adapter(gpt(MS), 6)),
    "one more layer, short": (gpt(SHORT), with_adapter(gpt(MS), 6)),
    "one more layer, megatron": (gpt(SHORT), with_adapter(gpt(MEGATRON), 3)),
    "llama": (llama(TORCH_BLOCK), llama(MINDSPORE_BLOCK)),
    "resnet, model zoo": (resnet(TORCHVISION), resnet(MODEL_ZOO)),
    "resnet, renamed": (resnet(TORCHVISION), resnet(RENAMED)),
    "resnet34, renamed": (resnet(TORCHVISION, (3, 4, 6, 3)), resnet(RENAMED, (3, 4, 6, 3))),
    "alphabet": (by_alphabet(gpt(HF)), by_alphabet(gpt(MS))),
    "alphabet, resnet": (by_alphabet(resnet(TORCHVISION)), by_alphabet(resnet(RENAMED))),
    "any order": (gpt(HF), random.Random(0).sample(gpt(SHORT), len(gpt(SHORT)))),
    "without names": (gpt(HF), nameless(gpt(MS))),
    "without names, one missing": (
        gpt(HF),
        [i for k, i in enumerate(nameless(gpt(MS))) if k != 40],
    ),
    "some missing": (gpt(HF), [item for k, item in enumerate(gpt(MS)) if k % 9 != 4]),
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_true_partners_of_a_network_are_found(network, mirrored):
    left, right = NETWORKS[network][::-1] if mirrored else NETWORKS[network]
    found, wrong = score(left, right)
    assert found >= 0.99, wrong[:5]
    assert all(confidence <= 0.9 for _, _, confidence in wrong)


def test_what_names_cannot_tell_is_not_called_certain():
    # A thirteenth block in the middle: by number, those behind it seem to be the same ones.
    def identity(old):
        k, *rest = old
        if not isinstance(k, int) or k < 6:
            return old
        return ("new" if k == 6 else k - 1, *rest)

    deeper = [(identity(old), name, shape) for old, name, shape in gpt(MS, depth=13)]
    _, wrong = score(gpt(SHORT), deeper)
    assert wrong
    assert all(confidence <= 0.9 for _, _, confidence in wrong)
