"""Embeddings of Ollama's APIs are those of OpenAI's."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, ProtocolViolation
from translation.ollama_endpoint.embeddings import (
    EMBED_SCHEMA,
    PLAIN_EMBED_SCHEMA,
    count_input,
    lift_embed,
    lift_plain_embed,
    read_vectors,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss


@pytest.mark.parametrize(
    ("asked", "texts"), [({"input": "a"}, ["a"]), ({"input": ["a", "b"]}, ["a", "b"]), ({"input": ""}, []), ({}, [])]
)
def test_texts_are_a_list(asked: Json, texts: list[str]) -> None:
    losses: list[Loss] = []
    assert lift_embed({"model": "m", **asked}, losses) == {"model": "m", "input": texts, "encoding_format": "float"}
    assert losses == []


def test_what_the_upstream_cannot_do_is_a_loss() -> None:
    losses: list[Loss] = []
    body: Json = {"model": "m", "input": "a", "truncate": True, "dimensions": 3, "options": {"num_ctx": 5}}
    assert lift_embed({**body, "keep_alive": "5m"}, losses)["dimensions"] == 3
    assert losses == [Loss("options.num_ctx", "dropped"), Loss("truncate", "dropped")]


def test_the_older_api_embeds_one_text() -> None:
    losses: list[Loss] = []
    assert lift_plain_embed({"model": "m", "prompt": "a"}, losses)["input"] == ["a"]
    assert lift_plain_embed({"model": "m"}, losses)["input"] == []
    with pytest.raises(InvalidRequest) as caught:
        lift_plain_embed({"model": "m", "prompt": 5}, losses)
    assert caught.value.param == "prompt"
    assert (EMBED_SCHEMA()["$id"], PLAIN_EMBED_SCHEMA()["$id"]) == ("ollama-embed", "ollama-embeddings")


def test_vectors_are_in_the_order_of_their_texts() -> None:
    reply = {
        "data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}],
        "usage": {"prompt_tokens": 4},
    }
    assert (read_vectors(reply, 2), count_input(reply)) == ([[1.0], [2.0]], 4)
    assert read_vectors({"data": [{"embedding": [1.0]}]}, 1) == [[1.0]]
    assert count_input({"data": []}) is None


@pytest.mark.parametrize(
    "data", [None, [], [{"embedding": "base64"}], [{"index": 5, "embedding": [1.0]}], ["x"], [{"embedding": [1.0]}] * 2]
)
def test_a_reply_without_a_vector_for_each_text_is_the_upstreams_fault(data: Any) -> None:
    with pytest.raises(ProtocolViolation):
        read_vectors({"data": data}, 1)
