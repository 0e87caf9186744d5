"""Finds media in the outputs of calls that no upstream can read, so that one bad image does not fail a whole turn."""

from base64 import b64decode
from typing import Final

from translation.representation.json_types import Json

_MEDIA_NAMES: Final = {
    "input_image": "image",
    "image_url": "image",
    "input_audio": "recording",
    "input_file": "file",
    "file": "file",
}
"""The type of a part in Responses or chat -> the name of its content."""


def name_media(part: Json) -> str:
    """Returns the name of a part's content, for people."""
    return _MEDIA_NAMES.get(part.get("type") or "", "part")


def find_media_fault(part: Json) -> str | None:
    """Returns why the content of a media part is invalid, in a few words; None if it is valid or not in the part.

    Only content that is part of the request is checked: data URLs, and base64. The upstream reads other URLs and ids.
    """
    match part:
        case {"type": "input_image", "image_url": str(source)} | {
            "type": "image_url",
            "image_url": {"url": str(source)},
        }:
            return _find_data_url_fault(source, "image/") if _is_data_url(source) else None
        case {"type": "input_file", "file_data": str(data)} | {"type": "file", "file": {"file_data": str(data)}}:
            return _find_data_url_fault(data, "") if _is_data_url(data) else _find_base64_fault(data)
        case {"type": "input_audio", "input_audio": {"data": str(data)}}:
            return _find_base64_fault(data)
    return None


def _is_data_url(source: str) -> bool:
    return source[:5].lower() == "data:"


def _find_data_url_fault(url: str, type_prefix: str) -> str | None:
    header, comma, payload = url.partition(",")
    media_type, *options = (option.strip() for option in header[5:].lower().split(";"))
    if not comma or "/" not in media_type:
        return "its data URL has no media type"
    if not media_type.startswith(type_prefix):
        return f"its media type is {media_type[:100]}"
    return _find_base64_fault(payload) if "base64" in options else None


def _find_base64_fault(data: str) -> str | None:
    text = "".join(data.split())
    if not text:
        return "it is empty"
    try:
        b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return "its content is not base64"
    return None
