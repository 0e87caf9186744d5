"""Markers with lines: what a browser showed at these lines is cited, and nothing else."""

from typing import Any, Final

import pytest

from translation.hosted.citations.citables import BrowserView, CitableFile, CitablePage, ViewLink, read_source
from translation.hosted.citations.citation_table import (
    MARKER_BEGINNING_PATTERN,
    MARKER_PATTERN,
    CitationTable,
    MarkedResult,
)
from translation.hosted.citations.cited_text import CitedText, cite_text

RESULTS: Final = BrowserView(
    "", "rain", (ViewLink(2, "https://a.example", "A"), ViewLink(5, "https://b.example", "B", 3))
)
PAGE: Final = BrowserView("https://c.example", "C", (ViewLink(0, "https://c.example", "C", 57),))
ONE_RESULT: Final = BrowserView("", "snow", (ViewLink(2, "https://d.example", "D"),))
FUNCTION_PAGE: Final = CitablePage("https://e.example", "E")
FILE: Final = CitableFile("file-1", "f.pdf")
NO_RESULTS: Final = BrowserView("", "sun")


def build_table() -> CitationTable:
    table = CitationTable()
    for source in (RESULTS, PAGE, ONE_RESULT, FUNCTION_PAGE, FILE, NO_RESULTS):
        table.append(source)
    return table


@pytest.mark.parametrize(
    ("marker", "host"),
    [
        pytest.param("【1†L2】", "a", id="the line of a link"),
        pytest.param("【1†L3-L4】", "a", id="the lines below a link"),
        pytest.param("【1†L4-L6】", "a", id="lines of two results, the first counts"),
        pytest.param("【1†L0-L5】", "a", id="lines from above the first result"),
        pytest.param("【1†L5】", "b", id="the second result"),
        pytest.param("【1†L900-L999】", "b", id="lines that there are none of belong to the last"),
        pytest.param("【1†L5-9】", "b", id="a range without its second letter"),
        pytest.param("【1†L0】", None, id="a line of no result"),
        pytest.param("【1†L0-L1】", None, id="lines of no result"),
        pytest.param("【1】", None, id="several results and no line"),
        pytest.param("【2†L4-L8】", "c", id="a page"),
        pytest.param("【2】", "c", id="a page without lines"),
        pytest.param("【3】", "d", id="the only result"),
        pytest.param("【4†L1】", "e", id="lines of a result that has none"),
        pytest.param("【6†L1】", None, id="no results"),
        pytest.param("【7†L1】", None, id="an unknown number"),
        pytest.param("【1†source】", None, id="what is no line"),
        pytest.param("【1†L】", None, id="no number of a line"),
        pytest.param("【1†L1234567】", None, id="a number that is too long"),
    ],
)
def test_a_marker_cites_what_was_shown_at_its_lines(marker: str, host: str | None) -> None:
    sent, annotations = cite_text(build_table(), f"x{marker}.")
    if host is None:
        assert (sent, annotations) == (f"x{marker}.", [])
    else:
        url = f"https://{host}.example"
        assert sent == f"x([{host}.example]({url}))."
        assert [(each["url"], each["title"]) for each in annotations] == [(url, host.upper())]


def test_a_file_is_cited_with_lines_too() -> None:
    assert cite_text(build_table(), "x【5†L1-L2】") == ("x", [FILE.build_annotation(1, 1)])


@pytest.mark.parametrize("text", ["【12345†L123456-L123456】", "【1†L2】", "【1†L2-3】", "【1】"])
def test_every_beginning_of_a_marker_is_held_back(text: str) -> None:
    assert MARKER_PATTERN.fullmatch(text)
    for length in range(1, len(text)):
        assert MARKER_BEGINNING_PATTERN.fullmatch(text[:length]), text[:length]
    assert len(text) - 1 <= 22


def test_what_turns_out_to_be_no_marker_is_sent_at_once() -> None:
    cited = CitedText(build_table())
    assert cited.feed("a【1†L2") == ["a"]
    assert cited.feed(",") == ["【1†L2,"]
    assert cited.feed("【2†L") == []
    assert cited.finish() == ["【2†L"]


def test_links_to_all_results_are_cited() -> None:
    sent, annotations = cite_text(build_table(), "[b](https://b.example) [c](https://c.example)")
    assert sent == "[b](https://b.example) [c](https://c.example)"
    assert [each["title"] for each in annotations] == ["B", "C"]


def test_what_is_shown_again_has_a_new_number_and_is_the_latest() -> None:
    table = CitationTable()
    assert table.find_latest((BrowserView,)) is None
    assert [table.append(PAGE), table.append(RESULTS), table.append(PAGE)] == [1, 2, 3]
    assert table.find_latest((BrowserView,)) == PAGE
    assert table.add(FILE) == 4
    assert table.find_latest((BrowserView,)) == PAGE
    assert table.add(PAGE) == 1


def test_a_view_of_the_history_keeps_its_cursor_unless_it_is_taken() -> None:
    table = CitationTable()
    view = MarkedResult("[1] rain\nL2:   * 【0†A†a.example】 [1] x", {1: RESULTS})
    assert table.adopt(view) is view
    other = table.adopt(MarkedResult("[1] C (https://c.example)\n[1] 【0†C†c.example】", {1: PAGE}))
    assert other == MarkedResult("[2] C (https://c.example)\n[1] 【0†C†c.example】", {2: PAGE})
    plain = table.adopt(MarkedResult("[1] is a text 【1】", {1: FUNCTION_PAGE}))
    assert plain == MarkedResult("[1] is a text 【3】", {3: FUNCTION_PAGE}), "only a view begins with its cursor"


@pytest.mark.parametrize("source", [RESULTS, PAGE, NO_RESULTS, FUNCTION_PAGE, FILE])
def test_a_source_can_be_read_back(source: Any) -> None:
    assert read_source(source.to_json()) == source


@pytest.mark.parametrize(
    ("saved", "source"),
    [
        ({"type": "view", "url": "u", "title": "t", "links": {}}, None),
        ({"type": "view", "url": 1, "title": "t", "links": []}, None),
        ({"type": "view", "url": "u", "title": None, "links": []}, None),
        ({"type": "odd"}, None),
        ("view", None),
        (
            {"type": "view", "url": "u", "title": "t", "links": ["x", {"line": True, "url": "u"}, {"line": 1}]},
            None,
        ),
        (
            {"type": "view", "url": "", "title": "t", "links": [{"line": 1, "url": "v", "title": "w", "target": 2}, 1]},
            None,
        ),
        (
            {"type": "view", "url": "u", "title": "t", "links": [{"line": 1, "url": "v", "title": "w", "target": 2}]},
            BrowserView("u", "t", (ViewLink(1, "v", "w", 2),)),
        ),
    ],
)
def test_what_a_client_wrote_in_its_place_is_checked(saved: Any, source: Any) -> None:
    assert read_source(saved) == source


def test_a_view_has_a_bounded_number_of_links() -> None:
    links = [{"line": 1, "url": "v", "title": "w", "target": 2}] * 1000
    read = read_source({"type": "view", "url": "u", "title": "t", "links": links})
    assert isinstance(read, BrowserView)
    assert len(read.links) == 100
