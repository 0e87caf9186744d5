"""Reads media in a request: data URLs, the text in them, and file names in URLs."""

import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from translation.errors import InvalidRequest, Unrepresentable

UNNAMED_PDF: Final = "document.pdf"
UNNAMED_FILE: Final = "document"
"""Names of files that a client sent without one. OpenAI's APIs require a name; elsewhere nothing is lost of these."""


def find_file_name(url: str) -> str:
    """Returns the last segment of the URL's path, unquoted.

    It is empty if the path ends with a slash or the URL is invalid.
    """
    try:
        return unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError:  # An invalid URL such as `https://[`. The upstream reports what is wrong with it.
        return ""


_GOOGLE_FILE: Final = re.compile(r"https://generativelanguage\.googleapis\.com/[^/]+/files/", re.IGNORECASE)


def refuse_google_file(url: str, param: str) -> None:
    """Raises Unrepresentable, with `param`, for a file of Gemini's Files API.

    Only Gemini's models can read such a file. Its URL looks like a public one, so other servers would try to fetch it.
    """
    if _GOOGLE_FILE.match(url):
        raise Unrepresentable(
            "only Gemini's models can read a file of Google's Files API: send the content itself", param=param
        )


_ADDRESS: Final = re.compile(r"data:[^,]*,|[a-z][a-z0-9+.-]*://[^\s/]", re.IGNORECASE)


def require_address(url: str, param: str) -> None:
    """Raises InvalidRequest, with `param`, for the address of an image that is none, such as a file name.

    Some upstreams take it for an image that they cannot load, and answer without it.
    """
    if not _ADDRESS.match(url):
        raise InvalidRequest(
            "This is not the address of an image: send `https://...`, or the image itself as "
            "`data:image/png;base64,...`.",
            param=param,
        )


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
"""Media types of text, besides `text/*`, `…+json` and `…+xml`."""

_MEDIA_TYPE_PATTERN: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")


class Base64Media(NamedTuple):
    """The media type of a file and its bytes in base64."""

    media_type: str
    base64: str


def parse_media_data_url(source: str, param: str) -> Base64Media | None:
    """Returns the content of a data URL, or None for any other text.

    Raises InvalidRequest, with `param`, for a data URL without a valid media type.
    """
    header, comma, payload = source.partition(",")
    if not comma or header[:5].lower() != "data:":
        return None
    media_type, *options = (part.strip() for part in header[5:].lower().split(";"))
    if not _MEDIA_TYPE_PATTERN.fullmatch(media_type):
        raise InvalidRequest(
            "This data URL has no valid media type; write it as `data:TYPE/SUBTYPE;base64,...`.", param=param
        )
    return Base64Media(media_type, payload if "base64" in options else b64encode(unquote_to_bytes(payload)).decode())


def parse_text_data_url(source: str, param: str) -> str | None:
    """Returns the text in a data URL with a media type of text, or None for any other URL or type.

    Raises InvalidRequest, with `param`, if the content is not UTF-8 or its base64 is invalid.
    """
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
        raise InvalidRequest(
            "The content of this data URL is not UTF-8 text, but its media type is one of text.", param=param
        ) from None
