"""The half of the zoo that was written when the rules of drafting were settled."""

from __future__ import annotations

import numpy as np

from zoo import sources
from zoo.drawn import Arrays, Family, Random, drawn_all, linear, norm, renamed
from zoo.sources import GROUPS, HEAD, HEADS, LAYERS, WIDTH, WORDS

Shapes = dict[str, tuple[int, ...]]


def llama_meta(random: Random) -> Family:
    """Hugging Face's Llama to Meta's, whose rotary embedding turns neighbours and not halves."""
    ours = sources.llama(random)
    words = {
        "model.embed_tokens": "tok_embeddings",
        "model.layers": "layers",
        "model.norm": "norm",
        "lm_head": "output",
        "self_attn.": "attention.w",
        "_proj": "",
        "mlp.gate": "feed_forward.w1",
        "mlp.down": "feed_forward.w2",
        "mlp.up": "feed_forward.w3",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    theirs: Arrays = {}
    for name, value in ours.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = HEADS if "q_proj" in name else GROUPS
            halves = value.reshape(heads, 2, HEAD // 2, WIDTH)
            value = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(value.shape))
        theirs[renamed(name, words)] = value
    return Family(ours, theirs)


def llama_mindformers(random: Random) -> Family:
    """Hugging Face's Llama to that of MindFormers."""
    ours = sources.llama(random)
    words = {
        "model.embed_tokens.weight": "model.tok_embeddings.embedding_weight",
        "model.norm": "model.norm_out",
        "self_attn.": "attention.w",
        "_proj": "",
        "mlp.gate": "feed_forward.w1",
        "mlp.down": "feed_forward.w2",
        "mlp.up": "feed_forward.w3",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    return Family(ours, {renamed(name, words): value for name, value in ours.items()})


def gpt2_mindspore(random: Random) -> Family:
    """GPT-2 to that of MindFormers: q, k and v as dense1 to dense3, projections ``[into, out]``."""
    ours = sources.gpt2(random)
    words = {
        "transformer.wte.weight": "backbone.embedding.word_embedding.embedding_table",
        "transformer.wpe.weight": "backbone.embedding.position_embedding.embedding_table",
        "transformer.h": "backbone.blocks",
        "transformer.ln_f": "backbone.layernorm",
        "ln_1": "layernorm1",
        "ln_2": "layernorm2",
        "attn.c_proj": "attention.projection",
        "mlp.c_fc": "output.mapping",
        "mlp.c_proj": "output.projection",
    }
    theirs: Arrays = {}
    for name, value in ours.items():
        if "c_attn" in name:
            for number, part in enumerate(np.split(value.T, 3), 1):
                to = renamed(name, {**words, "attn.c_attn": f"attention.dense{number}"})
                theirs[to] = np.ascontiguousarray(part)
            continue
        to = renamed(name, words)
        if "layernorm" in to:
            to = renamed(to, {".weight": ".gamma", ".bias": ".beta"})
        theirs[to] = value
    return Family(ours, theirs)


def vit(random: Random) -> Family:
    """Timm's ViT, q, k and v in one, to that of Hugging Face."""
    shapes: Shapes = {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, 17, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, 4, 4),
        "patch_embed.proj.bias": (WIDTH,),
    }
    for k in range(LAYERS):
        front = f"blocks.{k}"
        shapes |= norm(f"{front}.norm1", WIDTH) | linear(f"{front}.attn.qkv", 3 * WIDTH, WIDTH)
        shapes |= linear(f"{front}.attn.proj", WIDTH, WIDTH) | norm(f"{front}.norm2", WIDTH)
        shapes |= linear(f"{front}.mlp.fc1", 4 * WIDTH, WIDTH)
        shapes |= linear(f"{front}.mlp.fc2", WIDTH, 4 * WIDTH)
    ours = drawn_all(random, shapes | norm("norm", WIDTH) | linear("head", 20, WIDTH))
    words = {
        "cls_token": "vit.embeddings.cls_token",
        "pos_embed": "vit.embeddings.position_embeddings",
        "patch_embed.proj": "vit.embeddings.patch_embeddings.projection",
        "blocks": "vit.encoder.layer",
        "norm1": "layernorm_before",
        "norm2": "layernorm_after",
        "attn.proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    }
    theirs: Arrays = {}
    for name, value in ours.items():
        if "qkv" in name:
            for one, part in zip(("query", "key", "value"), np.split(value, 3), strict=True):
                theirs[renamed(name, {**words, "attn.qkv": f"attention.attention.{one}"})] = part
        elif name.startswith("norm."):
            theirs[f"vit.layernorm.{name.removeprefix('norm.')}"] = value
        elif name.startswith("head."):
            theirs[f"classifier.{name.removeprefix('head.')}"] = value
        else:
            theirs[renamed(name, words)] = value
    return Family(ours, theirs)


_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}


def _resnet(path: str, into: int, out: int) -> Shapes:
    return {
        **norm(f"{path}.norm1", into),
        **_convolution(f"{path}.conv1", out, into, 3),
        **linear(f"{path}.time_emb_proj", out, 64),
        **norm(f"{path}.norm2", out),
        **_convolution(f"{path}.conv2", out, out, 3),
        **(_convolution(f"{path}.conv_shortcut", out, into, 1) if into != out else {}),
    }


def _convolution(path: str, out: int, into: int, side: int) -> Shapes:
    return {f"{path}.weight": (out, into, side, side), f"{path}.bias": (out,)}


def _attention(path: str, width: int, context: int = 20) -> Shapes:
    block = f"{path}.transformer_blocks.0"
    shapes = norm(f"{path}.norm", width) | linear(f"{path}.proj_in", width, width)
    for number, keys in ((1, width), (2, context)):
        shapes |= norm(f"{block}.norm{number}", width)
        shapes[f"{block}.attn{number}.to_q.weight"] = (width, width)
        shapes[f"{block}.attn{number}.to_k.weight"] = (width, keys)
        shapes[f"{block}.attn{number}.to_v.weight"] = (width, keys)
        shapes |= linear(f"{block}.attn{number}.to_out.0", width, width)
    shapes |= norm(f"{block}.norm3", width) | linear(f"{block}.ff.net.0.proj", 8 * width, width)
    shapes |= linear(f"{block}.ff.net.2", width, 4 * width)
    return shapes | linear(f"{path}.proj_out", width, width)


def unet(random: Random) -> Family:
    """A diffusion UNet of diffusers to the original: 1 x 1 convolutions where it has products."""
    first, second = 16, 24
    down, middle, up = "down_blocks", "mid_block", "up_blocks"
    shapes = _convolution("conv_in", first, 4, 3)
    shapes |= linear("time_embedding.linear_1", 64, first)
    shapes |= linear("time_embedding.linear_2", 64, 64)
    for level, (into, width) in enumerate(((first, first), (first, second))):
        shapes |= _attention(f"{down}.{level}.attentions.0", width)
        shapes |= _resnet(f"{down}.{level}.resnets.0", into, width)
    shapes |= _convolution(f"{down}.0.downsamplers.0.conv", first, first, 3)
    for level, width, widths in ((0, second, (48, 40)), (1, first, (40, 32))):
        for number, into in enumerate(widths):
            shapes |= _attention(f"{up}.{level}.attentions.{number}", width)
            shapes |= _resnet(f"{up}.{level}.resnets.{number}", into, width)
    shapes |= _convolution(f"{up}.0.upsamplers.0.conv", second, second, 3)
    shapes |= _attention(f"{middle}.attentions.0", second)
    shapes |= _resnet(f"{middle}.resnets.0", second, second)
    shapes |= _resnet(f"{middle}.resnets.1", second, second)
    shapes |= norm("conv_norm_out", first) | _convolution("conv_out", 4, first, 3)
    ours = drawn_all(random, shapes)
    places = {
        "time_embedding.linear_1": "time_embed.0",
        "time_embedding.linear_2": "time_embed.2",
        "conv_in": "input_blocks.0.0",
        "down_blocks.0.resnets.0": "input_blocks.1.0",
        "down_blocks.0.attentions.0": "input_blocks.1.1",
        "down_blocks.0.downsamplers.0.conv": "input_blocks.2.0.op",
        "down_blocks.1.resnets.0": "input_blocks.3.0",
        "down_blocks.1.attentions.0": "input_blocks.3.1",
        "mid_block.resnets.0": "middle_block.0",
        "mid_block.attentions.0": "middle_block.1",
        "mid_block.resnets.1": "middle_block.2",
        "up_blocks.0.resnets.0": "output_blocks.0.0",
        "up_blocks.0.attentions.0": "output_blocks.0.1",
        "up_blocks.0.resnets.1": "output_blocks.1.0",
        "up_blocks.0.attentions.1": "output_blocks.1.1",
        "up_blocks.0.upsamplers.0.conv": "output_blocks.1.2.conv",
        "up_blocks.1.resnets.0": "output_blocks.2.0",
        "up_blocks.1.attentions.0": "output_blocks.2.1",
        "up_blocks.1.resnets.1": "output_blocks.3.0",
        "up_blocks.1.attentions.1": "output_blocks.3.1",
        "conv_norm_out": "out.0",
        "conv_out": "out.2",
    }
    theirs: Arrays = {}
    for old, new in places.items():
        for name, value in ours.items():
            if not name.startswith(f"{old}."):
                continue
            end = name.removeprefix(old)
            if "resnets" in old:
                end = renamed(end, _RESNET)
            if end in (".proj_in.weight", ".proj_out.weight"):
                value = value[:, :, None, None]
            theirs[f"{new}{end}"] = value
    return Family(ours, theirs)


def t5(random: Random) -> Family:
    """T5 of version 1.1 to T5X, whose kernels are ``[into, out]``."""
    heads, inner = 6, 80
    shapes: Shapes = {"shared.weight": (WORDS, WIDTH)}
    words: dict[str, str] = {"shared.weight": "token_embedder.embedding"}
    for stack, attentions in (
        ("encoder", (("SelfAttention", "attention"),)),
        (
            "decoder",
            (("SelfAttention", "self_attention"), ("EncDecAttention", "encoder_decoder_attention")),
        ),
    ):
        for k in range(LAYERS):
            front, to = f"{stack}.block.{k}.layer", f"{stack}.layers_{k}"
            for number, (attention, named) in enumerate(attentions):
                path = f"{front}.{number}.{attention}"
                for one, word in zip("qkvo", ("query", "key", "value", "out"), strict=True):
                    shapes[f"{path}.{one}.weight"] = (WIDTH, 64) if one == "o" else (64, WIDTH)
                    words[f"{path}.{one}.weight"] = f"{to}.{named}.{word}.kernel"
                if not k and not number:
                    table = f"{path}.relative_attention_bias.weight"
                    shapes[table] = (32, heads)
                    words[table] = f"{stack}.relpos_bias.rel_embedding"
                of = {"attention": "attention", "self_attention": "self_attention"}
                shapes[f"{front}.{number}.layer_norm.weight"] = (WIDTH,)
                norm_of = of.get(named, "cross_attention")
                words[f"{front}.{number}.layer_norm.weight"] = (
                    f"{to}.pre_{norm_of}_layer_norm.scale"
                )
            number = len(attentions)
            for one in ("wi_0", "wi_1", "wo"):
                path = f"{front}.{number}.DenseReluDense.{one}.weight"
                shapes[path] = (WIDTH, inner) if one == "wo" else (inner, WIDTH)
                words[path] = f"{to}.mlp.{one}.kernel"
            shapes[f"{front}.{number}.layer_norm.weight"] = (WIDTH,)
            words[f"{front}.{number}.layer_norm.weight"] = f"{to}.pre_mlp_layer_norm.scale"
        shapes[f"{stack}.final_layer_norm.weight"] = (WIDTH,)
        words[f"{stack}.final_layer_norm.weight"] = f"{stack}.{stack}_norm.scale"
    shapes["lm_head.weight"] = (WORDS, WIDTH)
    words["lm_head.weight"] = "decoder.logits_dense.kernel"
    ours = drawn_all(random, shapes)
    theirs = {
        words[name]: np.ascontiguousarray(value.T)
        if words[name].endswith(("kernel", "rel_embedding"))
        else value
        for name, value in ours.items()
    }
    return Family(ours, theirs)


FAMILIES = {
    "Llama, Meta": llama_meta,
    "Llama, MindFormers": llama_mindformers,
    "GPT-2, MindSpore": gpt2_mindspore,
    "ViT, timm to HF": vit,
    "UNet, original": unet,
    "T5, T5X": t5,
}
