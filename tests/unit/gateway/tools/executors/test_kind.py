"""Keys of hosted tools that nobody reads are losses, whatever their values are."""

from typing import Any, Final
from unittest.mock import Mock

import pytest

from gateway.config.tool_settings import ToolSearchSettings, WebSearchSettings
from gateway.retrieval.parsing.parsed_text import ParsingBounds
from gateway.tools.executors.kind import ToolKind
from gateway.tools.file_search.kind import FileSearchTools
from gateway.tools.tool_search.kind import ToolSearchTools
from gateway.tools.web_search.kind import WebSearchTools
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

WEB: Final = WebSearchTools(WebSearchSettings(engine="searxng", url="http://127.0.0.1:1"), Mock(), ParsingBounds())
FILES: Final = FileSearchTools(Mock(), Mock())
KINDS: Final[dict[str, tuple[ToolKind, Json, str]]] = {
    "web search": (WEB, {"type": "web_search"}, ""),
    "a place": (WEB, {"type": "web_search"}, "user_location"),
    "file search": (FILES, {"type": "file_search", "vector_store_ids": ["vs_1"]}, ""),
    "tool search": (ToolSearchTools(ToolSearchSettings()), {"type": "tool_search"}, ""),
}
VALUES: Final[dict[str, tuple[Any, bool]]] = {
    "null": (None, False),
    "false": (False, True),
    "zero": (0, True),
    "an empty text": ("", True),
    "an empty list": ([], True),
    "an empty object": ({}, True),
    "true": (True, True),
    "a text": ("x", True),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_null_means_what_an_absent_key_means(kind: str, value: str) -> None:
    runner, tool, holder = KINDS[kind]
    written, is_lost = VALUES[value]
    key = {"nobody_reads_this": written}
    losses = [*runner.find_losses([{**tool, **({holder: key} if holder else key)}])]
    path = f"tools[0].{holder}." if holder else "tools[0]."
    assert [str(loss.param) for loss in losses] == ([f"{path}nobody_reads_this"] if is_lost else [])


WRONG: Final[dict[str, list[Any]]] = {
    "vector_store_ids": [None, 0, "", "vs_1", [], {}, [0], [None], True],
    "max_num_results": [0, -1, 1.0, "5", [], {}, True, False, 51],
    "ranking_options": [0, "", [], True, False, "auto"],
    "ranking_options.ranker": [0, "", [], {}, True, False],
    "ranking_options.score_threshold": ["0", [], {}, True, False, -1],
    "filters": [0, "", [], {}, True, False],
}
"""Keys of a file search, and values that each of them may not have."""


@pytest.mark.parametrize("path", WRONG)
def test_a_file_search_with_a_wrong_type_is_refused_by_the_key(path: str) -> None:
    key, _, inner = path.partition(".")
    for value in WRONG[path]:
        tool = {"type": "file_search", "vector_store_ids": ["vs_1"], key: {inner: value} if inner else value}
        with pytest.raises(InvalidRequest) as refused:
            FILES.open_executors([tool], Mock())
        assert str(refused.value.param).startswith(f"tools[0].{path}"), value
