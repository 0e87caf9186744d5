"""Lowers content parts to content blocks: text, images, and documents that are text or PDF."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.media import (
    find_file_name,
    parse_media_data_url,
    parse_text_data_url,
    refuse_google_file,
    require_address,
)
from translation.lowering.text_parts import TEXT_KEYS, text_of_part
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_IMAGE_TYPES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})


def text_blocks(*texts: str) -> list[Json]:
    """Returns a block for each text that is not blank. The API refuses blank ones."""
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def lower_parts(parts: Sequence[Json], param: str, losses: list[Loss]) -> list[Json]:
    """Returns the blocks of a user's content or of a tool's output. Losses are appended to `losses`.

    Raises Unrepresentable for a part that the API cannot represent, and InvalidRequest for malformed `file_data`. The
    error's `param` is the part's path under `param`.
    """
    return [block for index, part in enumerate(parts) for block in _lower_part(part, f"{param}[{index}]", losses)]


def _lower_part(part: Json, param: str, losses: list[Loss]) -> list[Json]:
    kind = part.get("type", "")
    if kind in TEXT_KEYS:
        return text_blocks(text_of_part(part))
    if kind not in _MEDIA_LOWERERS:
        raise Unrepresentable(f"this model's API has no content of type {kind!r}", param=param)
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    if part.get("file_id"):
        raise Unrepresentable("files are not stored here: send the content or its URL, not file_id", param=param)
    return [_MEDIA_LOWERERS[kind](part, param)]


def _lower_image(part: Json, param: str) -> Json:
    url = part.get("image_url") or ""
    media = parse_media_data_url(url, f"{param}.image_url")
    if media is None:
        require_address(url, f"{param}.image_url")
        refuse_google_file(url, f"{param}.image_url")
        return {"type": "image", "source": {"type": "url", "url": url}}
    media_type = media.media_type.replace("image/jpg", "image/jpeg")
    if media_type not in _IMAGE_TYPES:
        message = f"this model reads PNG, JPEG, GIF and WebP images, not {media.media_type}"
        raise Unrepresentable(message, param=f"{param}.image_url")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": media.base64}}


def _lower_file(part: Json, param: str) -> Json:
    url = part.get("file_url")
    # Citations show the title.
    name = part.get("filename") or (find_file_name(url) if url else "")
    title = {"title": name} if name else {}
    if url:
        refuse_google_file(url, f"{param}.file_url")
        return {"type": "document", "source": {"type": "url", "url": url}, **title}
    source, param = part.get("file_data") or "", f"{param}.file_data"
    if (text := parse_text_data_url(source, param)) is not None:
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **title}
    media = parse_media_data_url(source, param)
    if media is None:
        raise InvalidRequest("Send file_data as a data URL with its media type.", param=param)
    if media.media_type != "application/pdf":
        raise Unrepresentable(f"this model reads PDF and text files, not {media.media_type}", param=param)
    data = {"type": "base64", "media_type": media.media_type, "data": media.base64}
    return {"type": "document", "source": data, **title}


_MEDIA_LOWERERS: Final[Mapping[str, Callable[[Json, str], Json]]] = {
    "input_image": _lower_image,
    "input_file": _lower_file,
}
