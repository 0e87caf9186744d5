"""Fetches web pages for a model. Only public addresses are connected to, which is checked at each redirect, and the
size and time are limited."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import httpx2

from gateway.tools.web_search.page_text import (
    PageContent,
    PageUnavailable,
    WebPage,
    WebPageReader,
    read_coding,
    require_readable,
)
from providers.egress import MAX_REDIRECTS, EgressClient, EgressRefused, GuardedSender, parse_url, resolve_redirect
from translation.hosted.citations.citables import MAX_URL_CHARS

_CONNECT_S: Final = 5.0


async def fetch_page(
    egress: EgressClient,
    url: str,
    reader: WebPageReader,
    *,
    max_bytes: int,
    deadline_s: float,
    allows: Callable[[str], bool],
) -> WebPage:
    """Returns the page at a URL. `allows` says whether a URL may be fetched, and is asked at each redirect too.

    Raises PageUnavailable.
    """
    try:
        async with asyncio.timeout(deadline_s):
            return await reader.read(await _fetch_page(egress, url, max_bytes, allows))
    except TimeoutError:
        raise PageUnavailable(f"it was not complete within {deadline_s:g} s") from None
    except EgressRefused as refused:
        raise PageUnavailable(str(refused)) from None


async def _fetch_page(egress: EgressClient, url: str, max_bytes: int, allows: Callable[[str], bool]) -> PageContent:
    target = parse_url(url)
    async with aclosing(GuardedSender(egress, keeps_connections=False)) as sender:
        for _ in range(MAX_REDIRECTS + 1):
            if len(str(target)) > MAX_URL_CHARS:
                raise PageUnavailable(f"its URL or one that it redirects to has more than {MAX_URL_CHARS} characters")
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


async def _read_reply(reply: httpx2.Response, url: httpx2.URL, max_bytes: int) -> PageContent:
    if reply.status_code != 200:
        raise PageUnavailable(f"its server replied with status {reply.status_code}")
    content_type = reply.headers.get("content-type", "")
    coding = read_coding(reply.headers.get("content-encoding", ""))
    require_readable(content_type, coding)
    data = bytearray()
    is_whole = True
    async for piece in reply.aiter_raw():
        data += piece
        if len(data) > max_bytes:
            is_whole = False
            break
    return PageContent(str(url), content_type, coding, bytes(data[:max_bytes]), is_whole, max_bytes)
