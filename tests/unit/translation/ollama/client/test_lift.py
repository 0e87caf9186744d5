"""Lifts requests of Ollama's chat and generate APIs to turns."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.ollama.client.lift import lift_chat, lift_generate, read_facts
from translation.ollama.client.schema import CHAT_SCHEMA, GENERATE_SCHEMA, validate_chat, validate_generate
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts

HELLO: list[Json] = [{"role": "user", "content": "hi"}]
HELLO_ITEM: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
PIXEL = "iVBORw0KGgo="
CLOSED: Json = {
    "type": "object",
    "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["a"],
    "additionalProperties": False,
}


def chat_turn(**more: Any) -> Turn:
    body = {"model": "m", "messages": HELLO, **more}
    validate_chat(body)
    return lift_chat(body)


def generate_turn(**more: Any) -> Turn:
    body = {"model": "m", "prompt": "hi", **more}
    validate_generate(body)
    return lift_generate(body)


def test_a_plain_request_is_a_stream_without_other_parameters() -> None:
    assert chat_turn() == generate_turn() == Turn(model="m", items=[HELLO_ITEM], stream=True)
    assert lift_chat({"model": "m", "messages": HELLO}, model="other").model == "other"


FORMAT: Json = {"type": "json_schema", "name": "output"}

SHARED: dict[str, tuple[Json, Json]] = {
    "no stream": ({"stream": False}, {"stream": False}),
    "thinking on": ({"think": True}, {"thinking": True}),
    "thinking off": ({"think": False}, {"thinking": False}),
    "a level of thinking": ({"think": "max"}, {"reasoning": {"effort": "max"}}),
    "any JSON": ({"format": "json"}, {"text_format": {"type": "json_object"}}),
    "no format": ({"format": ""}, {}),
    "a closed schema": ({"format": CLOSED}, {"text_format": {**FORMAT, "schema": CLOSED, "strict": True}}),
    "an open schema": (
        {"format": {"type": "object"}},
        {"text_format": {**FORMAT, "schema": {"type": "object"}, "strict": False}},
    ),
    "a limit": ({"options": {"num_predict": 5}}, {"max_output_tokens": 5}),
    "no limit": ({"options": {"num_predict": -1}}, {}),
    "whole numbers that are written as decimals, and others": (
        {"options": {"num_predict": 128.0, "seed": 42.0, "top_k": 40.7, "num_ctx": 8192.0, "min_p": 1.0}},
        {"max_output_tokens": 128, "sampling": {"seed": 42}, "extra": {"top_k": 40, "num_ctx": 8192, "min_p": 1.0}},
    ),
    "one stop": ({"options": {"stop": "x"}}, {"sampling": {"stop": ["x"]}}),
    "stops": ({"options": {"stop": ["x", "y"], "seed": None}}, {"sampling": {"stop": ["x", "y"]}}),
    "sampling": (
        {"options": {"temperature": 0, "top_p": 0.5, "seed": 3, "presence_penalty": 1, "frequency_penalty": 2}},
        {"sampling": {"temperature": 0, "top_p": 0.5, "seed": 3, "presence_penalty": 1, "frequency_penalty": 2}},
    ),
    "options of open servers": (
        {"options": {"top_k": 4, "min_p": 0.1, "repeat_penalty": 1.1, "num_ctx": 2048}},
        {"extra": {"top_k": 4, "min_p": 0.1, "repetition_penalty": 1.1, "num_ctx": 2048}},
    ),
    "log probabilities": ({"logprobs": True}, {"sampling": {"logprobs": True}}),
    "alternatives": ({"logprobs": True, "top_logprobs": 2}, {"sampling": {"logprobs": True, "top_logprobs": 2}}),
    "alternatives of nothing": ({"top_logprobs": 2}, {}),
    "a default of other APIs": ({"service_tier": "flex"}, {"sampling": {"service_tier": "flex"}}),
    "an unknown key": ({"novel": 1}, {"extra": {"novel": 1}}),
    "keep_alive": ({"keep_alive": "5m"}, {}),
    "truncation": (
        {"truncate": True, "shift": True},
        {"losses": (Loss("truncate", "dropped"), Loss("shift", "dropped"))},
    ),
    "no truncation": ({"truncate": False, "shift": False}, {}),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_field_of_both_apis(name: str) -> None:
    asked, expected = SHARED[name]
    plain: Json = {"model": "m", "items": [HELLO_ITEM], "stream": True}
    assert chat_turn(**asked) == generate_turn(**asked) == Turn(**{**plain, **expected})


def test_tools_are_functions_and_other_fields_are_losses() -> None:
    plain = {"type": "function", "function": {"name": "f"}}
    rich = {"function": {"name": "g", "description": "D", "parameters": CLOSED, "strict": True}}
    turn = chat_turn(tools=[plain, rich])
    assert [*turn.tools] == [
        {"type": "function", "name": "f", "strict": False, "parameters": {"type": "object", "properties": {}}},
        {"type": "function", "name": "g", "strict": False, "parameters": CLOSED, "description": "D"},
    ]
    assert turn.losses == (Loss("tools[1].function.strict", "dropped"),)


def test_numbers_of_whole_options_are_integers_for_every_upstream() -> None:
    turn = chat_turn(options={"num_predict": 128.0, "seed": 42.0, "num_ctx": 8192.0})
    assert [type(number) for number in (turn.max_output_tokens, turn.sampling["seed"], turn.extra["num_ctx"])] == [
        int
    ] * 3


def test_generate_has_a_system_prompt_and_images() -> None:
    turn = generate_turn(system="Be kind.", images=[PIXEL])
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    assert turn.instructions == "Be kind."
    assert turn.items[0]["content"] == [{"type": "input_text", "text": "hi"}, image]
    assert generate_turn(prompt="", images=[PIXEL]).items[0]["content"] == [image]


@pytest.mark.parametrize(
    "params", [{"suffix": "x"}, {"template": "{{ .Prompt }}"}, {"raw": True}, {"context": [1, 2]}], ids=str
)
def test_parameters_that_would_give_another_answer_are_refused_by_name(params: Json) -> None:
    with pytest.raises(Unrepresentable) as caught:
        generate_turn(**params)
    assert [caught.value.param] == [*params]
    assert generate_turn(suffix="", template="", raw=False, context=[]).losses == ()


@pytest.mark.parametrize(
    ("head", "media_type"),
    [("/9j/4AAQ", "image/jpeg"), ("R0lGODlh", "image/gif"), ("UklGRhIA", "image/webp")],
)
def test_the_type_of_an_image_is_read_from_its_first_bytes(head: str, media_type: str) -> None:
    (item,) = chat_turn(messages=[{"role": "user", "images": [head]}]).items
    assert item["content"] == [{"type": "input_image", "image_url": f"data:{media_type};base64,{head}"}]


def test_an_image_may_be_in_lines() -> None:
    (item,) = chat_turn(messages=[{"role": "user", "images": [f"{PIXEL[:4]}\r\n{PIXEL[4:]}\n"]}]).items
    assert item["content"] == [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}]


MALFORMED: dict[str, Json] = {
    "messages[0].images[0]": {"messages": [{"role": "user", "images": ["aGVsbG8="]}]},
    "messages[0].role": {"messages": [{"role": "robot", "content": "x"}]},
    "messages[0].tool_calls[0].function.arguments": {
        "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]
    },
    "options.num_predict": {"options": {"num_predict": "128"}},
    "options.temperature": {"options": {"temperature": -1}},
    "think": {"think": "deeply"},
    "top_logprobs": {"top_logprobs": 21},
}


@pytest.mark.parametrize("param", MALFORMED)
def test_a_malformed_field_is_named(param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat_turn(**MALFORMED[param])
    assert caught.value.param == param


def test_the_schemas_name_every_parameter() -> None:
    assert {"messages", "tools", "options"} <= CHAT_SCHEMA()["properties"].keys()
    assert {"prompt", "system", "raw"} <= GENERATE_SCHEMA()["properties"].keys()


def test_only_the_stream_is_a_fact_of_a_request() -> None:
    assert read_facts({"stream": True, "think": True, "tools": [{}]}) == RequestFacts(streams=True)
    assert read_facts({"stream": False}) == read_facts({}) == RequestFacts()
