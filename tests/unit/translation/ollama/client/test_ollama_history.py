"""Lifts messages of Ollama's chat API to items."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.ollama.client.ollama_history import lift_conversation
from translation.ollama.client.schema import validate_chat
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

PIXEL = "iVBORw0KGgo="


def items_of(*messages: Json) -> list[Item]:
    losses: list[Loss] = []
    items = lift_conversation(messages, losses)
    assert losses == []
    return items


def call(name: str, call_id: str | None = None, **arguments: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"function": function} if call_id is None else {"id": call_id, "function": function}


def test_every_role_is_an_item() -> None:
    items = items_of(
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "thinking": "Hm."},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "thinking": "Only this."},
    )
    assert [item.get("role") or item["type"] for item in items] == [
        "system", "user", "reasoning", "assistant", "assistant", "reasoning",
    ]  # fmt: skip
    assert items[2]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert [part["text"] for item in items[3:5] for part in item["content"]] == ["Hello", ""]


def test_results_answer_calls_by_id_by_name_or_in_order() -> None:
    items = items_of(
        {"role": "assistant", "tool_calls": [call("f", "a", x=1), call("g"), call("g"), call("h")]},
        {"role": "tool", "content": "2", "tool_name": "g"},
        {"role": "tool", "content": "1", "tool_call_id": "a"},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4", "images": [PIXEL], "tool_name": "h"},
    )
    calls, outputs = items[:4], items[4:]
    assert [entry["call_id"] for entry in calls] == ["a", "call_2", "call_3", "call_4"]
    assert (calls[0]["arguments"], calls[1]["arguments"]) == ('{"x":1}', "{}")
    assert [entry["call_id"] for entry in outputs] == ["call_2", "a", "call_3", "call_4"]
    assert [entry["output"] for entry in outputs[:3]] == ["2", "1", "3"]
    assert [part["type"] for part in outputs[3]["output"]] == ["input_text", "input_image"]


def test_results_of_older_clients_answer_calls_by_the_name_of_the_message() -> None:
    items = items_of(
        {"role": "assistant", "tool_calls": [call("f"), call("g"), call("h")]},
        {"role": "tool", "content": "of g", "name": "g"},
        {"role": "tool", "content": "of f", "name": "f"},
        {"role": "tool", "content": "of h", "name": "unknown"},
    )
    outputs = [(item["call_id"], item["output"]) for item in items[3:]]
    assert outputs == [("call_2", "of g"), ("call_1", "of f"), ("call_3", "of h")]


def test_the_case_of_a_role_does_not_matter() -> None:
    messages: list[Json] = [
        {"role": "System", "content": "a"},
        {"role": "USER", "content": "b"},
        {"role": "Assistant", "tool_calls": [call("f")]},
        {"role": "Tool", "content": "c"},
    ]
    validate_chat({"model": "m", "messages": messages})
    kinds = [item.get("role") or item["type"] for item in items_of(*messages)]
    assert kinds == ["system", "user", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("result", "key"),
    [({}, "role"), ({"tool_name": "g"}, "tool_name"), ({"tool_call_id": "b"}, "tool_call_id")],
)
def test_a_result_without_a_call_is_refused(result: Json, key: str) -> None:
    calls = [] if key == "role" else [call("f", "a")]
    with pytest.raises(InvalidRequest, match=r"messages\[1\]") as caught:
        items_of({"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "x", **result})
    assert caught.value.param == f"messages[1].{key}"


def test_keys_without_a_meaning_for_the_role_are_losses() -> None:
    losses: list[Loss] = []
    messages: list[Json] = [
        {"role": "user", "content": "a", "name": "Ada", "thinking": "Hm.", "tool_calls": [], "tool_name": None},
        {"role": "assistant", "content": "See", "images": [PIXEL], "tool_call_id": "x"},
    ]
    lift_conversation(messages, losses)
    assert losses == [
        Loss("messages[0].name", "dropped"),
        Loss("messages[0].thinking", "dropped"),
        Loss("messages[1].images", "dropped"),
        Loss("messages[1].tool_call_id", "dropped"),
    ]
