"""A Responses request body to a Turn."""

from typing import Any

import orjson
import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.client.lift import lift
from translation.responses.schema.request import REQUEST_FIELDS, validate

Json = dict[str, Any]

F = {"type": "function", "name": "f", "parameters": {"type": "object"}}
G = {"type": "function", "name": "g", "parameters": None}
SH = {"type": "custom", "name": "sh"}
SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}


def lift_valid(**body: Any) -> Turn:
    """Lifts a body that the schema accepts, after checking that the body is not changed."""
    whole = {"model": "m", "input": "hi", **body}
    before = orjson.dumps(whole)
    validate(whole)
    turn = lift(whole)
    assert orjson.dumps(whole) == before
    return turn


def refusal_of(**body: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        lift_valid(**body)
    return refused.value


def user(*parts: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(parts)}


def text(content: str) -> Json:
    return {"type": "input_text", "text": content}


def output(content: str) -> Json:
    return {"type": "output_text", "text": content, "annotations": []}


def test_a_bare_request_has_no_other_parameters() -> None:
    assert lift_valid() == Turn(model="m", items=[user(text("hi"))], stream=False, losses=[])


def test_null_counts_as_not_given_everywhere() -> None:
    nulls = dict.fromkeys(REQUEST_FIELDS - {"model", "input"})
    assert lift_valid(**nulls, unknown=None) == lift_valid()


def test_every_parameter_of_a_turn_is_lifted() -> None:
    turn = lift_valid(
        instructions="be brief",
        tools=[F],
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        max_output_tokens=100,
        text={"format": SCHEMA, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto", "max_tokens": 9},
        thinking=False,
        stream=True,
        top_k=4,
        client_metadata={"session": "s"},
    )
    assert turn == Turn(
        model="m",
        items=[user(text("hi"))],
        instructions="be brief",
        tools=[F],
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        max_output_tokens=100,
        text_format=SCHEMA,
        verbosity="low",
        reasoning={"effort": "low", "summary": "auto", "max_tokens": 9},
        thinking=False,
        stream=True,
        extra={"top_k": 4},
        losses=[],
    )


SAMPLING: dict[str, tuple[Json, Json | None]] = {
    "as it is": (
        {
            "temperature": 0,
            "top_p": 0.5,
            "presence_penalty": 1,
            "frequency_penalty": -1,
            "seed": 0,
            "logit_bias": {"1": 2},
            "service_tier": "flex",
            "metadata": {"a": "b"},
            "user": "u",
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
            "store": False,
        },
        None,
    ),
    "storing nothing asks an upstream for nothing": ({"store": False}, {}),
    "storing": ({"store": True}, {"store": True}),
    "one stop is a list of one": ({"stop": "x"}, {"stop": ["x"]}),
    "several stops": ({"stop": ["x", "y"]}, {"stop": ["x", "y"]}),
    "no stops": ({"stop": []}, {}),
    "logprobs": ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
    "logprobs with rivals": (
        {"include": ["message.output_text.logprobs"], "top_logprobs": 0},
        {"logprobs": True, "top_logprobs": 0},
    ),
    "alternatives that would not be sent": ({"top_logprobs": 3}, {}),
}


@pytest.mark.parametrize(("body", "sampling"), SAMPLING.values(), ids=SAMPLING)
def test_sampling_is(body: Json, sampling: Json | None) -> None:
    assert lift_valid(**body).sampling == (body if sampling is None else sampling)


@pytest.mark.parametrize("given", [None, {}, {"format": None}, {"format": {"type": "text"}}])
def test_plain_text_is_no_format(given: Json | None) -> None:
    assert lift_valid(text=given).text_format is None


def test_the_older_name_for_a_summary_is_accepted() -> None:
    assert lift_valid(reasoning={"generate_summary": "concise"}).reasoning == {"summary": "concise"}
    assert lift_valid(reasoning={"generate_summary": "concise", "summary": "auto"}).reasoning == {"summary": "auto"}


ITEMS: dict[str, tuple[Json, Json]] = {
    "an easy message of a user": ({"role": "user", "content": "a"}, user(text("a"))),
    "an easy message of an assistant": (
        {"role": "assistant", "content": "a"},
        {"type": "message", "role": "assistant", "content": [output("a")]},
    ),
    "a message without type, with parts": (
        {"role": "developer", "content": [text("a")]},
        {"type": "message", "role": "developer", "content": [text("a")]},
    ),
    "an assistant's parts without annotations, as input, and a refusal": (
        {
            "role": "assistant",
            "type": None,
            "content": [{"type": "output_text", "text": "a"}, text("b"), {"type": "refusal", "refusal": "no"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [output("a"), output("b"), {"type": "refusal", "refusal": "no"}],
        },
    ),
    "a message as it was answered": (
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "phase": "final_answer",
            "content": [{**output("a"), "annotations": [{"type": "file_path"}], "logprobs": []}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "phase": "final_answer",
            "content": [{**output("a"), "annotations": [{"type": "file_path"}], "logprobs": []}],
        },
    ),
}


@pytest.mark.parametrize(("given", "item"), ITEMS.values(), ids=ITEMS)
def test_messages_are_lifted_to_full_form(given: Json, item: Json) -> None:
    assert lift_valid(input=[given]).items == [item]


def test_all_other_items_are_unchanged() -> None:
    given = [
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n", "more": 1},
        {"type": "function_call_output", "call_id": "c", "output": [text("a")]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "compaction", "encrypted_content": "x"},
    ]
    assert lift_valid(input=given).items == given


def test_additional_tools_become_tools_and_leave_the_history() -> None:
    turn = lift_valid(
        input=[{"type": "additional_tools", "role": "developer", "tools": [G, SH]}, {"role": "user", "content": "a"}],
        tools=[F],
    )
    assert turn.tools == [F, G, SH]
    assert turn.items == [user(text("a"))]


def test_tools_that_were_searched_become_tools_and_stay_in_the_history() -> None:
    found = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [G]}
    turn = lift_valid(input=[found], tools=[F])
    assert turn.tools == [F, G]
    assert turn.items == [found]


def test_a_tool_found_again_replaces_its_earlier_self_and_a_namespace_grows() -> None:
    def tool_search_output(*tools: Json) -> Json:
        return {"type": "tool_search_output", "tools": list(tools)}

    def space(*tools: Json) -> Json:
        return {"type": "namespace", "name": "s", "description": "d", "tools": list(tools)}

    newer = {**F, "description": "newer"}
    mcp = {"type": "mcp", "server_label": "a"}
    other = {"type": "mcp", "server_label": "b"}
    turn = lift_valid(
        input=[
            tool_search_output(space(F), mcp),
            tool_search_output(space(newer, G), other),
            tool_search_output(newer),
        ],
        tools=[F],
    )
    assert turn.tools == [newer, space(newer, G), mcp, other]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"conversation": {"id": "conv_1"}}, "conversation", "unsupported_parameter"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
        ({"moderation": {"model": "m"}}, "moderation", "unsupported_parameter"),
        ({"input": [{"role": "user", "content": "a"}, {"id": "msg_1"}]}, "input[1]", "unsupported_parameter"),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0]", "unsupported_parameter"),
    ],
    ids=[
        "an earlier response",
        "a conversation by id",
        "a conversation",
        "a response for later",
        "a prompt template",
        "moderation",
        "an item by id alone",
        "an item by reference",
    ],
)
def test_parameters_that_need_stored_state_are_refused_by_name(body: Json, param: str, code: str) -> None:
    refused = refusal_of(**body)
    assert (refused.param, refused.code) == (param, code)


def test_a_refusal_does_not_repeat_an_endless_id() -> None:
    assert len(refusal_of(previous_response_id="x" * 10_000).message) < 200
    assert len(refusal_of(input=[{"id": "x" * 10_000}]).message) < 200


LOSSES: dict[str, tuple[Json, list[Loss]]] = {
    "background: false, which is the default": ({"background": False}, []),
    "what Codex always includes": ({"include": ["reasoning.encrypted_content"]}, []),
    "an empty include": ({"include": []}, []),
    "what no upstream can show": (
        {"include": ["reasoning.encrypted_content", "file_search_call.results"]},
        [Loss("include[1]", "dropped")],
    ),
    "truncation, which is done here": ({"truncation": "auto"}, []),
    "compaction, which is done here": ({"context_management": [{"type": "compaction"}]}, []),
    "a cap on hosted tools": ({"max_tool_calls": 3}, [Loss("max_tool_calls", "dropped")]),
    "alternatives that would not be sent": ({"top_logprobs": 3}, [Loss("top_logprobs", "not included")]),
    "padding, which is done here": ({"stream": True, "stream_options": {"include_obfuscation": True}}, []),
    "defaults of reasoning": ({"reasoning": {"context": "auto", "mode": "standard"}}, []),
    "modes of reasoning": (
        {"reasoning": {"context": "all_turns", "mode": "pro"}},
        [Loss("reasoning.context", "dropped"), Loss("reasoning.mode", "dropped")],
    ),
}


@pytest.mark.parametrize(("body", "lost"), LOSSES.values(), ids=LOSSES)
def test_parameters_without_an_effect_are_losses_unless_empty(body: Json, lost: list[Loss]) -> None:
    assert lift_valid(**body).losses == lost


def test_a_relayed_body_may_refer_to_objects_stored_upstream() -> None:
    reference = {"id": "rs_1"}
    turn = lift(
        {"model": "m", "input": [reference], "previous_response_id": "resp_1", "background": True, "stream": True},
        relayed=True,
    )
    assert turn.items == [{"type": "item_reference", "id": "rs_1"}]


def test_a_relayed_background_response_that_cannot_be_fetched_is_refused() -> None:
    with pytest.raises(Unrepresentable) as refusal:
        lift({"model": "m", "input": "Hi", "background": True}, relayed=True)
    assert refusal.value.param == "background"
