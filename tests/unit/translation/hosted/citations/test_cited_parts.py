"""Markers in the events of a round: in deltas, and in the final parts and items of an upstream."""

from collections.abc import Sequence
from typing import Any, Final

from translation.hosted.citations.citables import CitableFile
from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.citations.cited_parts import CitedParts
from translation.representation.events import Annotated, Delta, Event, ItemEnded, PartEnded, PartStarted, Progressed

FILE: Final = CitableFile("file-1", "a.pdf")
PART: Final[Any] = {"type": "output_text", "text": "", "annotations": []}
CITATION: Final = FILE.build_annotation(2, 2)


def feed(*events: Event, cites: bool = True) -> list[Event]:
    table = CitationTable()
    if cites:
        table.add(FILE)
    parts = CitedParts(table)
    return [sent for event in events for sent in parts.feed(event)]


def test_without_anything_to_cite_events_are_unchanged() -> None:
    events: Sequence[Event] = [PartStarted(0, 0, PART), Delta(0, 0, "a 【1】"), PartEnded(0, 0)]
    parts = CitedParts(CitationTable())
    assert [sent for event in events for sent in parts.feed(event)] == events
    assert not parts.has_text((0, 0))


def test_deltas_are_cited_and_other_texts_are_not() -> None:
    refusal: Any = {"type": "refusal", "refusal": ""}
    assert feed(
        PartStarted(0, 0, PART),
        Delta(0, 0, "a 【"),
        Delta(0, 0, "1】 b"),
        PartEnded(0, 0),
        PartStarted(0, 1, refusal),
        Delta(0, 1, "【1】"),
        Progressed(0, "x"),
    ) == [
        PartStarted(0, 0, PART),
        Delta(0, 0, "a "),
        Annotated(0, 0, CITATION),
        Delta(0, 0, " b"),
        PartEnded(0, 0),
        PartStarted(0, 1, refusal),
        Delta(0, 1, "【1】"),
        Progressed(0, "x"),
    ]


def test_an_upstreams_final_part_and_item_have_the_same_citations() -> None:
    whole: Any = {"type": "output_text", "text": "a 【1】 b", "annotations": []}
    cited: Any = {"type": "output_text", "text": "a  b", "annotations": [CITATION]}
    item: Any = {"type": "message", "content": [whole, {"type": "refusal", "refusal": "【1】"}, "odd"]}
    events = feed(
        PartStarted(0, 0, {**PART, "text": "a 【1】"}),
        PartEnded(0, 0, whole),
        ItemEnded(0, item),
        ItemEnded(1, {"type": "message", "content": None}),
    )
    assert events == [
        PartStarted(0, 0, PART),
        Delta(0, 0, "a "),
        Annotated(0, 0, CITATION),
        Delta(0, 0, " b"),
        PartEnded(0, 0, cited),
        ItemEnded(0, {"type": "message", "content": [cited, {"type": "refusal", "refusal": "【1】"}, "odd"]}),
        ItemEnded(1, {"type": "message", "content": None}),
    ]


def test_log_probabilities_of_held_back_text_are_sent_with_the_next_text() -> None:
    one, two, three = ({"token": str(number)} for number in range(3))
    assert feed(
        PartStarted(0, 0, PART),
        Delta(0, 0, "【1", [one]),
        Delta(0, 0, "】x", [two]),
        Delta(0, 0, "【1】", [three]),
        PartEnded(0, 0, {"type": "output_text", "text": None}),
    )[1:] == [
        Annotated(0, 0, FILE.build_annotation(0, 0)),
        Delta(0, 0, "x", [one, two]),
        Annotated(0, 0, FILE.build_annotation(1, 1)),
        Delta(0, 0, "", [three]),
        PartEnded(0, 0, {"type": "output_text", "text": None}),
    ]


def test_annotations_of_the_upstream_are_moved() -> None:
    own: Any = {"type": "file_citation", "file_id": "x", "filename": "y", "index": 4}
    events = feed(PartStarted(0, 0, PART), Delta(0, 0, "【1】x"), Annotated(0, 0, own), Annotated(1, 0, own))
    assert events[-2:] == [Annotated(0, 0, {**own, "index": 1}), Annotated(1, 0, own)]
