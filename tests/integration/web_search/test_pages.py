"""A model opens pages of the web: only public ones, and never more of them than the bounds."""

import asyncio
import gzip
import sys
import zlib
from typing import Any, Final

import brotli
import pytest

from tests.integration.mcp.tool_gateway import items_of
from tests.integration.web_search.search_gateway import Searching, call, searching
from tests.integration.web_search.web_server import WebReply, redirect_to, web_server
from tests.polling import wait_until
from tests.unit.gateway.retrieval.parsing.documents import build_pdf
from tests.upstream import chat_calls, chat_text

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PAGE: Final = "<p>Grüße aus Rom".encode()


def compressed(body: bytes, coding: str) -> WebReply:
    return WebReply(body, headers={"content-encoding": coding})


async def open_page(served: Searching, **more: Any) -> tuple[str, str]:
    """Returns the status of the item, and what the model read."""
    response = await served.ask(**more)
    item = items_of(response, "web_search_call")[-1]
    assert item["action"]["type"] in ("open_page", "find_in_page")
    return item["status"], served.results_of()


def scripts(url: str, name: str = "open_page", **more: str) -> tuple[Any, Any]:
    return chat_calls(call(name, url=url, **more)), chat_text("Yes 【1】.")


async def test_a_page_is_opened_cited_and_fetched_once() -> None:
    async with web_server(
        {"/rain": WebReply(b"<title>Rain</title><p>It rains in <b>Rome</b>.<p>And in Paris.")}
    ) as web:
        url = f"{web.url}/rain"
        model = (
            chat_calls(call("open_page", url=url)),
            chat_calls(call("find_in_page", url=url, pattern="PARIS")),
            chat_text("Yes 【1】."),
        )
        async with searching(*model) as served:
            response = await served.ask()
            opened, found = served.results_of(1), served.results_of(2)
    assert len(web.requests) == 1
    assert f"【1】 Rain {url}\nIt rains in Rome.\nAnd in Paris." in opened
    assert "And in Paris. …" in found
    first, second = items_of(response, "web_search_call")
    assert first["action"] == {"type": "open_page", "url": url}
    assert second["action"] == {"type": "find_in_page", "url": url, "pattern": "PARIS"}
    assert response["tool_usage"] is None, "pages are no searches"
    assert items_of(response, "message")[0]["content"][0]["annotations"][0]["url"] == url
    assert not {"cookie", "authorization", "referer"} & web.requests[0].headers.keys()


PAGES: Final[dict[str, tuple[WebReply, str, str]]] = {
    "a text": (WebReply("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1"), "completed", "Grüße"),
    "an encoding in the page": (
        WebReply('<meta charset="windows-1251">мир'.encode("cp1251"), "text/html"),
        "completed",
        "мир",
    ),
    "an unknown encoding": (WebReply("ä".encode(), "text/html; charset=x-none"), "completed", "ä"),
    "a codec of Python's sources": (
        WebReply(b"hi \\ud800 there", "text/plain; charset=unicode_escape"),
        "completed",
        "hi \\ud800 there",
    ),
    "a codec that is no encoding": (WebReply("ä".encode(), "text/html; charset=zlib"), "completed", "ä"),
    "json": (WebReply(b'{"a": 1}', "application/json"), "completed", '{"a": 1}'),
    "a forged marker": (WebReply("x 【1】".encode(), "text/plain"), "completed", "x [1]"),
    "no text": (WebReply(b"<script>x</script>"), "completed", "[The page has no text.]"),
    "an error": (WebReply(b"secret", status=404), "failed", "status 404"),
    "an image": (WebReply(b"GIF89a", "image/gif"), "failed", "image/gif"),
    "damaged compression": (WebReply(b"x", headers={"content-encoding": "gzip"}), "failed", "damaged"),
    "an unknown compression": (WebReply(b"x", headers={"content-encoding": "snappy"}), "failed", "snappy"),
    "two compressions": (WebReply(b"x", headers={"content-encoding": "gzip, br"}), "failed", "gzip, br"),
    "gzip": (compressed(gzip.compress(PAGE), "gzip"), "completed", "Grüße aus Rom"),
    "an older name of gzip": (compressed(gzip.compress(PAGE), "x-gzip"), "completed", "Grüße aus Rom"),
    "deflate": (compressed(zlib.compress(PAGE), "deflate"), "completed", "Grüße aus Rom"),
    "brotli": (compressed(brotli.compress(PAGE), "br"), "completed", "Grüße aus Rom"),
    "zstd": (compressed(zstd.compress(PAGE), "zstd"), "completed", "Grüße aus Rom"),
    "a bomb": (
        compressed(gzip.compress(b"<p>bomb " + bytes(50_000_000)), "gzip"),
        "completed",
        "of 1000000 characters",
    ),
    "a name of a larger encoding": (
        WebReply(b"\x93x\x94 \x80", "text/plain; charset=iso-8859-1"),
        "completed",
        "\u201cx\u201d \u20ac",
    ),
    "Japanese": (WebReply("日本語".encode("cp932"), "text/plain; charset=Shift_JIS"), "completed", "日本語"),
    "Japanese by another name": (WebReply("日本".encode("cp932"), "text/plain; charset=x-sjis"), "completed", "日本"),
    "Chinese": (WebReply("简体中文".encode("gb18030"), "text/plain; charset=gb2312"), "completed", "简体中文"),
    "Korean": (WebReply("한국어".encode("cp949"), "text/plain; charset=ks_c_5601-1987"), "completed", "한국어"),
    "Thai": (WebReply("ไทย".encode("cp874"), "text/plain; charset=tis-620"), "completed", "ไทย"),
    "Cyrillic": (WebReply("мир".encode("koi8-r"), "text/plain; charset=KOI8-R"), "completed", "мир"),
    "UTF-16 with a mark": (WebReply("\ufeffGrüße".encode("utf-16-le"), "text/plain"), "completed", "Grüße"),
    "UTF-8 with a mark": (WebReply("\ufeffGrüße".encode(), "text/plain; charset=koi8-r"), "completed", "\nGrüße"),
    "an encoding in XML": (
        WebReply('<?xml version="1.0" encoding="koi8-r"?><p>мир'.encode("koi8-r"), "application/xhtml+xml"),
        "completed",
        "мир",
    ),
    "a PDF": (WebReply(build_pdf("Cats sleep."), "application/pdf"), "completed", "Cats sleep."),
    "a PDF without a type": (WebReply(build_pdf("Cats sleep."), ""), "completed", "Cats sleep."),
    "a compressed PDF": (
        WebReply(gzip.compress(build_pdf("Cats sleep.")), "application/pdf", headers={"content-encoding": "gzip"}),
        "completed",
        "Cats sleep.",
    ),
    "a damaged PDF": (WebReply(b"%PDF-1.7 secret", "application/pdf"), "failed", "a PDF that cannot be read"),
    "no PDF": (WebReply(b"secret", "application/pdf"), "failed", "neither a text nor a PDF"),
    "bytes": (WebReply(b"\0\1secret", "application/octet-stream"), "failed", "neither a text nor a PDF"),
    "a slow page": (WebReply(b"<p>x", stalls=True), "failed", "within 0.5 s"),
    "a metadata service": (redirect_to("http://169.254.169.254/latest"), "failed", "outside the public internet"),
    "a redirect to a file": (redirect_to("file:///etc/passwd"), "failed", "http:// or https://"),
    "a redirect to itself": (redirect_to("/page"), "failed", "redirects more than 5 times"),
}


@pytest.mark.parametrize(("page", "status", "text"), PAGES.values(), ids=PAGES)
async def test_what_a_page_is_decides_what_the_model_reads(page: WebReply, status: str, text: str) -> None:
    settings = {"page_deadline_s": 0.5} if page.stalls else {}
    async with web_server({"/page": page}) as web, searching(*scripts(f"{web.url}/page"), settings=settings) as served:
        got, read = await open_page(served)
    assert got == status
    assert text in read
    assert "secret" not in read


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "ftp://a.example/",
        "https://u:p@a.example/",
        "no url",
        "http://[::1]/",
        "https://a.example/" + "x" * 3000,
    ],
)
async def test_addresses_that_nobody_may_open_are_refused(url: str) -> None:
    async with searching(*scripts(url)) as served:
        status, read = await open_page(served)
    assert status == "failed"
    assert read.startswith("page_unavailable")


async def test_domains_of_the_request_hold_for_pages_and_their_redirects() -> None:
    async with web_server({"/there": WebReply(b"secret")}) as web:
        other = web.url.replace("127.0.0.1", "localhost")
        web.replies["/here"] = redirect_to(f"{other}/there")
        tool = {"filters": {"blocked_domains": ["localhost"]}}
        for url in (f"{other}/there", f"{web.url}/here"):
            async with searching(*scripts(url)) as served:
                status, read = await open_page(served, tool=tool)
            assert (status, "domain" in read) == ("failed", True)
        assert web.requests_of("/there") == []


async def test_a_long_page_is_cut_and_the_model_is_told() -> None:
    words = b"<p>" + b"word " * 500_000 + b"needle"
    async with web_server({"/page": WebReply(words)}) as web:
        url = f"{web.url}/page"
        async with searching(*scripts(url), settings={"page_chars": 1000, "max_page_mb": 1}) as served:
            status, read = await open_page(served)
        async with searching(*scripts(url, "find_in_page", pattern="needle"), settings={"max_page_mb": 1}) as served:
            _, absent = await open_page(served)
        async with searching(*scripts(url, "find_in_page", pattern="word word"), settings={"max_page_mb": 5}) as served:
            _, found = await open_page(served)
    assert status == "completed"
    assert len(read) < 1500
    assert "[Cut: these are 1000 of" in read
    assert "not on this page in the part of the page that was read" in absent
    assert found.count("…") == 10, "five excerpts"


@pytest.mark.parametrize("more", [{}, {"pattern": ""}, {"pattern": "  "}], ids=["no text", "an empty text", "blanks"])
async def test_without_a_text_to_find_a_page_has_no_excerpts(more: dict[str, str]) -> None:
    page = WebReply(b"<p>It rains in Rome.")
    async with (
        web_server({"/page": page}) as web,
        searching(*scripts(f"{web.url}/page", "find_in_page", **more)) as served,
    ):
        _, read = await open_page(served)
    assert f"{more.get('pattern', '')!r} is not on this page" in read
    assert "rains" not in read


async def test_without_pages_only_searches_are_offered() -> None:
    async with searching(chat_text("Yes."), settings={"pages": False}) as served:
        await served.ask()
        offered = (await served.gateway.last_request())["tools"]
    assert [each["function"]["name"] for each in offered] == ["web_search"]


async def test_a_client_that_leaves_ends_the_fetch() -> None:
    came = asyncio.Event()

    def stall(_request: Any) -> WebReply:
        came.set()
        return WebReply(b"x", stalls=True)

    settings = {"page_deadline_s": 60}
    async with web_server({"/page": stall}) as web, searching(*scripts(f"{web.url}/page"), settings=settings) as served:
        asking = asyncio.create_task(served.ask())
        await asyncio.wait_for(came.wait(), 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await wait_until(lambda: web.ended == 1)
