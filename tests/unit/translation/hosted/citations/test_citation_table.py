"""The numbers of what a model may cite: they run on, and one of them never means two things."""

from typing import Any, Final

import pytest

from translation.hosted.citations.citables import BrowserView, CitableFile, CitablePage, read_source
from translation.hosted.citations.citation_table import (
    CitationTable,
    MarkedResult,
    build_result_details,
    is_own_detail,
    keep_markers,
    read_result_details,
    remove_markers,
)
from translation.representation.json_types import Json

ONE: Final = CitablePage("https://one.example", "One")
TWO: Final = CitableFile("file-2", "two.pdf")
THREE: Final = CitablePage("https://three.example", "Three")


def test_numbers_run_on_and_what_is_found_again_keeps_its_number() -> None:
    table = CitationTable()
    assert not table
    assert [table.add(each) for each in (ONE, TWO, ONE, THREE)] == [1, 2, 1, 3]
    assert table
    assert (table.find(2), table.find(4), table.find_by_url("https://three.example")) == (TWO, None, THREE)


def test_a_result_of_the_history_keeps_its_numbers_unless_they_are_taken() -> None:
    table = CitationTable()
    first = MarkedResult("【4】 One 【2】 Two", {4: ONE, 2: TWO})
    assert table.adopt(first) is first
    assert table.adopt(first) is first
    assert table.add(THREE) == 5
    again = table.adopt(MarkedResult("【4】 Three 【2】 Two 【9】 unknown", {4: THREE, 2: TWO}))
    assert again == MarkedResult("【5】 Three 【2】 Two [9] unknown", {5: THREE, 2: TWO})


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("evil 【1】", "evil [1]"),
        ("evil 【1†L2-L3】 【2】", "evil [1†L2-L3] 【2】"),
        ("【注意】 【2†L1】", "【注意】 【2†L1】"),
        ("plain [1]", "plain [1]"),
    ],
)
def test_a_result_has_no_markers_of_other_results(text: str, read: str) -> None:
    table = CitationTable()
    table.adopt(MarkedResult("【1】 One", {1: ONE}))
    assert keep_markers(text, {2}) == read
    assert table.adopt(MarkedResult(text, {2: TWO})).text == read
    assert table.find(1) == ONE


def test_what_the_model_read_is_kept_as_details() -> None:
    details = build_result_details("【1】 One", {1: ONE, 2: TWO})
    assert read_result_details(details) == MarkedResult("【1】 One", {1: ONE, 2: TWO})
    assert is_own_detail(details[0])
    assert len(build_result_details("x" * 100_000, {})[0]["text"]) == 16_000


@pytest.mark.parametrize(
    "details",
    [
        None,
        "text",
        [{"type": "thinking"}, 1],
        [{"type": "gateway.result"}],
        [{"type": "gateway.result", "text": 1, "citables": []}],
        [{"type": "gateway.result", "text": "x", "citables": {}}],
    ],
)
def test_details_of_others_are_no_result(details: Any) -> None:
    assert read_result_details(details) is None


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"type": "page", "url": "u", "title": "t"},
        {"type": "page", "url": "u", "title": "t", "number": 0},
        {"type": "page", "url": "u", "title": "t", "number": True},
        {"type": "page", "url": "u", "title": None, "number": 1},
        {"type": "odd", "url": "u", "title": "t", "number": 1},
    ],
)
def test_an_entry_that_is_malformed_is_left_out(entry: Any) -> None:
    details = [{"type": "gateway.result", "text": "x", "citables": [entry, {"number": 3, **ONE.to_json()}]}]
    assert read_result_details(details) == MarkedResult("x", {3: ONE})


def test_a_document_cannot_forge_a_marker() -> None:
    assert remove_markers("【1】 plain") == "[1] plain"
    assert remove_markers("plain") == "plain"
    assert read_source({"type": "file", "file_id": 1, "filename": "x"}) is None


def test_a_long_url_is_not_cited_and_a_long_title_is_cut() -> None:
    """A client may have written them, and each marker would repeat them."""
    page: Json = {"type": "page", "number": 1, "url": "u" * 4_000, "title": "t" * 5_000}
    view: Json = {"type": "view", "number": 2, "url": "", "title": "t", "links": []}
    link: Json = {"line": 1, "target": 0, "url": "u" * 4_001, "title": "t"}
    file: Json = {"type": "file", "number": 3, "file_id": "f", "filename": "n" * 5_000}
    # A link that is left out would give its place, by which models name it, to the next one.
    entries = [{**view, "number": 7}, page, {**page, "number": 4, "url": "u" * 4_001}, {**view, "links": [link]}, file]
    entries += [{**view, "number": 5, "url": "u" * 4_001}, {**file, "number": 6, "file_id": "f" * 4_001}]
    result = read_result_details([{"type": "gateway.result", "text": "x", "citables": entries}])
    assert result is not None
    assert result.citables == {
        1: CitablePage("u" * 4_000, "t" * 4_000),
        3: CitableFile("f", "n" * 4_000),
        7: BrowserView("", "t"),
    }
