"""Replies of `/v1/embeddings` have a vector for each text, or are refused."""

from typing import Any

import pytest

from gateway.service.embeddings import count_input
from gateway.vector_stores.embedder import read_vectors
from translation.errors import ProtocolViolation


def test_vectors_are_in_the_order_of_their_texts() -> None:
    reply = {
        "data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}],
        "usage": {"prompt_tokens": 4},
    }
    assert (read_vectors(reply, 2), count_input(reply)) == ([[1.0], [2.0]], 4)
    assert read_vectors({"data": [{"embedding": [1.0]}]}, 1) == [[1.0]]
    odd = [{"index": ["x"], "embedding": [1.0]}, {"index": None, "embedding": [2]}]
    assert read_vectors({"data": odd}, 2) == [[1.0], [2]]
    assert count_input({"data": []}) is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        [{"embedding": "base64"}],
        [{"index": 5, "embedding": [1.0]}],
        ["x"],
        [{"embedding": [1.0]}] * 2,
        [{"embedding": []}],
        [{"embedding": [1.0, None]}],
        [{"embedding": [1.0, "2.0"]}],
        [{"embedding": [[1.0]]}],
        [{"embedding": [10**400]}],
    ],
)
def test_a_reply_without_a_vector_for_each_text_is_the_upstreams_fault(data: Any) -> None:
    with pytest.raises(ProtocolViolation):
        read_vectors({"data": data}, 1)
