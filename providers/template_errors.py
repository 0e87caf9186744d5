"""Chat templates that refuse a conversation, such as one with a system message in the middle."""

import re
from typing import Final

_TEXTS: Final = re.compile(r"\bjinja\b|\bat row \d+, column \d+", re.IGNORECASE)
"""Seen in llama.cpp, older and newer, LM Studio and Ollama."""


def is_template_error(message: str) -> bool:
    """Whether an error tells of a template: what it refuses is the client's to change, whatever status came with it."""
    return _TEXTS.search(message) is not None
