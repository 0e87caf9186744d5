"""Results of tools of MCP servers are read whatever the server writes, in bounded steps."""

from math import inf, nan
from typing import Any, Final

import orjson
import pytest
from mcp_types import CallToolResult, TextContent

from gateway.config.mapped_tools.settings import MappedResultSettings
from gateway.tools.mapped_tools.found_entries import (
    EntryLimits,
    FoundEntry,
    MappedToolFailed,
    parse_result,
    read_entries,
)
from providers.redaction import Redactor
from translation.hosted.bounds import AnswerLimits

LIMITS: Final = AnswerLimits(max_values=100, max_depth=8)
PATHS: Final = MappedResultSettings(file_id="id", filename="name", text="text", score="score")


def read(*entries: Any, paths: MappedResultSettings = PATHS) -> list[FoundEntry]:
    result = CallToolResult.model_construct(content=[], structured_content=[*entries], is_error=False)
    return read_entries(result, paths, EntryLimits(20, lambda _: True), LIMITS, Redactor(()))


def hit(**fields: Any) -> dict[str, Any]:
    return {"id": "doc-1", "name": "a.txt", "text": "A cat.", "score": 0.5, **fields}


SCORES: Final[list[tuple[Any, float]]] = [
    (0, 0.0),
    (-0.0, 0.0),
    (0.25, 0.25),
    (1, 1.0),
    (17.5, 1.0),
    (-3, 0.0),
    (10**400, 1.0),
    (-(10**400), 0.0),
    (1e308, 1.0),
]


@pytest.mark.parametrize(("written", "score"), SCORES, ids=[str(written)[:10] for written, _ in SCORES])
def test_a_number_of_any_size_is_a_score_between_0_and_1(written: Any, score: float) -> None:
    (entry,) = read(hit(score=written))
    assert isinstance(entry.score, float)
    assert str(entry.score) == str(score), "a score of -0.0 is written as 0.0"


@pytest.mark.parametrize("written", [nan, inf, -inf, True, "0.5", [1], {}])
def test_what_is_no_number_is_no_score(written: Any) -> None:
    entries = read(hit(score=written), hit(id="doc-2"))
    assert [entry.score for entry in entries] == [None, 0.5]


NAMES: Final[list[tuple[Any, str]]] = [
    ("a.txt", "a.txt"),
    ("  b \r\n c.txt ", "b c.txt"),
    ("gpj\u202efdp.exe", "gpjfdp.exe"),
    ("a\x00b\x07.txt", "ab.txt"),
    ("日本 é.txt", "日本 é.txt"),
    (" \n", ""),
    ("\u202e", ""),
    ("", ""),
]


@pytest.mark.parametrize(("written", "name"), NAMES)
def test_a_name_is_one_line_that_is_shown_as_it_is(written: Any, name: str) -> None:
    entries = read(hit(name=written), hit())
    assert entries[0].filename == name


@pytest.mark.parametrize("written", ["", "  ", None, True, "x" * 300, 10**400])
def test_an_id_that_identifies_nothing_is_none(written: Any) -> None:
    assert [entry.file_id for entry in read(hit(id=written), hit()) if entry.file_id] == ["doc-1"]


@pytest.mark.parametrize("texts", [["[" + "1," * 120 + "1]"], ["[" + "1," * 40 + "1]"] * 3, ["{}"] * 101])
def test_the_values_of_all_texts_count_together(texts: list[str]) -> None:
    result = CallToolResult(content=[TextContent(type="text", text=text) for text in texts])
    with pytest.raises(MappedToolFailed, match="too many values"):
        parse_result(result, LIMITS)


def test_several_texts_within_the_bounds_are_a_list() -> None:
    texts = [orjson.dumps(hit(id=name)).decode() for name in "ab"]
    result = CallToolResult(content=[TextContent(type="text", text=text) for text in texts])
    assert [each["id"] for each in parse_result(result, LIMITS)] == ["a", "b"]
