"""A turn is checked against the capabilities of its upstream before anything is sent."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.planning.capability_check import apply_capabilities, require_continuable
from gateway.replies.endpoints import Endpoint
from providers.base import Capabilities, Dialect
from translation.errors import Unrepresentable
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

Json = dict[str, Any]

EVERYTHING = Capabilities(
    streaming=True,
    tools=True,
    parallel_tools=True,
    images=True,
    audio=True,
    files=True,
    reasoning=True,
    json_schema=True,
    logprobs=True,
    choices=True,
)
TOOL = {"type": "function", "name": "f"}


def turn(**params: Any) -> Turn:
    return Turn(**{"model": "m", "items": [], "stream": False, **params})


def user_message(*parts: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(parts)}


ENDPOINTS: dict[Dialect, Endpoint] = {"chat": CHAT, "responses": RESPONSES}

REFUSALS: dict[str, tuple[Json, str, str, str]] = {
    "streaming": ({"stream": True}, "streaming", "stream", "stream"),
    "tools": ({"tools": [TOOL]}, "tools", "tools", "tools"),
    "structured output": ({"text_format": {"type": "json_schema"}}, "json_schema", "text.format", "response_format"),
    "log probabilities": ({"sampling": {"logprobs": True}}, "logprobs", "include", "logprobs"),
    "images": ({"items": [user_message(), user_message({"type": "input_image"})]}, "images", "input[1]", "messages[1]"),
    "audio": ({"items": [user_message({"type": "input_audio"})]}, "audio", "input[0]", "messages[0]"),
    "files": ({"items": [user_message({"type": "input_file"})]}, "files", "input[0]", "messages[0]"),
    "images in a tool's output": (
        {"items": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]},
        "images",
        "input[0]",
        "messages[0]",
    ),
}


@pytest.mark.parametrize(("fields", "needed", "responses", "chat"), REFUSALS.values(), ids=REFUSALS)
def test_unsupported_features_are_refused_by_name(fields: Json, needed: str, responses: str, chat: str) -> None:
    gap: Json = {needed: False}
    lacking = replace(EVERYTHING, **gap)
    params: dict[Dialect, str] = {"responses": responses, "chat": chat}
    for dialect, param in params.items():
        apply_capabilities(turn(**fields), EVERYTHING, ENDPOINTS[dialect], [], relayed=False)
        with pytest.raises(Unrepresentable) as refusal:
            apply_capabilities(turn(**fields), lacking, ENDPOINTS[dialect], [], relayed=False)
        assert refusal.value.param == param


FINE: dict[str, Json] = {
    "nothing special": {},
    "tools that may not be called": {"tools": [TOOL], "tool_choice": "none"},
    "text": {"items": [user_message({"type": "input_text", "text": "Hi"})], "text_format": {"type": "text"}},
    "one choice": {"sampling": {"n": 1, "logprobs": False}},
    "a tool's output as text": {"items": [{"type": "function_call_output", "output": "4"}]},
    "no reasoning": {"reasoning": {"effort": "none"}},
}


@pytest.mark.parametrize("params", FINE.values(), ids=FINE)
def test_empty_features_need_no_capability(params: Json) -> None:
    losses: list[Loss] = []
    apply_capabilities(turn(**params), Capabilities(), RESPONSES, losses, relayed=False)
    assert losses == []


CHOICES = [(True, True, True), (False, True, False), (True, False, False)]


@pytest.mark.parametrize(("relayed", "choices", "allowed"), CHOICES, ids=["relayed", "translated", "not known there"])
def test_several_choices_need_a_relay_to_an_upstream_that_gives_them(
    relayed: bool, choices: bool, allowed: bool
) -> None:
    asked, capabilities = turn(sampling={"n": 2}), replace(EVERYTHING, choices=choices)
    if allowed:
        losses: list[Loss] = []
        apply_capabilities(asked, capabilities, CHAT, losses, relayed=relayed)
        assert losses == []
        return
    with pytest.raises(Unrepresentable) as refusal:
        apply_capabilities(asked, capabilities, CHAT, [], relayed=relayed)
    assert refusal.value.param == "n"


@pytest.mark.parametrize(("dialect", "param"), [("responses", "max_output_tokens"), ("chat", "max_completion_tokens")])
def test_an_answer_that_cannot_fit_the_context_is_refused(dialect: Dialect, param: str) -> None:
    small = replace(EVERYTHING, max_context_window=100)
    apply_capabilities(turn(max_output_tokens=100), small, ENDPOINTS[dialect], [], relayed=True)
    with pytest.raises(Unrepresentable) as refusal:
        apply_capabilities(turn(max_output_tokens=101), small, ENDPOINTS[dialect], [], relayed=True)
    assert refusal.value.param == param
    message = f"'{param}' is 101, and the model's context is 100 tokens for input and answer: ask for fewer"
    assert refusal.value.message == message


def test_parameters_reported_as_dropped_are_dropped() -> None:
    asked = turn(tools=[TOOL], parallel_tool_calls=True, reasoning={"effort": "low"})
    losses: list[Loss] = []
    lacking = replace(EVERYTHING, parallel_tools=False, reasoning=False)
    fitted, dropped = apply_capabilities(asked, lacking, CHAT, losses, relayed=False)
    assert losses == [Loss("parallel_tool_calls", "dropped"), Loss("reasoning_effort", "dropped")]
    assert fitted == turn(tools=[TOOL])
    assert dropped == {"parallel_tool_calls", "reasoning", "reasoning_effort", "thinking"}


def test_supported_features_are_sent_as_requested() -> None:
    asked = turn(tools=[TOOL], parallel_tool_calls=True, reasoning={"effort": "low"})
    losses: list[Loss] = []
    assert apply_capabilities(asked, EVERYTHING, CHAT, losses, relayed=False) == (asked, set())
    assert losses == []


@pytest.mark.parametrize("endpoint", [MESSAGES, GEMINI, OLLAMA_CHAT], ids=["messages", "gemini", "ollama"])
def test_an_answer_that_the_client_began_is_refused_if_two_passes_would_think_before_it(endpoint: Endpoint) -> None:
    begun = [user_message(), {"type": "message", "role": "assistant", "content": "Hello! How"}]
    one, two = Profile(), Profile(two_pass="on")
    with pytest.raises(Unrepresentable, match="cannot continue an answer") as refusal:
        require_continuable(turn(items=begun), two, endpoint)
    assert refusal.value.param == endpoint.param_names.input
    require_continuable(turn(items=begun, thinking=False), two, endpoint)
    require_continuable(turn(items=begun), one, endpoint)
    require_continuable(turn(items=begun[:1]), two, endpoint)
    require_continuable(turn(items=begun), two, RESPONSES)
