"""The images of a chat body as data URLs, so that the gateway's own guard is all that fetches anything: vLLM's renderer
would fetch any address it is given."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from providers.egress import Egress, Fetched
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MOST: Final = 3
"""As much as so many of the largest is fetched for one request. A few bytes name an image of many, and a request has
room for as many of them as it likes."""

_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


class _Fetches:
    """What one request has fetched."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._left = _MOST * egress.max_bytes
        self._until = asyncio.get_running_loop().time() + egress.deadline_s

    async def get(self, url: str) -> Fetched:
        """Raises InvalidRequest."""
        left_s = self._until - asyncio.get_running_loop().time()
        if self._left <= 0 or left_s <= 0:
            raise InvalidRequest("the URLs of this request lead to more than is fetched for one", param="image_url")
        limit = min(self._egress.max_bytes, self._left)
        fetched = await self._egress.fetch(url, max_bytes=limit, deadline_s=left_s, param="image_url")
        self._left -= len(fetched.content)
        return fetched


async def inlined(chat: Json, egress: Egress, *, able: bool) -> tuple[Json, bool]:
    """The chat with its images inside, and whether it has any. `able`: the model reads images.

    Raises InvalidRequest for images that the model cannot read or nobody can get, and for parts of other kinds.
    """
    messages: list[Json] = []
    found = False
    fetches = _Fetches(egress)
    for message in chat["messages"]:
        if not isinstance(message.get("content"), list):
            messages.append(message)
            continue
        parts = [await _part(part, able, fetches) for part in message["content"]]
        found = found or any(part["type"] == "image_url" for part in parts)
        messages.append({**message, "content": parts})
    return ({**chat, "messages": messages} if found else chat), found


async def _part(part: Mapping[str, Any], able: bool, fetches: _Fetches) -> Json:
    if part["type"] in ("text", "refusal"):
        return dict(part)
    if part["type"] != "image_url" or not able:
        raise InvalidRequest(f"this model cannot read parts of type {part['type']!r}", param="input")
    url = part["image_url"]["url"]
    if url[:5].lower() != "data:":
        return {"type": "image_url", "image_url": {"url": _data_url(await fetches.get(url))}}
    if not _DATA_URL.match(url):
        raise InvalidRequest("a data URL of an image begins with data:image/TYPE;base64,", param="image_url")
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(fetched: Fetched) -> str:
    media_type, content = fetched
    if not media_type.startswith("image/"):
        raise InvalidRequest(f"the URL leads to {media_type or 'something'} and not to an image", param="image_url")
    return f"data:{media_type};base64,{b64encode(content).decode()}"
