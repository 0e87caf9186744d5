"""The images of a chat body as data URLs, so that the gateway's own guard is all that fetches anything: vLLM's renderer
would fetch any address it is given."""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from providers.egress import fetch
from translation.errors import InvalidRequest
from translation.json_types import Json

_MAX_BYTES: Final = 20 * 1024 * 1024
_DEADLINE_S: Final = 15.0
_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


async def inlined(chat: Json, *, able: bool) -> tuple[Json, bool]:
    """The chat with its images inside, and whether it has any. `able`: the model reads images.

    Raises InvalidRequest for images that the model cannot read or nobody can get, and for parts of other kinds.
    """
    messages: list[Json] = []
    found = False
    for message in chat["messages"]:
        if not isinstance(message.get("content"), list):
            messages.append(message)
            continue
        parts = [await _part(part, able) for part in message["content"]]
        found = found or any(part["type"] == "image_url" for part in parts)
        messages.append({**message, "content": parts})
    return ({**chat, "messages": messages} if found else chat), found


async def _part(part: Mapping[str, Any], able: bool) -> Json:
    if part["type"] in ("text", "refusal"):
        return dict(part)
    if part["type"] != "image_url" or not able:
        raise InvalidRequest(f"this model cannot read parts of type {part['type']!r}", param="input")
    url = part["image_url"]["url"]
    if url[:5].lower() != "data:":
        media_type, content = await fetch(url, max_bytes=_MAX_BYTES, deadline_s=_DEADLINE_S, param="image_url")
        return {"type": "image_url", "image_url": {"url": _data_url(media_type, content)}}
    if not _DATA_URL.match(url):
        raise InvalidRequest("a data URL of an image begins with data:image/TYPE;base64,", param="image_url")
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(media_type: str, content: bytes) -> str:
    if not media_type.startswith("image/"):
        raise InvalidRequest(f"the URL leads to {media_type or 'something'} and not to an image", param="image_url")
    return f"data:{media_type};base64,{b64encode(content).decode()}"
