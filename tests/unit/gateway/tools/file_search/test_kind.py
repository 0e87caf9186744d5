"""gateway/tools/file_search/kind.py: what of a tool is not read."""

from typing import Any
from unittest.mock import Mock

import pytest

from gateway.tools.file_search.kind import FileSearchTools
from translation.representation.loss import Loss

PLACE = "tools[1].ranking_options.hybrid_search"


@pytest.mark.parametrize(
    ("hybrid", "with_vectors", "without"),
    [
        ({"embedding_weight": 1, "text_weight": 1}, [], [(PLACE, "ignored")]),
        ({"embedding_weight": 1, "text_weight": 1, "rrf_k": 60}, [(f"{PLACE}.rrf_k", "dropped")], [(PLACE, "ignored")]),
        (None, [], []),
    ],
)
def test_keys_of_hybrid_search_that_are_not_read_are_losses(hybrid: Any, with_vectors: Any, without: Any) -> None:
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": "f"},
        {"type": "file_search", "vector_store_ids": ["vs_1"], "ranking_options": {"hybrid_search": hybrid}},
    ]
    for embedder, losses in ((Mock(), with_vectors), (None, without)):
        assert [*FileSearchTools(Mock(), embedder).find_losses(tools)] == [Loss(*loss) for loss in losses]
