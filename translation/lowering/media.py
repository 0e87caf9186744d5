"""Media inside a request: data URLs, and the text some of them hold."""

import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from translation.errors import InvalidRequest


def file_name_from_url(url: str) -> str:
    """The end of its path, which is what the file is called; nothing where it ends in none, or is no URL."""
    try:
        return unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError:  # `https://[`: the upstream says what is wrong with it
        return ""


_TEXT_MEDIA_TYPES: Final = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/toml",
        "application/x-ndjson",
        "application/x-sh",
        "application/xml",
        "application/yaml",
    }
)
"""Media types that are text and do not say so; `text/*` and `…+json`, `…+xml` do."""

_MEDIA_TYPE_PATTERN: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")


class Base64Media(NamedTuple):
    """Bytes that are said in base64."""

    media_type: str
    base64: str


def media_from_data_url(source: str, param: str) -> Base64Media | None:
    """What a data URL holds; `None` for any other text. Raises InvalidRequest for one without a media type."""
    header, comma, payload = source.partition(",")
    if not comma or header[:5].lower() != "data:":
        return None
    media_type, *options = (part.strip() for part in header[5:].lower().split(";"))
    if not _MEDIA_TYPE_PATTERN.fullmatch(media_type):
        raise InvalidRequest("This data URL does not say its media type.", param=param)
    return Base64Media(media_type, payload if "base64" in options else b64encode(unquote_to_bytes(payload)).decode())


def text_from_data_url(source: str, param: str) -> str | None:
    """The text in a data URL that holds text; `None` for any other. Raises InvalidRequest where it is not UTF-8."""
    header, comma, payload = source.partition(",")
    if not comma or not header.startswith("data:"):
        return None
    media_type, *options = header.removeprefix("data:").lower().split(";")
    if not (
        media_type.startswith("text/") or media_type in _TEXT_MEDIA_TYPES or media_type.endswith(("+json", "+xml"))
    ):
        return None
    try:
        content = b64decode(payload, validate=True) if "base64" in options else unquote_to_bytes(payload)
        return content.decode("utf-8-sig")
    except ValueError:
        raise InvalidRequest("This is not UTF-8 text as its data URL says.", param=param) from None
