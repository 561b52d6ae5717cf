"""Roles by the names of real networks: torchvision, transformers, MindFormers, timm, torch."""

from __future__ import annotations

from functools import partial

import pytest

from troubleshooter_nb.naming import roles

pytestmark = pytest.mark.once

# What has a role, and for each role what is easily taken for it.
NAMES = {
    roles.is_embedding: (
        """
        transformer.wte.weight transformer.wpe.weight model.embed_tokens.weight
        bert.embeddings.word_embeddings.weight model.tok_embeddings.embedding_weight
        shared.weight encoder.embedding.embedding_table tok.weight lookup.weight
        Module.tok_emb.Embedding.forward.0.parameters.weight backbone.vocab_table
        """,
        """
        ensemble.0.weight assembler.fc.weight member.weight conv1.weight
        model.layers.11.mlp.shared_expert.gate_proj.weight blocks.0.mlp_tokens.fc1.weight
        stages.0.token_mixer.pool lm_head.weight transformer.h.3.attn.c_attn.weight
        """,
    ),
    roles.is_position: (
        """
        transformer.wpe.weight pos_embed encoder.pos_embedding model.rotary_emb.inv_freq
        bert.embeddings.position_embeddings.weight vit.positional_embedding
        model.layers.11.self_attn.rotary_emb.cos_cached model.freqs_cos attn.rope.inv_freq
        """,
        """
        model.layers.11.post_attention_layernorm.weight decompose.weight properties.weight
        bert.encoder.layer.2.output.dense.weight transformer.wte.weight compose.0.bias
        """,
    ),
    roles.is_head: (
        """
        lm_head.weight cls.predictions.decoder.weight classifier.6.weight output.weight
        logits.weight heads.head.weight
        """,
        """
        fc.weight transformer.wte.weight layer1.0.conv1.weight
        """,
    ),
    roles.is_vocabulary: (
        """
        transformer.wte.weight lm_head.weight model.embed_tokens.weight
        """,
        """
        transformer.wpe.weight bert.embeddings.position_embeddings.weight pos_embed
        layer4.2.conv3.weight model.layers.11.post_attention_layernorm.weight
        """,
    ),
    roles.is_product: (
        """
        Functional.linear.0.forward.output.0 Torch.matmul.3.forward.input.1 Mint.dense.1
        """,
        """
        fc.weight linear.weight encoder.linear1.weight bert.encoder.layer.2.output.dense2.weight
        """,
    ),
    roles.is_packed_attention: (
        """
        transformer.h.3.attn.c_attn.weight self_attn.in_proj_weight encoder.layers.0.qkv.weight
        gpt_neox.layers.0.attention.query_key_value.weight transformer.blocks.0.attn.Wqkv
        model.layers.0.attention.w_qkv.weight attn.to_kv.weight self_attn.kv_b_proj.weight
        """,
        """
        model.layers.11.self_attn.q_proj.weight bert.encoder.layer.2.attention.self.query.weight
        transformer.h.3.mlp.c_fc.weight transformer.h.3.attn.c_proj.weight
        """,
    ),
    roles.is_query_or_key: (
        """
        bert.encoder.layer.2.attention.self.query.weight model.layers.0.attention.wq.weight
        model.layers.11.self_attn.q_proj.weight model.layers.11.self_attn.k_proj.bias
        attn.qkv.weight
        """,
        """
        model.layers.11.self_attn.v_proj.weight model.layers.0.attention.wo.weight quant.weight
        bert.encoder.layer.2.attention.self.value.weight conv1.weight
        """,
    ),
    roles.is_attention: (
        """
        transformer.h.3.attn.c_proj.weight model.layers.11.self_attn.o_proj.weight
        model.layers.0.attention.wo
        """,
        """
        model.layers.11.mlp.up_proj.weight layer1.0.conv1.weight flatten.weight
        """,
    ),
    roles.is_recurrent_tensor: (
        """
        rnn.weight_ih_l0 weight_hh_l1_reverse cell.bias_hh lstm.bias_ih_l0
        """,
        """
        rnn.weight weight_ihs weight_other lstm.proj.weight
        """,
    ),
    roles.is_recurrent: (
        """
        encoder.lstm.weight Module.gru.GRU.forward.0.output.0 weight_ih_l0 rnn.cell.w
        """,
        """
        model.layers.11.mlp.up_proj.weight transformer.wte.weight
        """,
    ),
    roles.is_gate: (
        """
        model.layers.11.mlp.gate_proj.weight model.layers.11.mlp.up_proj.weight
        mlp.gate_up_proj.weight ffn.swiglu.w12 mlp.GLU.weight feed_forward.w_gate_hidden.weight
        mlp.up.weight
        """,
        """
        groups.0.weight upsample.conv.weight aggregate.weight backup.weight
        encoder.updater.weight model.layers.11.mlp.down_proj.weight
        transformer.h.3.mlp.c_fc.weight
        """,
    ),
    roles.is_gated: (
        """
        model.layers.0.feed_forward.w1.weight model.layers.0.feed_forward.w3.weight
        transformer.h.3.mlp.c_fc.weight layers.0.linear_fc1.weight dense_h_to_4h.weight
        model.experts.w13_weight model.layers.11.mlp.gate_up_proj.weight blocks.0.ffn.0.weight
        """,
        """
        groups.0.weight conv1.weight w10.weight transformer.h.3.attn.c_attn.weight
        """,
    ),
    roles.is_expert: (
        """
        block_sparse_moe.experts.3.w1.weight mlp.moe.gate mlp.shared_expert.gate_proj.weight
        """,
        """
        model.layers.11.mlp.gate_proj.weight fc.weight
        """,
    ),
    roles.is_norm: (
        """
        transformer.h.3.ln_1.weight model.layers.11.post_attention_layernorm.weight
        layer1.0.bn2.weight bert.encoder.layer.2.attention.output.LayerNorm.gamma
        transformer.ln_f.weight model.norm.weight
        """,
        """
        fc.weight lnet.weight transformer.wte.weight layer1.0.conv1.weight
        """,
    ),
    partial(roles.is_given, is_exact=True): (
        """
        input_ids token_ids decoder_input_ids labels batch.labels token_type_ids position_ids
        positions cache_position attention_mask key_padding_mask mask tokens target seq_lens
        input_ids_1 batch/targets
        """,
        """
        topk_ids next_token_ids pred_labels output_ids generated_tokens argmax expert_indices
        embed_tokens.output masked_lm.output labels_proj token_mixer sampled_ids hidden relu
        """,
    ),
    # Of floats only ids are known by their name.
    partial(roles.is_given, is_exact=False): ("input_ids", "attention_mask positions labels"),
    roles.is_in_a_list: (
        """
        layer1.0.conv1.weight model.layers.11.mlp.up_proj.weight h_3_attn blocks/0/fc
        """,
        """
        fc1.weight lm_head.weight conv2d.weight
        """,
    ),
}


@pytest.mark.parametrize(
    ("ask", "name"), [(ask, name) for ask, (names, _) in NAMES.items() for name in names.split()]
)
def test_a_name_has_the_role(ask, name):
    assert ask(name)


@pytest.mark.parametrize(
    ("ask", "name"), [(ask, name) for ask, (_, names) in NAMES.items() for name in names.split()]
)
def test_a_name_that_looks_alike_has_it_not(ask, name):
    assert not ask(name)


def test_numbers_of_layers_are_whole_parts():
    assert roles.without_layer_numbers("layers.12.fc1.weight") == "layers.#.fc1.weight"
    assert roles.without_layer_numbers("0.conv2d.1") == "#.conv2d.#"
