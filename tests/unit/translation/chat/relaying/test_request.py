"""Chat requests that are relayed to a chat upstream."""

from typing import Any

import pytest

from translation.chat.relaying.request import is_plain_request, relay_body
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest

Json = dict[str, Any]

QUESTION = {"role": "user", "content": "Hello"}


def relayed(message: Json, **profile: Any) -> Json:
    lowered = relay_body({"model": "m", "messages": [QUESTION, message]}, Profile(**profile), model="theirs")
    return lowered.body["messages"][1]


STRAY_FIELDS: dict[str, tuple[Json, Json]] = {
    "fields of the message on its text part are dropped": (
        {"content": [{"type": "text", "text": "Hi", "role": "assistant", "annotations": []}]},
        {"content": [{"type": "text", "text": "Hi"}]},
    ),
    "reasoning on a text part is the message's": (
        {"content": [{"type": "text", "text": "Hi", "reasoning": "hm", "reasoning_content": "hm"}]},
        {"content": [{"type": "text", "text": "Hi"}], "reasoning_content": "hm"},
    ),
    "reasoning of the message itself is not replaced": (
        {"content": [{"type": "text", "text": "Hi", "reasoning": "hm"}], "reasoning": "so"},
        {"content": [{"type": "text", "text": "Hi"}], "reasoning_content": "so"},
    ),
    "what a part may have stays": (
        {"content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {"content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
    ),
    "a refusal stays": (
        {"content": [{"type": "refusal", "refusal": "No.", "role": "assistant"}]},
        {"content": [{"type": "refusal", "refusal": "No."}]},
    ),
}


@pytest.mark.parametrize(("message", "expected"), STRAY_FIELDS.values(), ids=STRAY_FIELDS)
def test_an_assistant_message_is_relayed_as_upstreams_accept_it(message: Json, expected: Json) -> None:
    profile = {"replay_reasoning": "reasoning_content"}
    assert relayed({"role": "assistant", **message}, **profile) == {"role": "assistant", **expected}


def test_parts_of_a_user_are_relayed_as_they_are() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Hi", "role": "user"}]}
    assert relayed(message) == message


SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]}
MARKED = {"role": "system", "content": [{"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}}]}
ANSWER = {"role": "assistant", "content": "Yes."}
BOTH = {"role": "system", "content": "Be brief.\n\nBe\nkind."}

SYSTEMS: dict[str, tuple[str, list[Json], list[Json], list[Loss]]] = {
    "leading ones become one": ("merge_leading", [SYSTEM, DEVELOPER, QUESTION], [BOTH, QUESTION], []),
    "a part that is marked stays one": (
        "merge_leading",
        [SYSTEM, MARKED, QUESTION],
        [{"role": "system", "content": [{"type": "text", "text": "Be brief."}, *MARKED["content"]]}, QUESTION],
        [],
    ),
    "one alone stays as it is": ("merge_leading", [SYSTEM, QUESTION], [SYSTEM, QUESTION], []),
    "later ones stay where they are": (
        "merge_leading",
        [SYSTEM, QUESTION, ANSWER, SYSTEM, QUESTION],
        [SYSTEM, QUESTION, ANSWER, SYSTEM, QUESTION],
        [],
    ),
    "later ones join the first where no others are taken": (
        "merge_all",
        [SYSTEM, QUESTION, DEVELOPER],
        [BOTH, QUESTION],
        [Loss("messages", "system messages merged")],
    ),
    "a late one alone is sent first if no others are accepted": (
        "merge_all",
        [QUESTION, SYSTEM],
        [SYSTEM, QUESTION],
        [Loss("messages", "system messages merged")],
    ),
    "all are sent to an upstream that accepts any": (
        "keep",
        [SYSTEM, SYSTEM, QUESTION],
        [SYSTEM, SYSTEM, QUESTION],
        [],
    ),
}


@pytest.mark.parametrize(("habit", "messages", "expected", "losses"), SYSTEMS.values(), ids=SYSTEMS)
def test_system_messages_are_relayed_as_upstreams_accept_them(
    habit: Any, messages: list[Json], expected: list[Json], losses: list[Loss]
) -> None:
    lowered = relay_body({"model": "m", "messages": messages}, Profile(system_messages=habit), model="theirs")
    assert lowered.body["messages"] == expected
    assert lowered.losses == losses


THOUGHT = "<think>\nhm\n</think>\n\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Yes.", f"{THOUGHT}Yes."),
        (None, THOUGHT),
        ([{"type": "text", "text": "Yes."}], [{"type": "text", "text": THOUGHT}, {"type": "text", "text": "Yes."}]),
    ],
    ids=["before a string", "alone", "before parts"],
)
def test_past_reasoning_is_sent_back_in_think_tags_if_configured(content: Any, expected: Any) -> None:
    message = {"role": "assistant", "content": content, "reasoning": "hm"}
    assert relayed(message, replay_reasoning="think_tags") == {"role": "assistant", "content": expected}


BODIES: dict[str, tuple[Json, Json, Json]] = {
    "the upstream's name for the model": ({}, {}, {}),
    "no nulls": ({"temperature": None}, {}, {}),
    "nothing that is the gateway's": ({"thinking": None, "extensions": False}, {}, {}),
    "unknown parameters": ({"top_k": 5}, {}, {"top_k": 5}),
    "the older limit for an upstream of that age": ({"max_completion_tokens": 9}, {}, {"max_tokens": 9}),
    "the newer limit for OpenAI": (
        {"max_tokens": 9},
        {"max_tokens_field": "max_completion_tokens"},
        {"max_completion_tokens": 9},
    ),
    "the limit as it was, where it is the right one": ({"max_tokens": 9}, {}, {"max_tokens": 9}),
    "that thinking stays in the text": (
        {},
        {"raw_text_field": "reasoning_format", "parsing_format": "direct_response"},
        {"reasoning_format": "none"},
    ),
    "thinking where the client wants it": (
        {"reasoning_format": "deepseek"},
        {"raw_text_field": "reasoning_format", "parsing_format": "direct_response"},
        {"reasoning_format": "deepseek"},
    ),
    "thinking as its server separates it": (
        {},
        {"raw_text_field": "reasoning_format", "parsing_format": "leading_think_tags"},
        {},
    ),
    "tools": ({"tools": [1], "tool_choice": "auto"}, {}, {"tools": [1], "tool_choice": "auto"}),
    "no choice among no tools": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}, {}),
    "usage at the end of a stream": (
        {"stream": True, "stream_options": {"include_obfuscation": False}},
        {},
        {"stream": True, "stream_options": {"include_obfuscation": False, "include_usage": True}},
    ),
}


@pytest.mark.parametrize(("params", "profile", "expected"), BODIES.values(), ids=BODIES)
def test_the_upstream_gets(params: Json, profile: Json, expected: Json) -> None:
    body = {"model": "m", "messages": [QUESTION], **params}
    lowered = relay_body(body, Profile(**profile), model="theirs")
    assert lowered == LoweredRequest({"model": "theirs", "messages": [QUESTION], **expected}, [])
    assert body == {"model": "m", "messages": [QUESTION], **params}, "the client's body is not changed"


DETAILS = [{"type": "reasoning.text", "text": "hm"}]
OTHERS: list[Any] = [
    {"type": "anthropic.thinking", "thinking": "hm", "signature": "s"},
    {"type": "gemini.call", "call_id": "c", "signature": "s"},
    "odd",
]
REASONING: dict[str, tuple[Json, str, Json, bool]] = {
    "in the field it came in": ({"reasoning": "hm"}, "reasoning", {"reasoning": "hm"}, False),
    "in another field": ({"reasoning": "hm"}, "reasoning_content", {"reasoning_content": "hm"}, False),
    "as details": (
        {"reasoning": "hm", "reasoning_details": DETAILS},
        "reasoning_details",
        {"reasoning_details": DETAILS},
        False,
    ),
    "as details without those of another API": (
        {"reasoning_details": [*OTHERS, *DETAILS], "reasoning": "hm"},
        "reasoning_details",
        {"reasoning_details": DETAILS},
        True,
    ),
    "as text, where all details are of another API": (
        {"reasoning": "hm", "reasoning_details": OTHERS},
        "reasoning_details",
        {"reasoning": "hm"},
        False,
    ),
    "not as details of another API, which is a loss": ({"reasoning_details": OTHERS}, "reasoning_details", {}, True),
    "not as details that are no list, which is a loss": ({"reasoning_details": 3}, "reasoning_details", {}, True),
    "as text, for want of details": ({"reasoning_content": "hm"}, "reasoning_details", {"reasoning": "hm"}, False),
    "not at all, which is a loss": ({"reasoning_content": "hm"}, "none", {}, True),
    "not as details, which is a loss": ({"reasoning_details": DETAILS}, "reasoning", {}, True),
    "not when it is empty": ({"reasoning": ""}, "none", {}, False),
}


@pytest.mark.parametrize(("given", "wanted", "expected", "lost"), REASONING.values(), ids=REASONING)
def test_past_reasoning_is_sent_back(given: Json, wanted: str, expected: Json, lost: bool) -> None:
    answer = {"role": "assistant", "content": "4"}
    profile = Profile(replay_reasoning=wanted)  # type: ignore[arg-type]
    lowered = relay_body({"model": "m", "messages": [{**answer, **given}]}, profile, model="m")
    assert lowered.body["messages"] == [{**answer, **expected}]
    assert lowered.losses == ([Loss(f"messages.{next(iter(given))}", "dropped")] if lost else [])


@pytest.mark.parametrize("role", ["developer", "system", "user"])
def test_developer_messages_have_the_role_the_upstream_knows(role: str) -> None:
    assert relayed({"role": "developer", "content": "x"}, developer_role=role) == {"role": role, "content": "x"}


@pytest.mark.parametrize(
    ("effort", "given", "expected"),
    [
        ("none", None, {"enable_thinking": False}),
        ("none", {"a": 1}, {"a": 1, "enable_thinking": False}),
        ("none", {"enable_thinking": True}, {"enable_thinking": True}),
        ("low", None, None),
    ],
)
def test_no_effort_turns_thinking_off_where_a_template_does(effort: str, given: Json | None, expected: Json) -> None:
    body = {"model": "m", "messages": [QUESTION], "reasoning_effort": effort, "chat_template_kwargs": given}
    lowered = relay_body(body, Profile(thinking_switch="chat_template_kwargs"), model="theirs")
    assert lowered.body.get("chat_template_kwargs") == expected
    assert lowered.body["reasoning_effort"] == effort
    assert "chat_template_kwargs" not in relay_body({**body, "chat_template_kwargs": None}, Profile(), model="m").body


@pytest.mark.parametrize(("store", "losses"), [(True, ["prompt_cache_key"]), (False, ["metadata", "prompt_cache_key"])])
def test_what_the_server_refuses_is_a_loss_and_metadata_stays_beside_store(store: bool, losses: list[str]) -> None:
    refused = {"metadata": {"a": "b"}, "prompt_cache_key": "k"}
    body = {"model": "m", "messages": [QUESTION], "store": store, **refused}
    lowered = relay_body(body, Profile(refused_params=frozenset(refused)), model="theirs")
    assert [loss.param for loss in lowered.losses] == losses
    assert refused.keys() - lowered.body.keys() == set(losses)
    assert body.keys() >= refused.keys()


def test_an_effort_the_upstream_has_no_field_for_is_a_loss() -> None:
    body = {"model": "m", "messages": [QUESTION], "reasoning_effort": "low"}
    lowered = relay_body(body, Profile(effort_field="none"), model="theirs")
    assert "reasoning_effort" not in lowered.body
    assert lowered.losses == [Loss("reasoning_effort", "dropped")]
    assert relay_body(body, Profile(), model="theirs").body["reasoning_effort"] == "low"


TOOL_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED = {**TOOL_CALL, "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
ANOTHER = {**TOOL_CALL, "id": "b"}
CALLED: dict[str, tuple[Json, Json, Json]] = {
    "no text is sent beside calls unless required": ({}, {}, {}),
    "reasoning, though there is none": ({"empty_reasoning": True}, {}, {"reasoning_content": ""}),
    "reasoning in the field it is replayed in": (
        {"empty_reasoning": True, "replay_reasoning": "reasoning_details"},
        {},
        {"reasoning": ""},
    ),
    "reasoning, where there is some": (
        {"empty_reasoning": True},
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
    ),
    "reasoning, where it is not replayed": (
        {"empty_reasoning": True, "replay_reasoning": "none"},
        {"reasoning": "hm"},
        {"reasoning_content": ""},
    ),
    "a placeholder for a signature": ({"call_signatures": "placeholder"}, {}, {"tool_calls": [SIGNED, ANOTHER]}),
    "a signature of its own": (
        {"call_signatures": "placeholder"},
        {"tool_calls": [{**TOOL_CALL, "extra_content": {"google": {"thought_signature": "s"}}}]},
        {"tool_calls": [{**TOOL_CALL, "extra_content": {"google": {"thought_signature": "s"}}}]},
    ),
}


@pytest.mark.parametrize(("profile", "given", "expected"), CALLED.values(), ids=CALLED)
def test_a_message_with_calls_has_the_form_of_its_family(profile: Json, given: Json, expected: Json) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL, ANOTHER], **given}
    told = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL, ANOTHER], **expected}
    assert relayed(message, **profile) == told


def test_a_message_without_calls_has_nothing_beside_it() -> None:
    assert relayed(ANSWER, empty_reasoning=True, call_signatures="placeholder") == ANSWER


def test_outputs_of_tools_are_cut() -> None:
    message = {"role": "tool", "tool_call_id": "a", "content": "x" * 50}
    body, losses = relay_body({"model": "m", "messages": [message]}, Profile(max_tool_output_bytes=20), model="m")
    assert body["messages"] == [{**message, "content": "x" * 9 + "[truncated]"}]
    assert losses == [Loss("messages[0].content", "truncated")]


def test_tools_are_relayed_in_the_form_of_their_family() -> None:
    profile = Profile(schema_shims=frozenset({"no_schema_key"}), parallel_tool_calls=False)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"$schema": "s"}}}]
    params = {"model": "m", "messages": [QUESTION], "tools": tools}
    body = relay_body(params, profile, model="m").body
    assert body["tools"] == [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert body["parallel_tool_calls"] is False
    assert relay_body({**params, "parallel_tool_calls": True}, profile, model="m").body["parallel_tool_calls"] is True


HI = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("messages", "more", "is_plain"),
    [
        ([HI, {"role": "assistant", "content": "Hi"}, {"role": "developer", "content": "."}], {"seed": 1}, True),
        ([HI], {"tools": []}, False),
        ([{**HI, "name": "ann"}], {}, False),
        ([{**HI, "content": [{"type": "text", "text": "Hi"}]}], {}, False),
        ([HI, {"role": "tool", "content": "Hi"}], {}, False),
    ],
)
def test_text_and_scalars_are_accepted_by_every_upstream(messages: Any, more: Any, is_plain: bool) -> None:
    assert is_plain_request({"model": "m", "messages": messages, **more}) is is_plain


def test_a_volatile_line_of_a_system_message_is_moved_into_the_newest_message() -> None:
    system = {"role": "system", "content": "It is now 10:30.\nBe short."}
    body = {"model": "m", "messages": [system, QUESTION]}
    first, last = relay_body(body, Profile(volatile_lines=("*now*",)), model="theirs").body["messages"]
    assert first == {"role": "system", "content": "Be short."}
    assert last["content"].startswith("Hello")
    assert "It is now 10:30." in last["content"]


def test_a_line_that_no_model_needs_is_left_out() -> None:
    system = {"role": "system", "content": "x-billing: 1\nBe short."}
    body = {"model": "m", "messages": [system, QUESTION]}
    first, last = relay_body(body, Profile(removed_lines=("x-billing:*",)), model="theirs").body["messages"]
    assert first == {"role": "system", "content": "Be short."}
    assert last == QUESTION


SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"$schema": "s", "type": "object"}}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SCHEMA_FORMAT, {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
        ({"type": "json_object"}, {"type": "json_object"}),
    ],
    ids=["schema", "no schema"],
)
def test_the_schema_of_an_answer_is_relayed_in_the_form_of_its_family(given: Json, expected: Json) -> None:
    body = {"model": "m", "messages": [QUESTION], "response_format": given}
    profile = Profile(schema_shims=frozenset({"no_schema_key"}))
    assert relay_body(body, profile, model="m").body["response_format"] == expected
