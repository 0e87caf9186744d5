"""Chat templates that refuse a conversation, such as one with a system message in the middle."""

import re
from typing import Any, Final

from translation.representation.json_types import Json

_KEY_REASONS: Final = "API_KEY_"
"""How reasons begin that are about the gateway's own key: a bad one is a 400."""

_SECONDS: Final = re.compile(r"(\d+)(?:\.(\d+))?s")


def meant_status(status: int, error: Json) -> int:
    """The status an error should have had."""
    return 401 if any(str(each.get("reason")).startswith(_KEY_REASONS) for each in _details(error)) else status


def wait_headers(error: Json) -> dict[str, str]:
    """`retry-after` in whole seconds, where the error says how long to wait."""
    for each in _details(error):
        delay = each.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return {"retry-after": str(int(found[1]) + (int(found[2] or 0) > 0))}
    return {}


def _details(error: Json) -> list[Json]:
    listed: Any = error.get("details")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


_TEXTS: Final = re.compile(r"\bjinja\b|\bat row \d+, column \d+", re.IGNORECASE)
"""Seen in llama.cpp, older and newer, LM Studio and Ollama."""


def is_template_error(message: str) -> bool:
    """Whether an error tells of a template: what it refuses is the client's to change, whatever status came with it."""
    return _TEXTS.search(message) is not None
