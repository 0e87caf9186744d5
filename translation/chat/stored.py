"""Messages of stored chat completions, as the API lists them."""

from translation.json_types import Json

_SHOWN_PARTS = ("text", "image_url")
"""The parts that `content_parts` may hold."""


def stored_message(message: Json) -> Json:
    """A request's message with an `id`. Content in parts is under `content_parts`, and its text in one piece under
    `content`; parts that a list cannot show are left out."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": content, "content_parts": None}
    texts = [part.get("text") or part.get("refusal") or "" for part in content if part["type"] in ("text", "refusal")]
    shown = [part for part in content if part["type"] in _SHOWN_PARTS]
    return {**message, "content": "".join(texts) if texts else None, "content_parts": shown}
