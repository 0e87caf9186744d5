"""gpt-oss's own encoding, as `openai-harmony` has it. Its vocabulary is a file that the operator has put there."""

import hashlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

_FOLDER: Final = "TIKTOKEN_ENCODINGS_BASE"
"""The variable in which the library looks for the folder of the vocabulary."""

VOCABULARY: Final = "o200k_base.tiktoken"

_DIGEST: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

SOURCE: Final = f"https://openaipublic.blob.core.windows.net/encodings/{VOCABULARY}"


class Marks(NamedTuple):
    """The special tokens that messages are made of."""

    start: int
    channel: int
    constrain: int
    message: int
    end: int
    returns: int
    call: int


_NAMES: Final = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")


class Encoding:
    """Text and tokens. No text becomes a special token, whatever it spells."""

    def __init__(self, library: Any) -> None:
        self.library = library
        """The library's own object, for its renderer and its parser."""
        self.marks = Marks(*(library.encode(name, allowed_special="all")[0] for name in _NAMES))
        self._special = frozenset(library.encode(name, allowed_special="all")[0] for name in library.special_tokens_set)

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = self.library.encode(text, disallowed_special=())
        return tokens

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens; bytes that are no character come out as U+FFFD."""
        text: str = self.library.decode(tokens)
        return text

    def is_special(self, token: int) -> bool:
        return token in self._special


def what_is_missing(folder: str) -> tuple[str, str] | None:
    """What an operator has to do before the encoding can be loaded, if anything: the setting, and what is wrong with
    it. Loads no encoding."""
    if importlib.util.find_spec("openai_harmony") is None:
        return "type", 'openai-harmony is not installed: pip install "responses-gateway[harmony]"'
    try:
        found = (Path(folder) / VOCABULARY).read_bytes()
    except OSError as error:
        return "vocabulary", f"no {VOCABULARY} can be read in {folder} ({error.strerror}): put it there from {SOURCE}"
    if hashlib.sha256(found).hexdigest() != _DIGEST:
        return "vocabulary", f"{VOCABULARY} in {folder} is another file than the one at {SOURCE}"
    return None


@cache
def encoding(folder: str) -> Encoding:
    """Reads the vocabulary in this folder, once in a process. Nothing is downloaded.

    Raises RuntimeError saying what is missing, or that the file is another than it should be.
    """
    if (missing := what_is_missing(folder)) is not None:
        raise RuntimeError(missing[1])
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding

    # The library is told in no other way, and would download the file otherwise.
    os.environ[_FOLDER] = folder  # noqa: TID251
    return Encoding(load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS))
