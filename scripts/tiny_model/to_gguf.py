"""`python -m scripts.tiny_model.to_gguf --model FOLDER --out FILE` writes the model as llama.cpp reads it."""

import argparse
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import safe_open

_LAYER_TENSORS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def name_tensor(name: str) -> str | None:
    """llama.cpp's name for a tensor; None for the output matrix, which is the embedding again."""
    name = name.removesuffix(".weight")
    if name == "lm_head":
        return None
    if name == "model.embed_tokens":
        return "token_embd.weight"
    if name == "model.norm":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_LAYER_TENSORS[rest]}.weight"


def describe_network(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_name("tiny-reasoner")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def describe_tokenizer(writer: gguf.GGUFWriter, config: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    tokens = [""] * config["vocab_size"]
    kinds = [gguf.TokenType.NORMAL] * config["vocab_size"]
    for token, index in tokenizer["model"]["vocab"].items():
        tokens[index] = token
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    merges = tokenizer["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.tiny_model.to_gguf", description=__doc__)
    parser.add_argument("--model", required=True, type=Path, help="folder that scripts.tiny_model wrote")
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()

    config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((args.model / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(str(args.out), "qwen3")
    describe_network(writer, config)
    describe_tokenizer(writer, config, tokenizer)
    writer.add_chat_template((args.model / "chat_template.jinja").read_text(encoding="utf-8"))
    with safe_open(args.model / "model.safetensors", framework="numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 - it is no mapping: iterating over it fails
            if target := name_tensor(name):
                writer.add_tensor(target, weights.get_tensor(name).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
