"""Chat templates that refuse a conversation, such as one with a system message in the middle."""

import re
from typing import Any, Final

from translation.representation.json_types import Json

_API_KEY_REASON_PREFIX: Final = "API_KEY_"
"""How reasons begin that are about the gateway's own key: a bad one is a 400."""

_DURATION: Final = re.compile(r"(\d+)(?:\.(\d+))?s")


def effective_status(status: int, error: Json) -> int:
    """The status an error should have had."""
    return (
        401 if any(str(each.get("reason")).startswith(_API_KEY_REASON_PREFIX) for each in _details(error)) else status
    )


def retry_after_headers(error: Json) -> dict[str, str]:
    """`retry-after` in whole seconds, where the error says how long to wait."""
    for each in _details(error):
        delay = each.get("retryDelay")
        if isinstance(delay, str) and (found := _DURATION.fullmatch(delay)):
            return {"retry-after": str(int(found[1]) + (int(found[2] or 0) > 0))}
    return {}


def _details(error: Json) -> list[Json]:
    listed: Any = error.get("details")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


_TEMPLATE_ERROR: Final = re.compile(r"\bjinja\b|\bat row \d+, column \d+", re.IGNORECASE)
"""Seen in llama.cpp, older and newer, LM Studio and Ollama."""


def is_template_error(message: str) -> bool:
    """Whether an error tells of a template: what it refuses is the client's to change, whatever status came with it."""
    return _TEMPLATE_ERROR.search(message) is not None
