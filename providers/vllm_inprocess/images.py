"""Replaces the image URLs of a chat body by data URLs, so that only the gateway's `EgressClient` fetches them. vLLM's
renderer would fetch any address."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from providers.egress import EgressClient, FetchResult
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MAX_TOTAL_FACTOR: Final = 3
"""The most bytes that are fetched for one request, as a multiple of `EgressClient.max_bytes`. A limit is needed because
a short URL can name a large image, and a request may contain any number of URLs."""

_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


class _FetchBudget:
    """Limits the bytes and the time of all fetches of one request."""

    def __init__(self, egress: EgressClient) -> None:
        self._egress = egress
        self._bytes_left = _MAX_TOTAL_FACTOR * egress.max_bytes
        self._deadline = asyncio.get_running_loop().time() + egress.deadline_s

    async def get(self, url: str) -> FetchResult:
        """Raises InvalidRequest if the URL cannot be fetched within the limits."""
        left_s = self._deadline - asyncio.get_running_loop().time()
        if self._bytes_left <= 0 or left_s <= 0:
            raise InvalidRequest(
                "the images of this request are too large, or take too long to fetch: send fewer", param="image_url"
            )
        limit = min(self._egress.max_bytes, self._bytes_left)
        result = await self._egress.fetch(url, max_bytes=limit, deadline_s=left_s, param="image_url")
        self._bytes_left -= len(result.content)
        return result


async def inline_images(chat: Json, egress: EgressClient, *, reads_images: bool) -> tuple[Json, bool]:
    """Returns the chat with its images as data URLs, and whether it has images. `reads_images`: the model can read
    images.

    Raises InvalidRequest if the model cannot read images or an image cannot be fetched, and for parts of other types.
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
        raise InvalidRequest("a data URL of an image must begin with data:image/TYPE;base64,", param="image_url")
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(result: FetchResult) -> str:
    media_type, content = result
    if not media_type.startswith("image/"):
        raise InvalidRequest(
            f"the content of the URL is {media_type or 'of no known type'} and not an image", param="image_url"
        )
    return f"data:{media_type};base64,{b64encode(content).decode()}"
