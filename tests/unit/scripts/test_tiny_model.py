"""The committed weights belong to the committed training script."""

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts/tiny_model"
MODEL = ROOT / "models/tiny-reasoner"
RECORD = json.loads((MODEL / "TRAINING.json").read_text())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_record_names_every_file_that_shapes_the_weights() -> None:
    shaping = {path.name for path in SCRIPT.iterdir() if path.suffix in {".py", ".jinja"}} - {"to_gguf.py"}
    assert set(RECORD["sources"]) == shaping


@pytest.mark.parametrize("name", RECORD["sources"])
def test_a_source_is_the_one_the_model_was_trained_with(name: str) -> None:
    assert sha256(SCRIPT / name) == RECORD["sources"][name], "scripts/tiny_model has changed: train again"


def test_the_weights_are_the_recorded_ones() -> None:
    assert sha256(MODEL / "model.safetensors") == RECORD["weights"]


def test_the_chat_template_is_the_one_that_was_trained() -> None:
    template = (SCRIPT / "chat_template.jinja").read_text().strip()
    assert (MODEL / "chat_template.jinja").read_text() == template
    assert json.loads((MODEL / "tokenizer_config.json").read_text())["chat_template"] == template


def test_the_model_was_worth_committing() -> None:
    assert RECORD["accuracy"] >= 0.85


def test_the_gguf_file_holds_the_same_weights() -> None:
    content = (ROOT / "models/tiny-reasoner.gguf").read_bytes()
    weights = (MODEL / "model.safetensors").read_bytes()
    header = int.from_bytes(weights[:8], "little")
    tensors = json.loads(weights[8 : 8 + header])
    for name, tensor in tensors.items():
        if name != "__metadata__":
            begin, end = (8 + header + offset for offset in tensor["data_offsets"])
            assert content.find(weights[begin:end]) > 0, name
