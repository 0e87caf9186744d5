"""Markers and links in an answer become citations with exact positions, however the answer is cut into pieces."""

from time import thread_time
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translation.hosted.citations.citables import CitableFile, CitablePage
from translation.hosted.citations.citation_table import CitationTable, write_marker
from translation.hosted.citations.cited_text import CitedText, cite_text

PAGE: Final = CitablePage("https://www.weather.example/rain", "Rain")
ODD_PAGE: Final = CitablePage("https://w.example/Rain_(film)", "Rain (film)")
FILE: Final = CitableFile("file-1", "rain.pdf")


def table() -> CitationTable:
    known = CitationTable()
    for citable in (PAGE, FILE, ODD_PAGE):
        known.add(citable)
    return known


def spans(text: str) -> tuple[str, list[str]]:
    """Returns the sent text, and what its annotations cover. A file has only a place: `|` and its index."""
    sent, annotations = cite_text(table(), text)
    return sent, [
        f"|{each['index']}" if each["type"] == "file_citation" else sent[each["start_index"] : each["end_index"]]
        for each in annotations
    ]


LINK: Final = "([weather.example](https://www.weather.example/rain))"


@pytest.mark.parametrize(
    ("text", "sent", "covered"),
    [
        pytest.param("It rains 【1】.", f"It rains {LINK}.", [LINK], id="a page"),
        pytest.param("It rains 【2】.", "It rains .", ["|9"], id="a file leaves nothing but its place"),
        pytest.param("【2】【2】", "", ["|0", "|0"], id="one annotation per marker"),
        pytest.param("雨が降る🌧️【1】。", f"雨が降る🌧️{LINK}。", [LINK], id="code points of CJK and emoji"),
        pytest.param("【1】【1】", LINK + LINK, [LINK, LINK], id="two markers side by side"),
        pytest.param(
            "【注意】 【9】 【】 【123456】", "【注意】 【9】 【】 【123456】", [], id="what is no marker is text"
        ),
        pytest.param("Look 【1", "Look 【1", [], id="a marker that the end cuts"),
        pytest.param("【【1】】", f"【{LINK}】", [LINK], id="a marker in brackets"),
        pytest.param(
            "See [it](https://www.weather.example/rain) there.",
            "See [it](https://www.weather.example/rain) there.",
            ["[it](https://www.weather.example/rain)"],
            id="a link",
        ),
        pytest.param(
            "See ([it](https://www.weather.example/rain)).",
            "See ([it](https://www.weather.example/rain)).",
            ["([it](https://www.weather.example/rain))"],
            id="a link in parentheses that enclose it",
        ),
        pytest.param(
            "(see [it](https://www.weather.example/rain))",
            "(see [it](https://www.weather.example/rain))",
            ["[it](https://www.weather.example/rain)"],
            id="parentheses that enclose more",
        ),
        pytest.param(
            "[[1]](https://w.example/Rain_(film)) and [x](https://w.example/Rain_%28film%29)",
            "[[1]](https://w.example/Rain_(film)) and [x](https://w.example/Rain_%28film%29)",
            ["[[1]](https://w.example/Rain_(film))", "[x](https://w.example/Rain_%28film%29)"],
            id="brackets in the label, parentheses in the URL",
        ),
        pytest.param(
            '[a](https://www.weather.example/rain "Rain")',
            '[a](https://www.weather.example/rain "Rain")',
            ['[a](https://www.weather.example/rain "Rain")'],
            id="a link with a title",
        ),
        pytest.param(
            "[a](https://evil.example/) ](x) [\n](y)", "[a](https://evil.example/) ](x) [\n](y)", [], id="other"
        ),
        pytest.param(
            "[a](b [c](https://www.weather.example/rain)【1】",
            f"[a](b [c](https://www.weather.example/rain){LINK}",
            ["[c](https://www.weather.example/rain)", LINK],
            id="a link that did not end before another, and a marker right behind a link",
        ),
        pytest.param(
            "[a](\n[c](https://www.weather.example/rain)",
            "[a](\n[c](https://www.weather.example/rain)",
            ["[c](https://www.weather.example/rain)"],
            id="a link that a line break ended",
        ),
        pytest.param(
            "x" * 3000 + "[a](" + "y" * 5000 + ") [c](https://www.weather.example/rain)",
            "x" * 3000 + "[a](" + "y" * 5000 + ") [c](https://www.weather.example/rain)",
            ["[c](https://www.weather.example/rain)"],
            id="a link that is too long to be one",
        ),
        pytest.param(
            "[" + "x" * 600 + "](https://www.weather.example/rain)",
            "[" + "x" * 600 + "](https://www.weather.example/rain)",
            [],
            id="a label that is too long",
        ),
    ],
)
def test_markers_and_links_become_citations(text: str, sent: str, covered: list[str]) -> None:
    assert spans(text) == (sent, covered)
    assert _feed(text, list(range(1, len(text)))) == cite_text(table(), text), "one character at a time"


_WORDS: Final = [
    "【1】",
    "【2】",
    "【",
    "】",
    "1",
    "[",
    "]",
    "(",
    ")",
    "](",
    "a",
    "🌧",
    "\n",
    " ",
    "雨",
    *[f"[x]({page.url})" for page in (PAGE, ODD_PAGE)],
]


@given(st.lists(st.sampled_from(_WORDS), max_size=25).map("".join), st.data())
@settings(max_examples=300, deadline=None)
def test_the_citations_do_not_depend_on_how_the_text_is_cut(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    sent, annotations = _feed(text, sorted(cuts))
    assert (sent, annotations) == cite_text(table(), text)
    for annotation in annotations:
        assert annotation.get("index", 0) <= len(sent)
        assert PAGE.url in sent or ODD_PAGE.url in sent or annotation["type"] == "file_citation" or "%28" in sent


def test_an_annotation_comes_when_its_text_was_sent() -> None:
    cited = CitedText(table())
    assert cited.feed("A 【") == ["A "]
    assert cited.feed("2】 b") == [FILE.build_annotation(2, 2), " b"]
    assert cited.feed("[a](https://www.weather.example/rain)") == ["[a](https://www.weather.example/rain)"]
    assert cited.feed(".") == [".", PAGE.build_annotation(4, 41)], "a parenthesis might have followed"
    assert cited.feed("【3") == []
    assert cited.finish() == ["【3"]


def test_positions_of_the_upstreams_own_annotations_are_moved() -> None:
    own = {"type": "url_citation", "url": "https://o.example", "title": "O", "start_index": 3, "end_index": 4}
    sent, annotations = cite_text(table(), "【2】x", [own])
    assert sent == "x"
    assert annotations[0] == {**own, "start_index": 0, "end_index": 1}
    assert cite_text(table(), "abcx", [own])[1] == [own]
    assert cite_text(table(), "abcd【2】", [own])[1][0] == own, "the marker is behind it"


def test_a_page_without_a_host_is_a_link_all_the_same() -> None:
    odd = CitablePage("http://[", "?")
    assert odd.write_text() == "([link](http://%5B))"
    assert write_marker(0) == ""


def _feed(text: str, cuts: list[int]) -> tuple[str, list[Any]]:
    cited = CitedText(table())
    pieces: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if start < end:
            pieces += cited.feed(text[start:end])
    pieces += cited.finish()
    sent, annotations = "", []
    for piece in pieces:
        if isinstance(piece, str):
            sent += piece
        else:
            annotations.append(piece)
            assert max(piece.get("end_index", 0), piece.get("index", 0)) <= len(sent), "it comes after its text"
    return sent, annotations


def test_citations_add_a_bounded_text() -> None:
    """The URL may be a client's own, and a model repeats a marker as often as it is told to."""
    known = CitationTable()
    known.add(CitablePage("https://w.example/" + "a" * 3_000, "Rain"))
    text = "【1】" * 1_000
    sent, annotations = cite_text(known, text)
    assert len(sent) < 210_000
    assert 20 < len(annotations) < 50
    assert sent.endswith("【1】" * (1_000 - len(annotations))), "further markers remain"
    streamed, pieces = CitedText(known), []
    for start in range(0, len(text), 7):
        pieces += streamed.feed(text[start : start + 7])
    pieces += streamed.finish()
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == sent


def test_many_annotations_of_a_text_with_many_markers_are_moved_in_little_time() -> None:
    own = [{"type": "url_citation", "url": "u", "title": "t", "start_index": 15_000, "end_index": 15_001}] * 50_000
    started = thread_time()
    sent, annotations = cite_text(table(), "【2】" * 5_000 + "xy", own)
    assert thread_time() - started < 3.0  # to go through the markers for each would take half a minute
    assert sent[annotations[0]["start_index"] :] == "xy"


def test_the_limit_of_citations_does_not_depend_on_how_the_text_is_cut() -> None:
    known = CitationTable()
    known.add(CitablePage("http://a.b", "t" * 3_000))
    text = "[](http://a.b) " * 60 + "see 【1】 " * 20 + "end"
    sent, annotations = cite_text(known, text)
    assert 0 < text.count("【") - sent.count("【") < 20, "some markers remain"
    for step in (1, 7):
        cited, pieces = CitedText(known), []
        for start in range(0, len(text), step):
            pieces += cited.feed(text[start : start + step])
        pieces += cited.finish()
        assert "".join(piece for piece in pieces if isinstance(piece, str)) == sent
        assert [piece for piece in pieces if not isinstance(piece, str)] == annotations


def test_links_beyond_what_citations_may_add_have_no_annotations() -> None:
    known = CitationTable()
    known.add(CitablePage("http://a.b", "t" * 3_000))
    text = "[](http://a.b) " * 1_000
    sent, annotations = cite_text(known, text)
    assert sent == text
    assert 50 < len(annotations) < 80
