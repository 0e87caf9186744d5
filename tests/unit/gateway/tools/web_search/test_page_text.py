"""Pages in every codec that Python knows by a name: a server may name any of them."""

from encodings.aliases import aliases

import orjson
import pytest

from gateway.retrieval.parsing.parsed_text import ParsingBounds
from gateway.tools.web_search.page_text import PageContent, WebPageReader

DATA = b"hi \\ud800 &#xd800; \xed\xa0\x80 +2AA- \x00there"


@pytest.mark.parametrize("form", ["text/plain", "text/html"])
@pytest.mark.parametrize("codec", sorted({*aliases.values(), "idna", "punycode", "unicode_escape", "utf-7"}))
async def test_every_codec_gives_a_text_that_can_be_sent(codec: str, form: str) -> None:
    content = PageContent("http://a.test/", f"{form}; charset={codec}", "", DATA, is_whole=True, max_bytes=1000)
    page = await WebPageReader(ParsingBounds()).read(content)
    assert orjson.dumps(page.text)
