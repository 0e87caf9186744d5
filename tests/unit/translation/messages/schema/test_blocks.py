"""Blocks within blocks are checked as those of messages are."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.messages.client.lift import lift
from translation.messages.schema.request import validate
from translation.representation.json_types import Json

SOURCE = "messages[0].content[0].source.content[0]"
UNTYPED_PNG: Json = {"type": "base64", "data": "AAAA"}


def request(content: Any) -> Json:
    document = {"type": "document", "source": {"type": "content", "content": [content]}}
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}


MALFORMED: dict[str, tuple[Any, str]] = {
    "a text without a type": ({"text": "x"}, SOURCE),
    "a text without its text": ({"type": "text"}, f"{SOURCE}.text"),
    "a text that is a number": ({"type": "text", "text": 5}, f"{SOURCE}.text"),
    "an image without a source": ({"type": "image"}, f"{SOURCE}.source"),
    "an image without a media type": ({"type": "image", "source": UNTYPED_PNG}, f"{SOURCE}.source.media_type"),
    "a string": ("x", SOURCE),
    "null": (None, SOURCE),
}


@pytest.mark.parametrize(("content", "param"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_block_of_a_document_is_refused_by_name(content: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        validate(request(content))
    assert refused.value.param is not None
    assert refused.value.param.startswith(param)


@pytest.mark.parametrize("kind", ["document", "search_result", "tool_reference", "hologram"])
def test_documents_are_made_of_texts_and_images(kind: str) -> None:
    body = request({"type": kind, "source": "x"})
    validate(body)  # an upstream with this API may know it
    with pytest.raises(Unrepresentable, match=kind) as refused:
        lift(body)
    assert refused.value.param == SOURCE
