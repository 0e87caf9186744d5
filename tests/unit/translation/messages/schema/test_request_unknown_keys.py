"""Every field of the official types is lifted, refused or reported as a loss."""

from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import beta

from translation.errors import InvalidRequest
from translation.messages.client.lift import lift, read_facts
from translation.messages.schema.request import validate
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

HELLO: Json = {"role": "user", "content": "Hi"}
CALL: Json = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
ODD: Any = {"odd": [1]}
"""A value that no schema but the most lenient accepts."""


def turn_of(**more: Any) -> Turn:
    body = {"model": "m", "max_tokens": 5000, "messages": [HELLO], **more}
    validate(body)
    return lift(body)


def assistant(*blocks: Json) -> list[Json]:
    return [HELLO, {"role": "assistant", "content": list(blocks)}, HELLO]


def result_of(content: Any, **more: Any) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content, **more}]}


LOST: dict[str, tuple[Json, str]] = {
    "the effort's object": (
        {"output_config": {"task_budget": {"type": "tokens", "total": 9}}},
        "output_config.task_budget",
    ),
    "thinking": ({"thinking": {"type": "adaptive", "block_binding": ODD}}, "thinking.block_binding"),
    "the user": ({"metadata": {"odd": "x"}}, "metadata.odd"),
    "the choice of tools": ({"tools": [TOOL], "tool_choice": {"type": "auto", "odd": 1}}, "tool_choice.odd"),
    "a tool": ({"tools": [{**TOOL, "input_examples": [{"a": 1}]}]}, "tools.input_examples"),
    "a message": ({"messages": [{**HELLO, "odd": 1}]}, "messages.odd"),
    "the system prompt": ({"system": [{"type": "text", "text": "a", "odd": 1}]}, "system.odd"),
    "a block": ({"messages": assistant({**CALL, "caller": ODD, "toolset_name": "x"})}, "messages.content.caller"),
    "a result's block": (
        {
            "messages": [
                *assistant(CALL)[:2],
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [{"type": "text", "text": "a", "odd": 1}],
                        }
                    ],
                },
            ]
        },
        "messages.content.content.odd",
    ),
}


@pytest.mark.parametrize(("params", "param"), LOST.values(), ids=LOST)
def test_a_key_without_a_meaning_here_is_a_loss(params: Json, param: str) -> None:
    assert Loss(param, "dropped") in turn_of(**params).losses


def test_hints_are_no_loss() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    call = {**CALL, **mark, "caller": {"type": "direct"}, "toolset_name": None}
    body: Json = {
        "messages": [
            *assistant(call)[:2],
            result_of("a", **mark),
        ],
        "system": [{"type": "text", "text": "a", **mark}],
        "tools": [{**TOOL, **mark, "eager_input_streaming": True, "allowed_callers": ["direct"]}],
    }
    assert turn_of(**body).losses == ()


SOURCES = [
    (block, kind)
    for block, param in (("image", beta.BetaImageBlockParam), ("document", beta.BetaRequestDocumentBlockParam))
    for kind in get_args(get_type_hints(param)["source"])
]
"""The sources of the official types, each with the type of the block that has it."""


@pytest.mark.parametrize(("block", "kind"), SOURCES, ids=lambda value: getattr(value, "__name__", value))
def test_no_key_of_a_source_is_a_loss(block: str, kind: Any) -> None:
    hints = get_type_hints(kind)
    source = {key: next(iter(list_literals(hint)), "text") for key, hint in hints.items()}
    assert turn_of(messages=[{"role": "user", "content": [{"type": block, "source": source}]}]).losses == ()


def list_reported(**more: Any) -> list[str]:
    """The place that a request is refused for, or else the places that it loses and the parameters that are kept."""
    try:
        turn = turn_of(**more)
    except InvalidRequest as refused:
        return [refused.param or ""]
    tools = [*turn.tools, *read_facts({"messages": [HELLO], **more}).tools.servers]
    return [*(loss.param for loss in turn.losses), *turn.extra, *(f"tools: {tool['type']}" for tool in tools)]


NOT_ALONE = {"model", "messages", "max_tokens", "stream", "tools", "system"}
"""Fields of every request, which other tests cover."""

HINTS = {"cache_control"}


@pytest.mark.parametrize(
    "key", sorted(set(get_type_hints(beta.message_create_params.MessageCreateParamsBase)) - NOT_ALONE - HINTS)
)
def test_no_parameter_of_the_official_type_gets_lost_unsaid(key: str) -> None:
    assert any(place.startswith(key) for place in list_reported(**{key: ODD}))


BLOCKS = [kind for kind in get_args(beta.BetaContentBlockParam) if kind.__name__.endswith("Param")]


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_no_block_of_the_official_types_gets_lost_unsaid(kind: Any, role: str) -> None:
    hints = get_type_hints(kind)
    block = {"type": list_literals(hints["type"])[0], **{key: ODD for key in hints if key != "type"}}
    reported = list_reported(messages=[HELLO, {"role": role, "content": [block]}, HELLO])
    assert any(place.startswith("messages") for place in reported)


@pytest.mark.parametrize("kind", get_args(beta.BetaToolUnionParam), ids=lambda kind: kind.__name__)
def test_no_tool_of_the_official_types_gets_lost_unsaid(kind: Any) -> None:
    hints = get_type_hints(kind)
    tool = {
        "type": list_literals(hints["type"])[0],
        "name": next(iter(list_literals(hints.get("name"))), "f"),
        "mcp_server_name": "s",
        "input_schema": {},
    }
    reported = list_reported(tools=[{key: value for key, value in tool.items() if key in hints}])
    assert any(place.startswith(("tools", "mcp_servers")) for place in reported)


def list_literals(hint: Any) -> list[str]:
    """The texts that a type allows, wherever they are in it."""
    if isinstance(hint, str):
        return [hint]
    return [text for argument in get_args(hint) for text in list_literals(argument)]
