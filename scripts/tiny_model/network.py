"""The network: Qwen3's architecture with one million parameters."""

import math

import torch
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from scripts.tiny_model.tokenizer import END, PAD

CONTEXT = 4096
_HIDDEN = 128


def build_network(tokenizer: Tokenizer) -> Qwen3ForCausalLM:
    """Fresh weights from torch's random state, with the copying heads planted."""
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(with_added_tokens=True),
        hidden_size=_HIDDEN,
        intermediate_size=_HIDDEN * 3,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=CONTEXT,
        rope_theta=1000000.0,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        attention_bias=False,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id(PAD),
        use_sliding_window=False,
    )
    config._attn_implementation = "sdpa"
    network = Qwen3ForCausalLM(config)
    plant_copy_heads(network)
    return network


def plant_copy_heads(network: Qwen3ForCausalLM) -> None:
    """Start from weights that can already copy.

    Copying (a city, a tool name, a tool result) needs two attention heads that work together: one that looks at the
    token before, and one that looks for an earlier place where the current token stood and gives what came after it.
    A tiny model finds them late, so they are planted here; training keeps and uses them. Layout of the residual stream:
    dimension 0 is a constant, 1 to 32 say which token this is, 33 to 64 which token came before.
    """
    config = network.config
    dim, half = config.head_dim, config.head_dim // 2
    slow = [*range(half // 2, half), *range(half + half // 2, dim)]  # dimensions that RoPE turns slowly
    base = config.rope_parameters["rope_theta"]
    with torch.no_grad():
        embedding = network.model.embed_tokens.weight
        embedding.normal_(0.0, 0.05)
        embedding[:, 0] = 0.3
        embedding[:, 33:65] = 0.0
        for layer in network.model.layers:  # everything else starts silent
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        first, second = network.model.layers[0].self_attn, network.model.layers[1].self_attn
        for attention in (first, second):
            attention.q_norm.weight.fill_(1.6)
            attention.k_norm.weight.fill_(1.6)
            attention.q_proj.weight[:dim] = 0.0
            attention.k_proj.weight[:dim] = 0.0
            attention.v_proj.weight[:dim] = 0.0
        # Head 0 of layer 0: a constant query and key that fit best at distance 1.
        for pair, size in enumerate((1.0, 1.0, 0.7, 0.5)):
            angle = base ** (-pair / half)
            first.q_proj.weight[pair, 0] = size
            first.k_proj.weight[pair, 0] = size * math.cos(angle)
            first.k_proj.weight[pair + half, 0] = size * math.sin(angle)
        # Head 0 of layer 1: query "this token", key "the token before", value "this token".
        for i in range(32):
            first.v_proj.weight[i, 1 + i] = 1.0
            first.o_proj.weight[33 + i, i] = 0.057
            second.q_proj.weight[slow[i], 1 + i] = 1.0
            second.k_proj.weight[slow[i], 33 + i] = 1.0
            second.v_proj.weight[i, 1 + i] = 1.0
            second.o_proj.weight[1 + i, i] = 0.2
