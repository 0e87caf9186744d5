"""Reads the text of a page: decompresses it, finds its encoding, and reads HTML and PDF."""

import codecs
import re
import tempfile
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from operator import methodcaller
from typing import IO, Final, NamedTuple

from dataplane.decompression import DECOMPRESSORS, TooManyMembers
from dataplane.sharing.threaded_file import ThreadedFile, open_in_pool
from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.html_text import PageText, extract_html_text
from gateway.retrieval.parsing.parsed_text import ParsingBounds, UnreadableFile
from gateway.retrieval.parsing.parser_pool import ParserPool
from gateway.tools.executors.executor import ToolFault

_MAX_TEXT_CHARS: Final = 1_000_000
"""The most text of one page, in which the model can search."""

_MAX_RATIO: Final = 100
"""The most bytes for each byte of a compressed page. HTML reaches 20."""

_FREE_BYTES: Final = 1024 * 1024
"""Pages up to this size may be compressed to any ratio."""

_MB: Final = 1024 * 1024
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_JSON_TYPES: Final = frozenset({"application/json", "application/ld+json", "application/xml"})
_PDF_TYPES: Final = frozenset({"application/pdf", "application/x-pdf"})
_PDF_SIGNATURE: Final = b"%PDF-"
_UNKNOWN_TYPES: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Types of servers that do not know what they send. Only the beginning of a PDF says what that is."""

_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([a-zA-Z0-9_-]{1,40})", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"\s*<\?xml[^>]{0,200}encoding\s*=\s*[\"']([a-zA-Z0-9_-]{1,40})")
_META_BYTES: Final = 2048
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, which have precedence over every name, and the codecs that read them."""

_LARGER_CODECS: Final[Mapping[str, str]] = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""Codec -> the larger one that browsers use for pages which name it (encoding.spec.whatwg.org)."""

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "ks_c_5601-1987": "cp949",
    "x-gbk": "gb18030",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-user-defined": "utf-8",
}
"""Names of encodings that Python does not know."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

_UNTRUSTED_CODECS: Final = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"})
"""Codecs of Python that no page is encoded with, and that are slow or fail."""


class PageUnavailable(ToolFault):
    """A page could not be read. The message is for the model, and has nothing of the page."""

    def __init__(self, why: str) -> None:
        super().__init__(f"page_unavailable: {why}")


class PageContent(NamedTuple):
    """What a server sent: at most `max_bytes`, all of it if `is_whole`."""

    url: str
    content_type: str
    coding: str
    data: bytes
    is_whole: bool
    max_bytes: int


class WebPage(NamedTuple):
    """A page that was read. `url` is where it was, after redirects."""

    url: str
    title: str
    text: str
    is_whole: bool


def require_readable(content_type: str, coding: str) -> None:
    """Raises PageUnavailable for a page that is no text, before it is fetched."""
    if coding and coding not in DECOMPRESSORS:
        raise PageUnavailable(f"its server sent it compressed as {coding[:50]!r}, which cannot be read")
    media_type = read_media_type(content_type)
    if not (
        media_type.startswith("text/")
        or media_type in _HTML_TYPES
        or media_type in _JSON_TYPES
        or media_type in _PDF_TYPES
        or media_type in _UNKNOWN_TYPES
    ):
        raise PageUnavailable(f"it is no text but {media_type!r:.100}")


def read_media_type(content_type: str) -> str:
    """Returns the type of a page without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read_coding(content_encoding: str) -> str:
    """Returns how a page is compressed; empty if it is not."""
    coding = content_encoding.strip().lower()
    return {"identity": "", "x-gzip": "gzip"}.get(coding, coding)


class WebPageReader:
    """Reads the pages of one response. PDFs are read in a child process, which starts with the first one."""

    def __init__(self, bounds: ParsingBounds) -> None:
        self._bounds = bounds
        self._parsers: ParserPool | None = None

    async def read(self, content: PageContent) -> WebPage:
        """Returns a page. Raises PageUnavailable."""
        if content.coding:
            content = await run_in_pool(_decompress, content)
        is_pdf = content.data[:1024].lstrip().startswith(_PDF_SIGNATURE)
        if not is_pdf and read_media_type(content.content_type) in _PDF_TYPES | _UNKNOWN_TYPES:
            raise PageUnavailable("it is neither a text nor a PDF")
        return await (self._read_pdf(content) if is_pdf else run_in_pool(_read_text, content))

    async def close(self) -> None:
        """Ends the child process."""
        if self._parsers is not None:
            await self._parsers.close()

    async def _read_pdf(self, content: PageContent) -> WebPage:
        if not content.is_whole:
            raise PageUnavailable(f"it is a PDF of more than {content.max_bytes / _MB:g} MiB")
        if self._parsers is None:
            self._parsers = ParserPool(1)
        async with open_in_pool(run_in_pool, partial(_write_copy, content.data), methodcaller("close")) as copy:
            try:
                text = await self._parse(copy, self._parsers)
            except UnreadableFile as fault:
                raise PageUnavailable(f"it is a PDF that cannot be read: {fault.message}") from None
        return WebPage(content.url, "", text[:_MAX_TEXT_CHARS].strip(), len(text) <= _MAX_TEXT_CHARS)

    async def _parse(self, copy: ThreadedFile[IO[bytes]], parsers: ParserPool) -> str:
        pieces: list[str] = []
        length = 0
        file = copy.use(lambda each: each.fileno())
        async with aclosing(parsers.parse(file, "page.pdf", self._bounds, ChunkSizes())) as parts:
            async for part in parts:
                if not isinstance(part, str):
                    break  # the chunks follow the text
                pieces.append(part)
                length += len(part)
                if length > _MAX_TEXT_CHARS:
                    break
        return "".join(pieces)


def _write_copy(data: bytes) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    copy.write(data)
    copy.seek(0)
    return copy


def _decompress(content: PageContent) -> PageContent:
    """Returns the content as it was before its compression, at most `max_bytes` of it. Raises PageUnavailable."""
    if not content.is_whole:
        raise PageUnavailable(f"it has more than {content.max_bytes / _MB:g} MiB although it is compressed")
    limit = min(content.max_bytes, max(_FREE_BYTES, len(content.data) * _MAX_RATIO))
    try:
        data = DECOMPRESSORS[content.coding](content.data, limit)
    except (ValueError, TooManyMembers):
        raise PageUnavailable(f"its server sent it compressed as {content.coding}, and it is damaged") from None
    return content._replace(coding="", data=data[:limit], is_whole=len(data) <= limit)


def _read_text(content: PageContent) -> WebPage:
    # Half a surrogate pair, which some codecs return, can be sent to no model.
    source = _SURROGATES.sub("\ufffd", content.data.decode(_find_codec(content), errors="replace"))
    if read_media_type(content.content_type) in _HTML_TYPES:
        read = extract_html_text(source, _MAX_TEXT_CHARS)
    else:
        read = PageText("", source[:_MAX_TEXT_CHARS].strip(), len(source) <= _MAX_TEXT_CHARS)
    return WebPage(content.url, read.title, read.text, read.is_whole and content.is_whole)


def _find_codec(content: PageContent) -> str:
    """Returns the codec of a page: as its first bytes say, its header, the page itself, or else UTF-8."""
    for mark, codec in _MARKS:
        if content.data.startswith(mark):
            return codec
    named = _CHARSET.search(content.content_type)
    if named is not None:
        return _find_codec_of(named[1])
    beginning = content.data[:_META_BYTES]
    inside = _XML_ENCODING.match(beginning) or _META_CHARSET.search(beginning)
    return "utf-8" if inside is None else _find_codec_of(inside[1].decode("ascii"))


def _find_codec_of(name: str) -> str:
    name = _OTHER_NAMES.get(name.lower(), name)
    try:
        info = codecs.lookup(name)
    except LookupError:
        return "utf-8"
    # Other codecs of Python are no encodings of text, such as `zlib`. Some names have hyphens, and some underscores.
    if not getattr(info, "_is_text_encoding", True) or info.name.replace("_", "-") in _UNTRUSTED_CODECS:
        return "utf-8"
    if info.name.startswith(("utf-16", "utf-32")):
        # Such a page begins with a mark, which was looked for before. Here its name was read as ASCII, so it is wrong.
        return "utf-8"
    return _LARGER_CODECS.get(info.name, info.name)
