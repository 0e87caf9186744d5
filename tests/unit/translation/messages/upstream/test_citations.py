"""The citations that a block begins with are a list."""

import pytest

from translation.errors import ProtocolViolation
from translation.messages.upstream.citations import read_citations


def test_a_block_may_begin_with_citations() -> None:
    assert read_citations({}) == read_citations({"citations": None}) == []
    assert read_citations({"citations": [{"type": "x"}]}) == [{"type": "x"}]


def test_a_text_in_place_of_citations_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="citations"):
        read_citations({"citations": "a long text"})
