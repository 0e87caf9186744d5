"""Translates embeddings requests of Ollama's APIs to OpenAI's API."""

import pytest

from translation.errors import InvalidRequest
from translation.ollama.client.embeddings import (
    EMBED_SCHEMA,
    PLAIN_EMBED_SCHEMA,
    lift_embed,
    lift_plain_embed,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss


@pytest.mark.parametrize(
    ("params", "texts"), [({"input": "a"}, ["a"]), ({"input": ["a", "b"]}, ["a", "b"]), ({"input": ""}, []), ({}, [])]
)
def test_texts_are_a_list(params: Json, texts: list[str]) -> None:
    losses: list[Loss] = []
    assert lift_embed({"model": "m", **params}, losses) == {"model": "m", "input": texts, "encoding_format": "float"}
    assert losses == []


def test_unsupported_embedding_options_are_losses() -> None:
    losses: list[Loss] = []
    body: Json = {"model": "m", "input": "a", "truncate": True, "dimensions": 3, "options": {"num_ctx": 5}}
    assert lift_embed({**body, "keep_alive": "5m"}, losses)["dimensions"] == 3
    assert losses == [Loss("options.num_ctx", "dropped"), Loss("truncate", "dropped")]


@pytest.mark.parametrize(
    ("choice", "losses"),
    [(True, [Loss("truncate", "dropped")]), (False, [Loss("truncate", "not enforced")]), (None, [])],
)
def test_every_choice_about_texts_that_are_too_long_is_a_loss(choice: bool | None, losses: list[Loss]) -> None:
    found: list[Loss] = []
    lift_embed({"model": "m", "input": "a", "truncate": choice}, found)
    assert found == losses


def test_the_older_api_embeds_one_text() -> None:
    losses: list[Loss] = []
    assert lift_plain_embed({"model": "m", "prompt": "a"}, losses)["input"] == ["a"]
    assert lift_plain_embed({"model": "m"}, losses)["input"] == []
    with pytest.raises(InvalidRequest) as caught:
        lift_plain_embed({"model": "m", "prompt": 5}, losses)
    assert caught.value.param == "prompt"
    assert (EMBED_SCHEMA()["$id"], PLAIN_EMBED_SCHEMA()["$id"]) == ("ollama-embed", "ollama-embeddings")
