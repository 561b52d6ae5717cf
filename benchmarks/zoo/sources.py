"""Checkpoints that several pairs begin with, as Hugging Face's transformers name them."""

from __future__ import annotations

from zoo.drawn import Arrays, Random, drawn_all, linear, norm

LAYERS, WORDS, WIDTH, INNER = 3, 96, 48, 80
HEADS, GROUPS, HEAD = 6, 2, 8


def llama(random: Random, *, groups: int = GROUPS) -> Arrays:
    """A Llama whose queries share the heads of keys and values in so many groups."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, WIDTH)}
    for k in range(LAYERS):
        front = f"model.layers.{k}"
        for one, rows in zip("qkv", (HEADS, groups, groups), strict=True):
            shapes[f"{front}.self_attn.{one}_proj.weight"] = (rows * HEAD, WIDTH)
        shapes[f"{front}.self_attn.o_proj.weight"] = (WIDTH, HEADS * HEAD)
        shapes[f"{front}.mlp.gate_proj.weight"] = (INNER, WIDTH)
        shapes[f"{front}.mlp.up_proj.weight"] = (INNER, WIDTH)
        shapes[f"{front}.mlp.down_proj.weight"] = (WIDTH, INNER)
        shapes[f"{front}.input_layernorm.weight"] = (WIDTH,)
        shapes[f"{front}.post_attention_layernorm.weight"] = (WIDTH,)
    shapes |= {"model.norm.weight": (WIDTH,), "lm_head.weight": (WORDS, WIDTH)}
    return drawn_all(random, shapes)


def mixtral(random: Random, *, experts: int = 4) -> Arrays:
    """A Mixtral: the projections of each expert by themselves."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, WIDTH)}
    for k in range(LAYERS):
        front = f"model.layers.{k}"
        for one, rows in zip("qkv", (HEADS, GROUPS, GROUPS), strict=True):
            shapes[f"{front}.self_attn.{one}_proj.weight"] = (rows * HEAD, WIDTH)
        shapes[f"{front}.self_attn.o_proj.weight"] = (WIDTH, HEADS * HEAD)
        shapes[f"{front}.block_sparse_moe.gate.weight"] = (experts, WIDTH)
        for e in range(experts):
            for one in ("w1", "w2", "w3"):
                shape = (WIDTH, INNER) if one == "w2" else (INNER, WIDTH)
                shapes[f"{front}.block_sparse_moe.experts.{e}.{one}.weight"] = shape
        shapes[f"{front}.input_layernorm.weight"] = (WIDTH,)
        shapes[f"{front}.post_attention_layernorm.weight"] = (WIDTH,)
    shapes |= {"model.norm.weight": (WIDTH,), "lm_head.weight": (WORDS, WIDTH)}
    return drawn_all(random, shapes)


def gpt2(random: Random) -> Arrays:
    """A GPT-2, whose products are Conv1D: weights ``[into, out]``, q, k and v in one."""
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (WORDS, WIDTH),
        "transformer.wpe.weight": (32, WIDTH),
    }
    for k in range(LAYERS):
        front = f"transformer.h.{k}"
        shapes |= norm(f"{front}.ln_1", WIDTH)
        for path, into, out in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            if path == "mlp.c_fc":
                shapes |= norm(f"{front}.ln_2", WIDTH)
            shapes |= {f"{front}.{path}.weight": (into, out), f"{front}.{path}.bias": (out,)}
    return drawn_all(random, shapes | norm("transformer.ln_f", WIDTH))


def bert(random: Random, *, scale: str = "weight", offset: str = "bias") -> Arrays:
    """A BERT with its pooler; files of old name the norms' tensors gamma and beta."""
    shapes: dict[str, tuple[int, ...]] = {
        "bert.embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "bert.embeddings.position_embeddings.weight": (40, WIDTH),
        "bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
        **norm("bert.embeddings.LayerNorm", WIDTH),
    }
    for k in range(LAYERS):
        front = f"bert.encoder.layer.{k}"
        for one in ("query", "key", "value"):
            shapes |= linear(f"{front}.attention.self.{one}", WIDTH, WIDTH)
        shapes |= linear(f"{front}.attention.output.dense", WIDTH, WIDTH)
        shapes |= norm(f"{front}.attention.output.LayerNorm", WIDTH)
        shapes |= linear(f"{front}.intermediate.dense", 4 * WIDTH, WIDTH)
        shapes |= linear(f"{front}.output.dense", WIDTH, 4 * WIDTH)
        shapes |= norm(f"{front}.output.LayerNorm", WIDTH)
    shapes |= linear("bert.pooler.dense", WIDTH, WIDTH)
    ends = {"LayerNorm.weight": f"LayerNorm.{scale}", "LayerNorm.bias": f"LayerNorm.{offset}"}
    return {
        f"{name.rpartition('LayerNorm')[0]}{ends[name[name.index('LayerNorm') :]]}"
        if "LayerNorm" in name
        else name: value
        for name, value in drawn_all(random, shapes).items()
    }
