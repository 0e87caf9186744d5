"""Fetches web pages for a model. Only public addresses are connected to, which is checked at each redirect, and the
size and time are limited."""

import asyncio
import codecs
import re
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import httpx2

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.html_text import PageText, extract_html_text
from gateway.tools.executors.executor import ToolFault
from providers.egress import MAX_REDIRECTS, EgressClient, EgressRefused, GuardedSender, parse_url, resolve_redirect

_MAX_TEXT_CHARS: Final = 1_000_000
"""The most text of one page, in which the model can search."""

_CONNECT_S: Final = 5.0
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_JSON_TYPES: Final = frozenset({"application/json", "application/ld+json", "application/xml"})
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([a-zA-Z0-9_-]{1,40})", re.IGNORECASE)
_META_BYTES: Final = 2048
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)


class PageUnavailable(ToolFault):
    """A page could not be read. The message is for the model, and has nothing of the page."""

    def __init__(self, why: str) -> None:
        super().__init__(f"page_unavailable: {why}")


class WebPage(NamedTuple):
    """A page that was read. `url` is where it was, after redirects."""

    url: str
    title: str
    text: str
    is_whole: bool


class _Content(NamedTuple):
    url: str
    content_type: str
    data: bytes
    is_whole: bool


async def fetch_page(
    egress: EgressClient, url: str, *, max_bytes: int, deadline_s: float, allows: Callable[[str], bool]
) -> WebPage:
    """Returns the page at a URL. `allows` says whether a URL may be fetched, and is asked at each redirect too.

    Raises PageUnavailable.
    """
    try:
        async with asyncio.timeout(deadline_s):
            content = await _fetch(egress, url, max_bytes, allows)
    except TimeoutError:
        raise PageUnavailable(f"it was not complete within {deadline_s:g} s") from None
    except EgressRefused as refused:
        raise PageUnavailable(str(refused)) from None
    return await run_in_pool(_read_content, content)


async def _fetch(egress: EgressClient, url: str, max_bytes: int, allows: Callable[[str], bool]) -> _Content:
    target = parse_url(url)
    async with aclosing(GuardedSender(egress, keeps_connections=False)) as sender:
        for _ in range(MAX_REDIRECTS + 1):
            if not allows(str(target)):
                raise PageUnavailable("its domain is not among those that this search may use")
            timeout = {"connect": _CONNECT_S, "read": None, "write": None, "pool": None}
            headers = {"accept": "text/html, text/*, application/json;q=0.9, */*;q=0.1"}
            request = httpx2.Request("GET", target, headers=headers, extensions={"timeout": timeout})
            try:
                async with aclosing(await sender.send(request)) as reply:
                    if not reply.has_redirect_location:
                        return await _read_reply(reply, target, max_bytes)
                    location = reply.headers["location"]
            except httpx2.HTTPError:
                raise PageUnavailable("its server cannot be reached, or did not send it whole") from None
            target = resolve_redirect(target, location)
            parse_url(str(target))
    raise PageUnavailable(f"it redirects more than {MAX_REDIRECTS} times")


async def _read_reply(reply: httpx2.Response, url: httpx2.URL, max_bytes: int) -> _Content:
    if reply.status_code != 200:
        raise PageUnavailable(f"its server replied with status {reply.status_code}")
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise PageUnavailable("its server sent it compressed, although the request does not accept that")
    content_type = reply.headers.get("content-type", "")
    media_type = _media_type_of(content_type)
    if not (media_type.startswith("text/") or media_type in _HTML_TYPES or media_type in _JSON_TYPES):
        raise PageUnavailable(f"it is no text but {media_type or 'of an unknown type'!r:.100}")
    data = bytearray()
    async for piece in reply.aiter_raw():
        data += piece
        if len(data) > max_bytes:
            return _Content(str(url), content_type, bytes(data[:max_bytes]), is_whole=False)
    return _Content(str(url), content_type, bytes(data), is_whole=True)


def _read_content(content: _Content) -> WebPage:
    """Returns a page from its bytes. It runs in a thread."""
    source = content.data.decode(_find_charset(content), errors="replace")
    if _media_type_of(content.content_type) in _HTML_TYPES:
        read = extract_html_text(source, _MAX_TEXT_CHARS)
    else:
        read = PageText("", source[:_MAX_TEXT_CHARS].strip(), len(source) <= _MAX_TEXT_CHARS)
    return WebPage(content.url, read.title, read.text, read.is_whole and content.is_whole)


def _media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _find_charset(content: _Content) -> str:
    """Returns the encoding of a page: as its header says, or else the page itself, or else UTF-8."""
    named = _CHARSET.search(content.content_type)
    meta = None if named is not None else _META_CHARSET.search(content.data[:_META_BYTES])
    name = named[1] if named is not None else meta[1].decode("ascii") if meta is not None else "utf-8"
    try:
        info = codecs.lookup(name)
    except LookupError:
        return "utf-8"
    # Other codecs of Python are no encodings of text, such as `zlib`.
    return info.name if getattr(info, "_is_text_encoding", True) and info.name not in _UNTRUSTED_CODECS else "utf-8"


_UNTRUSTED_CODECS: Final = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"})
"""Codecs of Python that are slow or may fail, and that no page is encoded with."""
