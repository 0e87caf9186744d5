"""The model file of the demo. It is part of the package."""

from pathlib import Path
from typing import Final

from providers.llamacpp.check import is_xllamacpp_installed

MODEL_FILE: Final = Path(__file__).with_name("tiny-reasoner.gguf")


def is_model_installed() -> bool:
    """Whether the demo model can run: its file and llama.cpp are installed."""
    return MODEL_FILE.is_file() and is_xllamacpp_installed()
