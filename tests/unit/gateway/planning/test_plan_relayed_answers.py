"""A relayed reply to a request that turns thinking off is all answer, as a translated one is."""

from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.planning.plan import RelayPlan
from gateway.planning.resolver import Resolver
from gateway.replies.endpoints import Presentation, ReplyIdentity, TargetPresentation
from providers.capabilities import CAPABILITIES
from tests.unit.support.routing import Recorder, plan_body, resolver
from tests.upstream.builders import DONE, chat_chunk, data_frame, whole_chat
from translation.representation.json_types import Json

OPEN: Final[Json] = {"parsing_format": "leading_think_tags", "think_open": True}
UNKNOWN: Final[Json] = {"parsing_format": "leading_think_tags"}

OFF: Final[dict[str, Json]] = {
    "a switch": {"thinking": False},
    "a switch in an object": {"reasoning": {"enabled": False}},
    "a type": {"thinking": {"type": "disabled"}},
    "no effort": {"reasoning_effort": "none"},
    "no effort in an object": {"reasoning": {"effort": "none"}},
    "an argument of the template": {"chat_template_kwargs": {"enable_thinking": False}},
}

ON: Final[dict[str, Json]] = {
    "nothing": {},
    "a switch": {"thinking": True},
    "a switch in an object": {"reasoning": {"enabled": True}},
    "a type": {"thinking": {"type": "enabled"}},
    "an effort": {"reasoning_effort": "high"},
    "a budget": {"reasoning": {"max_tokens": 9}},
    "an argument of the template": {"chat_template_kwargs": {"enable_thinking": True}},
}

SWITCHES: Final[dict[str, Json]] = {
    "by the template": {"thinking_switch": "chat_template_kwargs"},
    "by OpenRouter's object": {"thinking_switch": "reasoning_enabled", "effort_field": "reasoning"},
    "by a type": {"thinking_switch": "thinking_type"},
    "by a type, and no effort": {"thinking_switch": "thinking_type", "effort_field": "none"},
}


def resolve(habits: Json) -> tuple[Resolver, Recorder]:
    provider = Recorder("up", replace(CAPABILITIES["openai_compatible"], dialects=frozenset({"chat"})))
    return resolver({"mine": {"provider": "up", "model": "theirs", **habits}}, provider), provider


def show(habits: Json, params: Json, text: str) -> list[tuple[str, str]]:
    """Returns (content, reasoning) of a relayed reply as JSON, as a stream, and as JSON that came as a stream."""
    route = resolve(habits)[0].resolve("mine")
    body: Json = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}], **params}
    CHAT.request.validate(body)
    planned = plan_body(CHAT, body, route)
    assert isinstance(planned, RelayPlan)
    common = TargetPresentation(frozenset({"reasoning"}), 10_000, lambda: 0, None, route.target.profile)
    presentation, identity = Presentation(common, False, str), ReplyIdentity("chatcmpl_1", 0, "mine")
    presentation.call_rules = planned.call_rules
    stream = b"".join(map(data_frame, (chat_chunk({"content": text}), chat_chunk({}, finish_reason="stop")))) + DONE
    relay = planned.relay.make_relay(body, identity, presentation)
    frames = relay.feed(stream)
    chunks = [orjson.loads(line[6:]) for line in frames.splitlines() if line.startswith(b"data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    streamed = tuple("".join(delta.get(key) or "" for delta in deltas) for key in ("content", "reasoning"))
    replies = (
        planned.relay.build_json(body, whole_chat(text), identity, presentation),
        planned.relay.collect_stream(body, stream, identity, presentation),
    )
    messages: list[dict[str, Any]] = [reply["choices"][0]["message"] for reply in replies]
    whole, collected = [(message.get("content") or "", message.get("reasoning") or "") for message in messages]
    assert presentation.common is common
    assert len(streamed) == 2
    return [whole, streamed, collected]


@pytest.mark.parametrize("switch", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("params", OFF.values(), ids=OFF)
def test_text_after_thinking_was_turned_off_is_the_answer(params: Json, switch: Json) -> None:
    assert show({**OPEN, **switch}, params, "Paris.") == [("Paris.", "")] * 3
    words = "Use </think> to close."
    assert show({**OPEN, **switch}, params, words) == [(words, "")] * 3
    assert show({**UNKNOWN, **switch}, params, words) == [(words, "")] * 3
    assert show({**OPEN, **switch}, params, "<think>Hm.</think>Paris.") == [("Paris.", "Hm.")] * 3


@pytest.mark.parametrize("switch", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("params", ON.values(), ids=ON)
def test_text_begins_inside_thinking_otherwise(params: Json, switch: Json) -> None:
    assert show({**OPEN, **switch}, params, "Hm.</think>Paris.") == [("Paris.", "Hm.")] * 3
    assert show({**UNKNOWN, **switch}, params, "Hm.</think>Paris.")[0] == ("Paris.", "Hm.")


@pytest.mark.parametrize("params", [{"thinking": False}, {"thinking": {"type": "disabled"}}], ids=str)
def test_an_upstream_that_was_not_told_thinks(params: Json) -> None:
    assert show(OPEN, params, "Hm.</think>Paris.") == [("Paris.", "Hm.")] * 3


def test_a_profile_that_leaves_text_as_it_is_needs_no_other_relay() -> None:
    route = resolve({"parsing_format": "direct_response"})[0].resolve("mine")
    body: Json = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "none"}
    planned = plan_body(CHAT, body, route)
    assert isinstance(planned, RelayPlan)
    assert planned.relay is CHAT.relay
