"""The Harmony encoding of gpt-oss from `openai-harmony`, with a copy of the vocabulary that the library would
download."""

import importlib.util
import lzma
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from providers.harmony.text_splitting import split_text

_VOCABULARY: Final = Path(__file__).with_name("o200k_base.tiktoken.xz")
"""OpenAI's vocabulary, from tiktoken (MIT licence). The library checks its digest."""

_FOLDER_VARIABLE: Final = "TIKTOKEN_ENCODINGS_BASE"
"""The environment variable with the folder of the vocabulary. The library has no other way to set it."""


class ControlTokens(NamedTuple):
    """The special tokens that structure messages."""

    start: int
    channel: int
    constrain: int
    message: int
    end: int
    returns: int
    call: int


_CONTROL_TOKEN_NAMES: Final = (
    "<|start|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
)


class Encoding:
    """Encodes text and decodes tokens. Text never becomes a special token, even if it spells one."""

    def __init__(self, library: Any) -> None:
        self.library = library
        """The library's encoding object, for its renderer and its parser."""
        self.control_tokens = ControlTokens(
            *(library.encode(name, allowed_special="all")[0] for name in _CONTROL_TOKEN_NAMES)
        )
        self._special = frozenset(library.encode(name, allowed_special="all")[0] for name in library.special_tokens_set)

    def encode(self, text: str) -> list[int]:
        return [token for piece in split_text(text) for token in self.library.encode(piece, disallowed_special=())]

    def decode(self, tokens: list[int]) -> str:
        """Returns the text of tokens. Invalid bytes and unknown tokens become U+FFFD."""
        from openai_harmony import HarmonyError

        try:
            text: str = self.library.decode(tokens)
        except HarmonyError:
            return "\ufffd" if len(tokens) == 1 else "".join(self.decode([token]) for token in tokens)
        return text

    def is_special(self, token: int) -> bool:
        return token in self._special


def is_openai_harmony_installed() -> bool:
    """Whether `openai-harmony` is installed. The library is not imported."""
    return importlib.util.find_spec("openai_harmony") is not None


@cache
def load_encoding() -> Encoding:
    """Returns the encoding. The first call in a process loads the vocabulary, which takes a second. Nothing is
    downloaded.

    Raises ImportError if the library is not installed.
    """
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding

    before = os.environ.get(_FOLDER_VARIABLE)
    with TemporaryDirectory() as folder:
        Path(folder, _VOCABULARY.stem).write_bytes(lzma.decompress(_VOCABULARY.read_bytes()))
        os.environ[_FOLDER_VARIABLE] = folder
        try:
            return Encoding(load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS))
        finally:
            del os.environ[_FOLDER_VARIABLE]
            if before is not None:
                os.environ[_FOLDER_VARIABLE] = before
