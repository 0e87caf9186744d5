"""A chat request of text and scalars only is relayed without a check, with the same result."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.dialects.chat import endpoint as chat_endpoint
from gateway.dialects.chat.endpoint import CHAT
from gateway.planning import plan
from providers.base import Capabilities
from providers.capabilities import CAPABILITIES
from tests.unit.support.routing import Recorder, plan_body, resolver
from translation.chat.relaying.request import is_plain_request
from translation.errors import InvalidRequest
from translation.hygiene.call_tracker import CallRules
from translation.representation.turn import SHARED_PARAMS

Json = dict[str, Any]

USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "Hello."}
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}

PLAIN: dict[str, Json] = {
    "a question": {},
    "a stream": {"stream": True},
    "a stream with usage": {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": True}},
    "an answer of some length": {"max_tokens": 9},
    "an answer length, given twice": {"max_tokens": 9, "max_completion_tokens": 8},
    "a longer one than there is room for": {"max_completion_tokens": 200},
    "sampling": {"temperature": 0.5, "top_p": 0.1, "seed": 3, "stop": "x", "logit_bias": {"5": 1}},
    "no answer length": {"max_tokens": None, "temperature": None},
    "a conversation": {"messages": [SYSTEM, USER, ANSWER, USER]},
    "several system messages": {"messages": [SYSTEM, {**SYSTEM, "role": "developer"}, USER, SYSTEM]},
    "system messages alone": {"messages": [SYSTEM]},
}

OTHER: dict[str, Json] = {
    "an unknown key": {"best_of": 2},
    "a key without a value": {"tools": None},
    "several choices": {"n": 2},
    "log probabilities": {"logprobs": True},
    "a tool": {"tools": [{"type": "function", "function": {"name": "f"}}]},
    "a form": {"response_format": {"type": "json_object"}},
    "reasoning": {"reasoning_effort": "low"},
    "a switch of ours": {"thinking": False},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "an image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    "a name": {"messages": [{**USER, "name": "Eva"}]},
    "a call": {"messages": [USER, CALL, {"role": "tool", "tool_call_id": "c", "content": "1"}]},
    "a call without its output": {"messages": [USER, CALL]},
    "an output without its call": {"messages": [{"role": "tool", "tool_call_id": "c", "content": "1"}]},
    "a function's output": {"messages": [{"role": "function", "name": "f", "content": "1"}]},
    "an empty answer": {"messages": [USER, {"role": "assistant", "content": None}]},
    "past reasoning": {"messages": [USER, {**ANSWER, "reasoning": "hm"}, USER]},
}

UPSTREAMS: dict[str, tuple[Capabilities, Json]] = {
    "that can all": (CAPABILITIES["openai_compatible"], {}),
    "that can nothing": (Capabilities(), {}),
    "that streams": (Capabilities(streaming=True), {"max_tool_args_bytes": 7}),
    "with a short window": (Capabilities(streaming=True, max_context_window=100), {}),
    "with habits": (
        Capabilities(streaming=True),
        {
            "system_messages": "merge_all",
            "developer_role": "developer",
            "max_tokens_field": "max_completion_tokens",
            "empty_reasoning": True,
            "call_signatures": "placeholder",
        },
    ),
    "that takes what comes": (Capabilities(streaming=True), {"system_messages": "keep", "developer_role": "user"}),
}

Outcome = tuple[bytes | None, list[str], CallRules] | tuple[str, str | None]


def planned(capabilities: Capabilities, habits: Json, asked: Json) -> Outcome:
    """Returns the sent JSON, the losses and the rules for calls; or the refusal."""
    provider = Recorder("up", replace(capabilities, dialects=frozenset({"chat"})))
    body = {"model": "mine", "messages": [USER], **asked}
    CHAT.request.validate(body)
    given = orjson.dumps(body)
    route = resolver({"mine": {"provider": "up", "model": "theirs", **habits}}, provider).resolve("mine")
    try:
        made = plan_body(CHAT, body, route)
    except InvalidRequest as refused:
        return str(refused), refused.param
    finally:
        assert orjson.dumps(body) == given
    assert isinstance(made, plan.RelayPlan)
    assert provider.relayed is not None
    return orjson.dumps(provider.relayed[1]), list(map(str, made.losses)), made.call_rules


@pytest.mark.parametrize(("capabilities", "habits"), UPSTREAMS.values(), ids=UPSTREAMS)
@pytest.mark.parametrize("params", [*PLAIN.values(), *OTHER.values()], ids=[*PLAIN, *OTHER])
def test_skipping_the_check_changes_nothing(
    capabilities: Capabilities, habits: Json, params: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = planned(capabilities, habits, params)
    monkeypatch.setattr(chat_endpoint, "is_plain_request", lambda _body: False)
    assert outcome == planned(capabilities, habits, params)


@pytest.mark.parametrize("params", PLAIN.values(), ids=PLAIN)
def test_text_and_scalars_are_plain(params: Json) -> None:
    assert is_plain_request({"model": "m", "messages": [USER], **params})


@pytest.mark.parametrize("params", OTHER.values(), ids=OTHER)
def test_other_requests_are_checked(params: Json) -> None:
    assert not is_plain_request({"model": "m", "messages": [USER], **params})


def test_all_scalars_that_both_apis_share_are_plain() -> None:
    assert is_plain_request({"messages": [USER], **dict.fromkeys(SHARED_PARAMS)})


def test_a_plain_request_is_not_held_against_its_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "apply_capabilities", None)
    outcome = planned(CAPABILITIES["openai_compatible"], {}, {"stream": True, "max_tokens": 9})
    assert outcome[1] == []
