"""The images of a chat body as data URLs, so that the gateway's own guard is all that fetches anything: vLLM's renderer
would fetch any address it is given."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from providers.egress import EgressClient, FetchResult
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MAX_TOTAL_FACTOR: Final = 3
"""As much as so many of the largest is fetched for one request. A few bytes name an image of many, and a request has
room for as many of them as it likes."""

_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


class _FetchBudget:
    """What one request has fetched."""

    def __init__(self, egress: EgressClient) -> None:
        self._egress = egress
        self._bytes_left = _MAX_TOTAL_FACTOR * egress.max_bytes
        self._deadline = asyncio.get_running_loop().time() + egress.deadline_s

    async def get(self, url: str) -> FetchResult:
        """Raises InvalidRequest."""
        left_s = self._deadline - asyncio.get_running_loop().time()
        if self._bytes_left <= 0 or left_s <= 0:
            raise InvalidRequest("the URLs of this request lead to more than is fetched for one", param="image_url")
        limit = min(self._egress.max_bytes, self._bytes_left)
        fetched = await self._egress.fetch(url, max_bytes=limit, deadline_s=left_s, param="image_url")
        self._bytes_left -= len(fetched.content)
        return fetched


async def inline_images(chat: Json, egress: EgressClient, *, reads_images: bool) -> tuple[Json, bool]:
    """The chat with its images inside, and whether it has any. `able`: the model reads images.

    Raises InvalidRequest for images that the model cannot read or nobody can get, and for parts of other kinds.
    """
    messages: list[Json] = []
    has_images = False
    fetches = _FetchBudget(egress)
    for message in chat["messages"]:
        if not isinstance(message.get("content"), list):
            messages.append(message)
            continue
        parts = [await _inline_part(part, reads_images, fetches) for part in message["content"]]
        has_images = has_images or any(part["type"] == "image_url" for part in parts)
        messages.append({**message, "content": parts})
    return ({**chat, "messages": messages} if has_images else chat), has_images


async def _inline_part(part: Mapping[str, Any], reads_images: bool, fetches: _FetchBudget) -> Json:
    if part["type"] in ("text", "refusal"):
        return dict(part)
    if part["type"] != "image_url" or not reads_images:
        raise InvalidRequest(f"this model cannot read parts of type {part['type']!r}", param="input")
    url = part["image_url"]["url"]
    if url[:5].lower() != "data:":
        return {"type": "image_url", "image_url": {"url": _data_url(await fetches.get(url))}}
    if not _DATA_URL.match(url):
        raise InvalidRequest("a data URL of an image begins with data:image/TYPE;base64,", param="image_url")
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(fetched: FetchResult) -> str:
    media_type, content = fetched
    if not media_type.startswith("image/"):
        raise InvalidRequest(f"the URL leads to {media_type or 'something'} and not to an image", param="image_url")
    return f"data:{media_type};base64,{b64encode(content).decode()}"
