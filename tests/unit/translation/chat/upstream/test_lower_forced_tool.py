"""Upstreams that do not heed a tool's name in `tool_choice` are sent no other tool."""

from typing import Any

import pytest

from translation.chat.relaying.request import relay_body
from translation.chat.upstream.lower import lower
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn

ALONE = Profile(forced_tool="alone")
FLAT: list[Json] = [{"type": "function", "name": name} for name in "ab"]
NESTED: list[Json] = [{"type": "function", "function": {"name": name}} for name in "ab"]
ITEM: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
LEFT_OUT = ["tool_choice=other tools left out"]


def named(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


def among(*names: str, mode: str = "auto") -> Json:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


def relayed(choice: Any, profile: Profile = ALONE) -> tuple[Json, list[str]]:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": NESTED, "tool_choice": choice}
    sent, losses = relay_body(body, profile, model="m")
    return sent, [str(loss) for loss in losses]


CHOICES: dict[str, tuple[Any, list[Json], str, list[str]]] = {
    "a name": (named("b"), NESTED[1:], "required", LEFT_OUT),
    "some": (among("a"), NESTED[:1], "auto", LEFT_OUT),
    "all, in another order": (among("b", "a", mode="required"), NESTED, "required", []),
    "none": ("none", NESTED, "none", []),
}


@pytest.mark.parametrize(("choice", "tools", "text", "losses"), CHOICES.values(), ids=CHOICES)
def test_a_relayed_choice_is_made_by_sending_one_tool(
    choice: Any, tools: list[Json], text: str, losses: list[str]
) -> None:
    sent, lost = relayed(choice)
    assert (sent["tools"], sent["tool_choice"], lost) == (tools, text, losses)


def test_a_choice_by_name_is_relayed_if_the_upstream_honours_it() -> None:
    sent, lost = relayed(named("b"), Profile())
    assert (sent["tools"], sent["tool_choice"], lost) == (NESTED, named("b"), [])


def test_a_choice_of_an_unknown_tool_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        relayed(named("c"))
    assert refused.value.param == "tool_choice"


def test_a_translated_choice_is_made_the_same_way() -> None:
    turn = Turn(model="m", items=[ITEM], tools=FLAT, tool_choice=FLAT[1])
    body, losses = lower(turn, ALONE)
    assert (body["tools"], body["tool_choice"]) == (NESTED[1:], "required")
    assert list(map(str, losses)) == LEFT_OUT


SCHEMA: Json = {"type": "object", "properties": {}}
CHAT_FORMAT: Json = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
FORMAT: Json = {"type": "json_schema", "name": "place", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("choice", "given", "left", "losses"),
    [
        ("required", {"response_format": CHAT_FORMAT}, {}, ["response_format=dropped"]),
        ("required", {"response_format": {"type": "json_object"}}, {}, ["response_format=dropped"]),
        ("required", {"json_schema": SCHEMA}, {}, ["json_schema=dropped"]),
        ("required", {"response_format": {"type": "text"}}, {"response_format": {"type": "text"}}, []),
        ("auto", {"response_format": CHAT_FORMAT}, {"response_format": CHAT_FORMAT}, []),
        (named("a"), {"response_format": CHAT_FORMAT}, {}, [*LEFT_OUT, "response_format=dropped"]),
    ],
)
def test_a_required_call_is_relayed_without_the_format_of_an_answer(
    choice: Any, given: Json, left: Json, losses: list[str]
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": NESTED, "tool_choice": choice}
    sent, lost = relay_body(body | given, ALONE, model="m")
    assert {key: sent[key] for key in ("response_format", "json_schema") if key in sent} == left
    assert [str(loss) for loss in lost] == losses


def test_a_required_call_is_lowered_without_the_format_of_an_answer() -> None:
    turn = Turn(model="m", items=[ITEM], tools=FLAT, tool_choice="required", text_format=FORMAT)
    body, lost = lower(turn, ALONE)
    assert ("response_format" in body, [str(loss) for loss in lost]) == (False, ["text.format=dropped"])
    body, lost = lower(turn, Profile())
    assert ("response_format" in body, list(lost)) == (True, [])
