"""Files are found in a body wherever its turn would name them, without lifting it."""

import pytest

from translation.lowering.input_files import find_file_ids
from translation.messages.client.messages_history import lift_history
from translation.messages.client.parts import has_file_source
from translation.messages.schema.request import validate
from translation.representation.json_types import Json

FILE: Json = {"type": "file", "file_id": "file-1"}
IMAGE: Json = {"type": "image", "source": FILE}
DOCUMENT: Json = {"type": "document", "source": FILE}
TEXT: Json = {"type": "text", "text": "a"}


def made_of(*blocks: Json) -> Json:
    return {"type": "document", "source": {"type": "content", "content": list(blocks)}}


def result(*blocks: Json) -> list[Json]:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    output = {"type": "tool_result", "tool_use_id": "c", "content": list(blocks)}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [output]}]


def user(*blocks: Json) -> list[Json]:
    return [{"role": "user", "content": list(blocks)}]


NAMING: dict[str, list[Json]] = {
    "an image": user(TEXT, IMAGE),
    "a document": user(DOCUMENT),
    "an image in a document": user(made_of(TEXT, IMAGE)),
    "an image in a result": result(TEXT, IMAGE),
    "a document in a result": result(DOCUMENT),
    "an image in a document in a result": result(made_of(IMAGE)),
    "an image in an instruction": [*user(TEXT), {"role": "system", "content": [IMAGE]}],
}
OTHERS: dict[str, list[Json]] = {
    "a text": user(TEXT),
    "a string": [{"role": "user", "content": "a"}, {"role": "system"}],
    "an image by its URL": user({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}),
    "a document of a string": user({"type": "document", "source": {"type": "content", "content": "a"}}),
    "a document of text": user(made_of(TEXT)),
    "a result without content": result(),
    "a document in a document": user(made_of({"type": "document", "source": "file"})),
    "a message of an unknown role": [*user(TEXT), {"role": "robot", "content": [5]}],
}


def find_ids(messages: list[Json]) -> dict[str, str]:
    return find_file_ids(lift_history(messages, []))


@pytest.mark.parametrize("messages", NAMING.values(), ids=NAMING)
def test_a_file_is_found_wherever_its_turn_names_it(messages: list[Json]) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    validate(body)
    assert find_ids(messages)
    assert has_file_source(body)


@pytest.mark.parametrize("messages", OTHERS.values(), ids=OTHERS)
def test_other_content_names_no_file(messages: list[Json]) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    validate(body)
    assert not has_file_source(body)
