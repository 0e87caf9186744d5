"""Threads of the Messages API: what is stored for the next request, and what that request may leave out."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.messages.client.threads import build_thread_state, lift_thread_turn, restore_thread_params
from translation.messages.schema.request import validate

Json = dict[str, Any]
ADD: Json = {"name": "add", "input_schema": {"type": "object"}}
LATE: Json = {"name": "late", "input_schema": {"type": "object"}, "defer_loading": True}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
USER: Json = {"role": "user", "content": "Hello"}


def body(**more: Any) -> Json:
    return {"model": "m", "max_tokens": 10, "messages": [USER], **more}


def change(*blocks: Json) -> Json:
    return {"role": "system", "content": list(blocks)}


def addition(tool: Json) -> Json:
    return {"type": "tool_addition", "tool": tool}


def test_a_plain_conversation_needs_no_state() -> None:
    assert build_thread_state(body()) == {}


def test_system_prompt_and_tools_are_the_state() -> None:
    state = build_thread_state(body(system="Be kind.", tools=[ADD, LATE, SEARCH]))
    assert state == {"system": "Be kind.", "tools": [ADD, LATE, SEARCH]}
    continued = restore_thread_params(body(thread={"type": "continue", "previous_message_id": "msg_1"}), state)
    turn = lift_thread_turn(continued)
    assert (turn.instructions, [tool.get("name") for tool in turn.tools]) == ("Be kind.", ["add", None])


def test_changes_of_the_tools_are_in_the_state() -> None:
    new = {"name": "new", "input_schema": {"type": "object"}}
    definition = addition({"type": "tool_definition", "definition": new})
    found = addition({"type": "tool_reference", "name": "late"})
    gone = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "add"}}
    state = build_thread_state(body(tools=[ADD, LATE], messages=[USER, change(definition, found, gone)]))
    assert state["tools"] == [
        {**ADD, "defer_loading": True},
        {"name": "late", "input_schema": ADD["input_schema"]},
        new,
    ]
    again = [addition({"type": "tool_reference", "name": "add"})]
    turn = lift_thread_turn(restore_thread_params(body(messages=[change(*again)]), state))
    assert [tool["name"] for tool in turn.tools] == ["add", "late", "new"]
    assert turn.items == []


@pytest.mark.parametrize(("name", "value"), [("system", "Be rude."), ("tools", [ADD])])
def test_stored_state_of_a_thread_cannot_change(name: str, value: object) -> None:
    state = {"system": "Be kind.", "tools": [LATE]}
    assert restore_thread_params(body(**{name: state[name]}), state)["system"] == "Be kind."
    with pytest.raises(InvalidRequest) as caught:
        restore_thread_params(body(**{name: value}), state)
    assert (caught.value.param, caught.value.code) == (name, "thread_fingerprint_mismatch")


def test_tools_may_be_repeated_as_they_were_sent_or_as_they_are() -> None:
    sent = [{**ADD, "defer_loading": False}, LATE]
    found = change(addition({"type": "tool_reference", "name": "late"}))
    state = build_thread_state(body(tools=sent, messages=[USER, found]))
    for _ in range(2):
        for tools in (None, sent, state["tools"]):
            continued = restore_thread_params(body(tools=tools), state)
            assert [tool["name"] for tool in lift_thread_turn(continued).tools] == ["add", "late"]
        state = build_thread_state(continued, state)
    with pytest.raises(InvalidRequest, match="differs"):
        restore_thread_params(body(tools=[LATE]), state)


def test_only_a_continued_thread_may_have_no_messages() -> None:
    validate(body(messages=[], thread={"type": "continue", "previous_message_id": "msg_1"}))
    for thread in (None, {"type": "create"}):
        with pytest.raises(InvalidRequest, match="must not be shorter than 1") as caught:
            validate(body(messages=[], thread=thread))
        assert caught.value.param == "messages"
    with pytest.raises(InvalidRequest, match="Expected 'create' or 'continue'"):
        validate(body(thread={"type": "fork"}))
