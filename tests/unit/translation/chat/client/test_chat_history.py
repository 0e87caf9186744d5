"""Lifts chat messages to items."""

from typing import Any

import pytest

from translation.chat.client.lift import lift
from translation.chat.client.schema import validate
from translation.chat.reasoning import build_call_detail
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

CALL: Json = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED: Item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def turn_of(*messages: Json, relayed: bool = False) -> Turn:
    body = {"model": "m", "messages": list(messages)}
    validate(body)
    return lift(body, relayed=relayed)


def assistant(**more: Any) -> Json:
    return {"role": "assistant", **more}


def message(role: str, *content: Json) -> Item:
    return {"type": "message", "role": role, "content": list(content)}


def input_text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def thought(text: str) -> Item:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


CASES: dict[str, tuple[list[Json], list[Item]]] = {
    "a string is one text": (
        [{"role": role, "content": "x"} for role in ("system", "developer", "user")],
        [message(role, input_text("x")) for role in ("system", "developer", "user")],
    ),
    "every kind of input": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t"},
                    {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
                    {"type": "image_url", "image_url": {"url": "u"}},
                    {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}},
                    {"type": "file", "file": {"file_data": "d", "filename": "n"}},
                    {"type": "file", "file": {"file_id": "f"}},
                ],
            }
        ],
        [
            message(
                "user",
                input_text("t"),
                {"type": "input_image", "image_url": "u", "detail": "low"},
                {"type": "input_image", "image_url": "u"},
                {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}},
                {"type": "input_file", "file_data": "d", "filename": "n"},
                {"type": "input_file", "file_id": "f"},
            )
        ],
    ),
    "an answer": ([assistant(content="a")], [message("assistant", output_text("a"))]),
    "an answer in parts": (
        [assistant(content=[{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}])],
        [message("assistant", output_text("a"), {"type": "refusal", "refusal": "no"})],
    ),
    "a refusal": (
        [assistant(content=None, refusal="no")],
        [message("assistant", {"type": "refusal", "refusal": "no"})],
    ),
    "an empty answer is still a turn": (
        [assistant(content=None)],
        [message("assistant", output_text(""))],
    ),
    "calls without text are calls only": (
        [assistant(content="", tool_calls=[CALL, {**CALL, "id": "c2"}])],
        [CALLED, {**CALLED, "call_id": "c2"}],
    ),
    "text comes before its calls": (
        [assistant(content="a", tool_calls=[CALL])],
        [message("assistant", output_text("a")), CALLED],
    ),
    "a call that leaves its type out is a function's": (
        [assistant(tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": "{}"}}])],
        [CALLED],
    ),
    "tool results, as text or in parts": (
        [
            assistant(tool_calls=[CALL]),
            {"role": "tool", "tool_call_id": "c1", "content": "r", "name": "f"},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
        ],
        [
            CALLED,
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
            {"type": "function_call_output", "call_id": "c1", "output": [input_text("r")]},
        ],
    ),
    "opaque data of a call are a detail of reasoning before it": (
        [assistant(tool_calls=[{**CALL, "extra_content": {"google": {}}}, {**CALL, "id": "c2"}])],
        [
            {"type": "reasoning", "summary": [], "details": [build_call_detail("c1", {"google": {}})]},
            CALLED,
            {**CALLED, "call_id": "c2"},
        ],
    ),
    "custom calls and their results": (
        [
            assistant(tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "c", "input": "x"}}]),
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
        [
            {"type": "custom_tool_call", "call_id": "c1", "name": "c", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "r"},
        ],
    ),
    "the old calls, which have no id, get one": (
        [
            assistant(content=None, function_call={"name": "f", "arguments": "{}"}),
            {"role": "function", "name": "f", "content": "r"},
            assistant(content=None, function_call={"name": "f", "arguments": "[]"}),
            {"role": "function", "name": "f", "content": None},
        ],
        [
            {**CALLED, "call_id": "call_messages_0"},
            {"type": "function_call_output", "call_id": "call_messages_0", "output": "r"},
            {**CALLED, "call_id": "call_messages_2", "arguments": "[]"},
            {"type": "function_call_output", "call_id": "call_messages_2", "output": ""},
        ],
    ),
    "reasoning comes before what it led to, once": (
        [assistant(content="a", reasoning="r", reasoning_content="r")],
        [thought("r"), message("assistant", output_text("a"))],
    ),
    "reasoning by its other name": ([assistant(reasoning="r", tool_calls=[CALL])], [thought("r"), CALLED]),
    "reasoning alone": ([assistant(reasoning_content="r", content=None)], [thought("r")]),
    "reasoning details are preserved": (
        [assistant(content="a", reasoning="r", reasoning_details=[{"type": "reasoning.text", "signature": "s"}])],
        [
            {**thought("r"), "details": [{"type": "reasoning.text", "signature": "s"}]},
            message("assistant", output_text("a")),
        ],
    ),
    "reasoning details without a text": (
        [assistant(content="a", reasoning_details=[{"type": "reasoning.encrypted"}])],
        [
            {"type": "reasoning", "summary": [], "details": [{"type": "reasoning.encrypted"}]},
            message("assistant", output_text("a")),
        ],
    ),
}


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
def test_messages_become_items(messages: list[Json], expected: list[Item]) -> None:
    turn = turn_of(*messages)
    assert list(turn.items) == expected
    assert turn.losses == ()


REFUSED: dict[str, tuple[list[Json], str, str]] = {
    "a result without a call": (
        [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c9", "content": "r"}],
        "messages[1].tool_call_id",
        "'c9'",
    ),
    "a result before its call": (
        [{"role": "tool", "tool_call_id": "c1", "content": "r"}, assistant(tool_calls=[CALL])],
        "messages[0].tool_call_id",
        "'c1'",
    ),
    "an old result without a call": ([{"role": "function", "name": "f", "content": "r"}], "messages[0].name", "'f'"),
    "a file without content": (
        [{"role": "user", "content": [{"type": "file", "file": {"filename": "n"}}]}],
        "messages[0].content[0].file.file_data",
        "Missing required parameter",
    ),
    "a reference to an audio answer": ([assistant(audio={"id": "a"})], "messages[0].audio", "transcript"),
}


@pytest.mark.parametrize(("messages", "param", "words"), REFUSED.values(), ids=REFUSED)
def test_messages_without_an_item_are_refused_by_name(messages: list[Json], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        turn_of(*messages)
    assert refused.value.param == param


def test_a_relay_may_refer_to_audio_answers() -> None:
    assert turn_of(assistant(audio={"id": "a"}), relayed=True).items == [message("assistant", output_text(""))]


def test_unsupported_message_fields_are_one_loss() -> None:
    part = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    turn = turn_of({"role": "user", "content": [part, part], "name": "n"}, assistant(content="a", name="n"))
    assert turn.losses == (Loss("messages.name", "dropped"), Loss("messages.content.cache_control", "dropped"))
