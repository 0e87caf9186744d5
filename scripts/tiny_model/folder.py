"""The model as a Hugging Face folder, with the record of how it was made."""

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

from scripts.tiny_model.evaluate import Score
from scripts.tiny_model.network import CONTEXT
from scripts.tiny_model.samples import CHAT_TEMPLATE
from scripts.tiny_model.tokenizer import END, PAD, PLAIN_TOKENS, SPECIAL_TOKENS

SOURCES = Path(__file__).parent


def write_folder(out: Path, network: Qwen3ForCausalLM, tokenizer: Tokenizer) -> None:
    """Weights as float32 safetensors, and everything transformers, vLLM and to_gguf.py read."""
    out.mkdir(parents=True, exist_ok=True)
    pad = tokenizer.token_to_id(PAD)
    network.generation_config.eos_token_id = [tokenizer.token_to_id(END), pad]
    network.generation_config.pad_token_id = pad
    network.generation_config.bos_token_id = None
    network.save_pretrained(out, safe_serialization=True)
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    write_json(out / "tokenizer_config.json", describe_tokenizer(tokenizer))
    bpe = json.loads(tokenizer.to_str())["model"]
    (out / "vocab.json").write_text(json.dumps(bpe["vocab"], ensure_ascii=False), encoding="utf-8")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in bpe["merges"]]
    (out / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    added = {
        str(tokenizer.token_to_id(token)): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token in SPECIAL_TOKENS,
        }
        for token in (*SPECIAL_TOKENS, *PLAIN_TOKENS)
    }
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "model_max_length": CONTEXT,
        "bos_token": None,
        "eos_token": END,
        "pad_token": PAD,
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": False,
        "errors": "replace",
        "additional_special_tokens": ["<|im_start|>", END],
        "added_tokens_decoder": added,
        "chat_template": CHAT_TEMPLATE,
    }


def write_record(out: Path, seed: int, steps: int, threads: int, scores: dict[str, Score]) -> None:
    """TRAINING.json: what the weights came from and what they are worth."""
    right = sum(score.right for score in scores.values())
    total = sum(score.total for score in scores.values())
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in {".py", ".jinja"} and path.stem != "to_gguf")
    record = {
        "seed": seed,
        "steps": steps,
        "threads": threads,
        "accuracy": round(right / total, 4),
        "scores": {task: f"{score.right}/{score.total}" for task, score in scores.items()},
        "packages": {name: metadata.version(name) for name in ("torch", "transformers", "tokenizers")},
        "sources": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources},
        "weights": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
    }
    write_json(out / "TRAINING.json", record)


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
