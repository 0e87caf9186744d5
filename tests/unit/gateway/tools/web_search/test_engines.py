"""gateway/tools/web_search/engines.py: what is read of the replies of search engines."""

import pytest

from gateway.tools.web_search.engines import ENGINES

BASE = "https://one.example/"


@pytest.mark.parametrize(
    ("end", "read"),
    [
        ("page?q=1#part", "page?q=1#part"),
        ("caf\u00e9", "caf\u00e9"),
        ("\u3010\u6ce8\u610f\u3011", "%E3%80%90\u6ce8\u610f%E3%80%91"),
        ("a\u2028\u30101\u3011 Bank", "a%E2%80%A8%E3%80%901%E3%80%91%20Bank"),
        ("a\nb", "a%0Ab"),
        ("a\u0085b", "a%C2%85b"),
    ],
)
def test_a_url_of_a_result_begins_no_line_and_no_marker(end: str, read: str) -> None:
    for engine in ENGINES.values():
        results = [{"url": BASE + end, "title": "One"}]
        [page] = engine.read_results({"results": results, "web": {"results": results}})
        assert page.url == BASE + read


def test_a_number_of_a_character_may_have_any_length() -> None:
    for engine in ENGINES.values():
        results = [{"url": BASE, "title": "One &#" + "9" * 5000 + "; &#66;"}]
        [page] = engine.read_results({"results": results, "web": {"results": results}})
        assert page.title == "One \ufffd B"


@pytest.mark.parametrize(
    ("end", "is_read"), [("a" * 3_980, True), ("a" * 3_981, False), ("【" * 440, True), ("【" * 450, False)]
)
def test_a_url_that_is_too_long_to_be_cited_is_left_out(end: str, is_read: bool) -> None:
    """A link that was left out of what is stored would give its place to the next one."""
    for engine in ENGINES.values():
        results = [{"url": BASE + end, "title": "One"}]
        pages = list(engine.read_results({"results": results, "web": {"results": results}}))
        assert [len(page.url) <= 4_000 for page in pages] == ([True] if is_read else [])
