"""Translates embeddings requests of Gemini's API to OpenAI's API."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.embeddings import (
    build_embedded_batch,
    build_embedded_content,
    lift_batch_embed_contents,
    lift_embed_content,
)
from translation.gemini.schema.embedded import BATCH_EMBED_SCHEMA, EMBED_CONTENT_SCHEMA
from translation.representation.json_types import Json
from translation.representation.loss import Loss

HI: Json = {"parts": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (HI, "Hi"),
        ("Hi", "Hi"),
        ({"role": "user", "parts": {"text": "Hi"}}, "Hi"),
        ({"parts": [{"text": "H"}, {"text": ""}, {"text": "i"}]}, "Hi"),
    ],
)
def test_a_content_is_one_text(content: Any, text: str) -> None:
    losses: list[Loss] = []
    lifted = lift_embed_content({"model": "models/m", "content": content}, "m", losses)
    assert (lifted, losses) == ({"model": "m", "input": [text], "encoding_format": "float"}, [])


@pytest.mark.parametrize(
    "settings",
    [
        {"outputDimensionality": 3, "taskType": "RETRIEVAL_DOCUMENT", "title": "T", "autoTruncate": True, "x": 1},
        {"output_dimensionality": 3, "task_type": "RETRIEVAL_DOCUMENT", "title": "T", "auto_truncate": True, "x": 1},
        {
            "outputDimensionality": 5,
            "embedContentConfig": {
                "outputDimensionality": 3,
                "taskType": "A",
                "title": "T",
                "autoTruncate": True,
                "x": 1,
            },
        },
    ],
)
def test_the_size_is_sent_and_other_parameters_are_losses(settings: Json) -> None:
    losses: list[Loss] = []
    assert lift_embed_content({"content": HI, **settings}, "m", losses)["dimensions"] == 3
    assert [str(loss) for loss in losses] == ["x=dropped", "taskType=dropped", "title=dropped", "autoTruncate=dropped"]
    batch: list[Loss] = []
    request = {"model": "models/m", "content": HI, **settings}
    assert lift_batch_embed_contents({"requests": [request] * 2, "y": 1}, "m", batch)["input"] == ["Hi", "Hi"]
    assert batch == [Loss("y", "dropped"), *losses]


def test_unknown_keys_of_a_part_are_lost_by_name() -> None:
    losses: list[Loss] = []
    lift_embed_content({"content": {"parts": [{"text": "a", "partMetadata": {"b": 1}}]}}, "m", losses)
    assert losses == [Loss("content.parts[0].partMetadata", "dropped")]


def test_parameters_without_an_effect_are_no_losses() -> None:
    losses: list[Loss] = []
    lift_embed_content({"content": HI, "autoTruncate": None, "title": "", "taskType": None}, "m", losses)
    assert losses == []


@pytest.mark.parametrize("body", [{"autoTruncate": False}, {"embedContentConfig": {"autoTruncate": False}}])
def test_that_no_text_may_be_shortened_is_a_loss_because_the_upstream_may(body: Json) -> None:
    losses: list[Loss] = []
    lift_embed_content({"content": HI, **body}, "m", losses)
    assert losses == [Loss("autoTruncate", "not enforced")]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": [{}]}, "requests[0].content"),
        ({"requests": [{"content": HI}, {"content": {"parts": []}}]}, "requests[1].content"),
        ({"requests": [{"content": HI, "model": "models/other"}]}, "requests[0].model"),
        ({"requests": [{"content": HI}], "model": "other"}, "model"),
        ({"requests": [{"content": HI, "outputDimensionality": 0}]}, "requests[0].outputDimensionality"),
        (
            {"requests": [{"content": HI, "outputDimensionality": 2}, {"content": HI}]},
            "requests[1].outputDimensionality",
        ),
    ],
)
def test_unsupported_embedding_input_is_refused_by_name(body: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        lift_batch_embed_contents(body, "models/m", [])
    assert caught.value.param == param


@pytest.mark.parametrize("part", [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}, {}])
def test_only_texts_are_embedded(part: Json) -> None:
    with pytest.raises(Unrepresentable) as caught:
        lift_embed_content({"content": {"parts": [{"text": "a"}, part]}}, "m", [])
    assert caught.value.param == "content.parts[1]"


def test_replies_have_the_vectors_and_the_count_if_there_is_one() -> None:
    assert build_embedded_content([1.0], None) == {"embedding": {"values": [1.0]}}
    usage = {"usageMetadata": {"promptTokenCount": 4}}
    assert build_embedded_batch([[1.0], [2.0]], 4) == {"embeddings": [{"values": [1.0]}, {"values": [2.0]}], **usage}


def test_the_schemas_have_names() -> None:
    assert (EMBED_CONTENT_SCHEMA()["$id"], BATCH_EMBED_SCHEMA()["$id"]) == ("embed-content", "batch-embed-contents")


class UnsearchedList(list[Loss]):
    """A list that fails the test if it is searched, which takes longer with each loss."""

    def __contains__(self, _: object) -> bool:
        raise AssertionError("searched from its beginning")


def test_the_losses_of_many_requests_are_not_searched_for_each_of_them() -> None:
    losses = UnsearchedList()
    requests = [{"content": HI, f"field_{number}": 1, "shared": 1} for number in range(3)]
    lift_batch_embed_contents({"requests": requests}, "m", losses)
    assert [loss.param for loss in losses] == ["field_0", "shared", "field_1", "field_2"]
