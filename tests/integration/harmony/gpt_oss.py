"""A model with the vocabulary of gpt-oss and next to no weights, as a GGUF file that llama.cpp loads.

Whatever came before, each token has the same chance to be next: what is listed here, or whatever a grammar leaves.
"""

import array
import base64
import lzma
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from providers.harmony import encoding

_WIDTH: Final = 8
_WORDS: Final = 199_998
_TOKENS: Final = 201_088
_SPECIAL: Final = {
    199_998: "<|startoftext|>",
    199_999: "<|endoftext|>",
    200_002: "<|return|>",
    200_003: "<|constrain|>",
    200_005: "<|channel|>",
    200_006: "<|start|>",
    200_007: "<|end|>",
    200_008: "<|message|>",
    200_012: "<|call|>",
    200_018: "<|endofprompt|>",
}
_NEVER: Final = -30.0
"""The logit of all other tokens."""

_NORMAL, _CONTROL = 1, 3
_UINT32, _INT32, _FLOAT32, _STRING, _ARRAY = 4, 5, 6, 8, 9
_ALIGNED: Final = 32


def write_model(file: Path, likely: Mapping[int, float]) -> None:
    """Writes the model. `likely`: token -> its logit."""
    zeros = array.array("f", bytes(4 * _WIDTH * _WIDTH))
    ones = array.array("f", [1.0] * _WIDTH)
    # Every token is embedded as the same vector, of which the output sees the first number: the square root of 8, once
    # it is normalised.
    embedded = array.array("f", [1.0, *[0.0] * (_WIDTH - 1)]) * _TOKENS
    output = array.array("f", [_NEVER / _WIDTH**0.5, *[0.0] * (_WIDTH - 1)]) * _TOKENS
    for token, logit in likely.items():
        output[token * _WIDTH] = logit / _WIDTH**0.5
    square, row = (_WIDTH, _WIDTH), (_WIDTH,)
    layer: dict[str, tuple[tuple[int, ...], array.array[float]]] = {
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (square, zeros)),
        **dict.fromkeys(("ffn_gate", "ffn_up", "ffn_down"), (square, zeros)),
        **dict.fromkeys(("attn_norm", "ffn_norm"), (row, ones)),
    }
    tensors: dict[str, tuple[tuple[int, ...], array.array[float]]] = {
        "token_embd.weight": ((_WIDTH, _TOKENS), embedded),
        "output.weight": ((_WIDTH, _TOKENS), output),
        "output_norm.weight": (row, ones),
        **{f"blk.0.{name}.weight": tensor for name, tensor in layer.items()},
    }
    facts = _facts()
    with file.open("wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)))
        for name, (kind, value) in facts.items():
            out.write(_text(name) + struct.pack("<I", kind) + value)
        place = 0
        for name, (shape, numbers) in tensors.items():
            out.write(_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape))
            out.write(struct.pack("<IQ", 0, place))
            place += -(-len(numbers) * 4 // _ALIGNED) * _ALIGNED
        for _, numbers in tensors.values():
            _align(out)
            out.write(numbers.tobytes())


def _facts() -> dict[str, tuple[int, bytes]]:
    words = _vocabulary()
    names = [*words, *(_SPECIAL.get(token, f"<|reserved_{token}|>") for token in range(_WORDS, _TOKENS))]
    kinds = [*[_NORMAL] * _WORDS, *[_CONTROL] * (_TOKENS - _WORDS)]
    numbers = {
        "context_length": 4096,
        "embedding_length": _WIDTH,
        "block_count": 1,
        "feed_forward_length": _WIDTH,
        "attention.head_count": 1,
        "rope.dimension_count": _WIDTH,
        "vocab_size": _TOKENS,
    }
    return {
        "general.architecture": (_STRING, _text("llama")),
        **{f"llama.{name}": (_UINT32, struct.pack("<I", number)) for name, number in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": (_FLOAT32, struct.pack("<f", 1e-6)),
        "tokenizer.ggml.model": (_STRING, _text("gpt2")),
        "tokenizer.ggml.pre": (_STRING, _text("gpt-4o")),
        "tokenizer.ggml.tokens": (_ARRAY, _list(_STRING, map(_text, names))),
        "tokenizer.ggml.token_type": (_ARRAY, _list(_INT32, (struct.pack("<i", kind) for kind in kinds))),
        # The server tokenizes nothing: prompts are sent as tokens.
        "tokenizer.ggml.merges": (_ARRAY, _list(_STRING, [_text("\u0120 t")])),
        "tokenizer.ggml.bos_token_id": (_UINT32, struct.pack("<I", 199_998)),
        "tokenizer.ggml.eos_token_id": (_UINT32, struct.pack("<I", 200_002)),
    }


def _vocabulary() -> list[str]:
    """The words as GPT-2 spells their bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    spelt = {byte: chr(byte) for byte in plain} | {byte: chr(256 + place) for place, byte in enumerate(others)}
    lines = lzma.decompress(encoding._VOCABULARY.read_bytes()).splitlines()
    words = ["" for _ in lines]
    for line in lines:
        word, rank = line.split()
        words[int(rank)] = base64.b64decode(word).decode("latin-1").translate(spelt)
    assert len(words) == _WORDS
    return words


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _list(kind: int, values: Iterable[bytes]) -> bytes:
    packed = list(values)
    return struct.pack("<IQ", kind, len(packed)) + b"".join(packed)


def _align(out: BinaryIO) -> None:
    out.write(bytes(-out.tell() % _ALIGNED))
