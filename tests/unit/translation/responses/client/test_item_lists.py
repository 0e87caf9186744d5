"""Items in lists have the official types."""

from typing import Any

import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from translation.responses.client.item_lists import to_listed_item
from translation.responses.client.storable_items import to_storable_items

Json = dict[str, Any]

IMAGE: Json = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
SHELL = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
SAID: dict[str, Json] = {
    "a text": {"role": "user", "content": "a"},
    "an image": {"role": "user", "content": [IMAGE]},
    "an answer": {"role": "assistant", "content": "a"},
    "a call": {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    "an output": {"type": "function_call_output", "call_id": "c", "output": "a"},
    "an output with an image": {"type": "function_call_output", "call_id": "c", "output": [IMAGE]},
    "a custom call": {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "a"},
    "a custom output": {"type": "custom_tool_call_output", "call_id": "c", "output": [IMAGE]},
    "a shell call": {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    "a shell output": {"type": "shell_call_output", "call_id": "c", "output": SHELL},
    "a screenshot": {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"},
    },
    "a search for tools": {"type": "tool_search_call", "call_id": "c", "arguments": {}},
    "tools that were found": {"type": "tool_search_output", "call_id": "c", "tools": []},
    "a thought": {"type": "reasoning", "summary": []},
}


def new_id(prefix: str, /) -> str:
    return f"{prefix}_1"


@pytest.mark.parametrize("value", SAID.values(), ids=SAID)
@pytest.mark.parametrize("kind", [ResponseItem, ConversationItem], ids=["of a response", "of a conversation"])
def test_short_forms_are_listed_in_the_form_of_the_official_types(kind: Any, value: Json) -> None:
    (kept,) = to_storable_items([value], new_id)
    TypeAdapter(kind).validate_python(to_listed_item(kept))


def test_fields_of_an_item_are_preserved() -> None:
    item = {
        "id": "msg_1",
        "type": "message",
        "role": "user",
        "status": "incomplete",
        "content": [{**IMAGE, "detail": "low"}, {"type": "input_text", "text": "a"}],
    }
    assert to_listed_item(item) == item
    found = {"id": "tso_1", "type": "tool_search_output", "status": "incomplete", "execution": "server", "tools": []}
    assert to_listed_item(found) == found
