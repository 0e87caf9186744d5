"""Items of agents, and outputs without a call id."""

from typing import Any

import pytest

from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.responses.client.lift import lift

TEXT: Json = {"type": "input_text", "text": "Go."}
IMAGE: Json = {"type": "input_image", "image_url": "data:"}
SECRET: Json = {"type": "encrypted_content", "encrypted_content": "x"}
MESSAGE: Json = {"type": "agent_message", "author": "a", "recipient": "b", "content": [TEXT]}
HEAD: Json = {"type": "input_text", "text": "Message from agent 'a' to agent 'b':"}
LEFT_OUT = Loss("input[0].content", "encrypted_content left out")


def lifted(*items: Json, **more: Any) -> tuple[list[Item], list[Loss]]:
    turn = lift({"model": "m", "input": [*items], **more})
    return list(turn.items), list(turn.losses)


def user(*parts: Json) -> Item:
    return {"type": "message", "role": "user", "content": [*parts]}


MESSAGES: dict[str, tuple[list[Json], list[Item], list[Loss]]] = {
    "text": ([TEXT], [user(HEAD, TEXT)], []),
    "text and an image": ([TEXT, IMAGE], [user(HEAD, TEXT, IMAGE)], []),
    "partly encrypted": ([SECRET, TEXT], [user(HEAD, TEXT)], [LEFT_OUT]),
    "encrypted": ([SECRET], [], [LEFT_OUT]),
}


@pytest.mark.parametrize(("content", "items", "losses"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_between_agents_is_a_message(content: list[Json], items: list[Item], losses: list[Loss]) -> None:
    assert lifted({**MESSAGE, "content": content}) == (items, losses)


def test_the_losses_of_parameters_are_kept() -> None:
    _, losses = lifted({**MESSAGE, "content": [SECRET]}, include=["file_search_call.results"])
    assert losses == [LEFT_OUT, Loss("include[0]", "dropped")]


def test_calls_between_agents_are_calls() -> None:
    call: Json = {"type": "multi_agent_call", "call_id": "c", "action": "spawn_agent", "arguments": "{}"}
    part: Json = {"type": "output_text", "text": "ok", "annotations": []}
    output: Json = {"type": "multi_agent_call_output", "call_id": "c", "action": "spawn_agent", "output": [part]}
    assert lifted(call, output)[0] == [
        {"type": "function_call", "call_id": "c", "name": "spawn_agent", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]},
    ]


def call(call_id: str, name: str) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def output(**more: Any) -> Json:
    return {"type": "function_call_output", "output": "ok", **more}


FIRST, SECOND = call("c1", "f"), call("c2", "g")
OK: Json = {"type": "input_text", "text": "ok"}
OUTPUTS: dict[str, tuple[list[Json], list[Item]]] = {
    "by the name of its tool": ([FIRST, SECOND, output(name="g")], [FIRST, SECOND, output(name="g", call_id="c2")]),
    "by nothing": ([FIRST, SECOND, output()], [FIRST, SECOND, output(call_id="c1")]),
    "after another that has an id": (
        [FIRST, SECOND, user(TEXT), output(call_id="c1"), output()],
        [FIRST, SECOND, user(TEXT), output(call_id="c1"), output(call_id="c2")],
    ),
    "without a call of its tool": (
        [FIRST, output(name="h")],
        [FIRST, user({"type": "input_text", "text": "Output of the tool 'h':"}, OK)],
    ),
    "without any call": ([output()], [user({"type": "input_text", "text": "Output of a tool:"}, OK)]),
    "of several parts": ([output(output=[OK, IMAGE])], [user({**OK, "text": "Output of a tool:"}, OK, IMAGE)]),
}


@pytest.mark.parametrize(("items", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_without_a_call_id_is_found_its_call(items: list[Json], expected: list[Item]) -> None:
    assert lifted(*items)[0] == expected
