"""A request is relayed where the upstream can take it as it is, translated where it cannot, and never both."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.planning.plan import RelayPlan, TranslationPlan
from gateway.replies.endpoints import Endpoint
from providers.base import Dialect
from providers.capabilities import CAPABILITIES
from tests.unit.support.routing import Recorder, plan_body, resolver
from translation.errors import Unrepresentable
from translation.representation.loss import Loss

Json = dict[str, Any]

TOOL = {"type": "function", "name": "f", "parameters": {}}
CUSTOM: Json = {"type": "custom", "custom": {"name": "sh"}}
EXEC: Json = {"type": "custom", "name": "exec"}
SPACE: Json = {"type": "namespace", "name": "notes", "description": "", "tools": [TOOL]}

FEATURES: Json = {
    "thinking": {"type": "disabled"},
    "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    "tools": [{"name": "f", "input_schema": {"type": "object"}}, {"type": "bash_20250124", "name": "bash"}],
    "tool_choice": {"type": "none"},
}
"""Parameters of a Messages request that some servers leave out."""


def dialect_of(endpoint: Endpoint) -> Dialect:
    assert endpoint.relay is not None
    return endpoint.relay.dialect


def plan(
    endpoint: Endpoint,
    *dialects: Dialect,
    strict: bool = False,
    model: Json | None = None,
    losses: Any = (),
    **params: Any,
) -> tuple[RelayPlan | TranslationPlan, Recorder]:
    capabilities = replace(CAPABILITIES["openai_compatible"], dialects=frozenset[Any](dialects))
    provider = Recorder("up", capabilities, losses=losses)
    question: Json = {"input": "Hi"} if endpoint is RESPONSES else {"messages": [{"role": "user", "content": "Hi"}]}
    body = {"model": "mine", **question, **params}
    endpoint.request.validate(body)
    route = resolver({"mine": {"provider": "up", "model": "theirs", **(model or {})}}, provider).resolve("mine")
    return plan_body(endpoint, body, route, strict=strict), provider


RELAYED: dict[str, tuple[Endpoint, tuple[Dialect, ...], Json]] = {
    "chat to chat": (CHAT, ("chat",), {}),
    "Responses to Responses": (RESPONSES, ("responses",), {}),
    "either to an upstream with both": (RESPONSES, ("chat", "responses"), {}),
    "function tools": (CHAT, ("chat",), {"tools": [{"type": "function", "function": {"name": "f"}}]}),
    "several choices": (CHAT, ("chat",), {"n": 2}),
    "audio output": (CHAT, ("chat",), {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}}),
    "stored history": (RESPONSES, ("responses",), {"previous_response_id": "resp_1"}),
    "tools the upstream runs": (RESPONSES, ("responses",), {"tools": [{"type": "web_search"}]}),
    "tools of all kinds": (RESPONSES, ("chat", "responses"), {"tools": [EXEC, SPACE, {"type": "apply_patch"}]}),
    "tools of kinds that the gateway does not know": (
        RESPONSES,
        ("responses",),
        {"tools": [{"type": "of_the_future"}]},
    ),
    "a Messages request with all features": (
        MESSAGES,
        ("chat", "messages"),
        {"max_tokens": 9, **FEATURES},
    ),
    "a search of a later version": (
        RESPONSES,
        ("chat", "responses"),
        {"tools": [{"type": "web_search_2027_01_01"}]},
    ),
}


@pytest.mark.parametrize(("endpoint", "dialects", "params"), RELAYED.values(), ids=RELAYED)
def test_the_upstream_gets_the_clients_body(endpoint: Endpoint, dialects: tuple[Dialect, ...], params: Json) -> None:
    planned, provider = plan(endpoint, *dialects, **params)
    assert isinstance(planned, RelayPlan)
    assert provider.relayed is not None
    dialect, body = provider.relayed
    assert dialect == endpoint.name
    assert body["model"] == "theirs"
    assert body.items() >= params.items()
    assert provider.turn is None


FUNCTIONS_ONLY = {"capabilities": {"tool_kinds": ["function"], "relayed_kinds": []}}
ADDED = {"type": "additional_tools", "role": "developer", "tools": [EXEC]}
SWITCHED = {"thinking_switch": "chat_template_kwargs"}

TRANSLATED: dict[str, tuple[Endpoint, tuple[Dialect, ...], Json, Json]] = {
    "Responses to chat": (RESPONSES, ("chat",), {}, {}),
    "chat to Responses": (CHAT, ("responses",), {}, {}),
    "either to an upstream with neither": (CHAT, (), {}, {}),
    "think tags": (CHAT, ("chat",), {"parsing_format": "think_tags"}, {}),
    "calls in text": (CHAT, ("chat",), {"tool_parser": "hermes"}, {}),
    "tools in words": (CHAT, ("chat",), {"text_tool_calls": "hermes"}, {}),
    "a limit for calls": (CHAT, ("chat",), {"max_tool_calls_per_turn": 1}, {}),
    "empty answers that are mended": (RESPONSES, ("responses",), {"fix_empty_final": True}, {}),
    "our own switch, turned off": (RESPONSES, ("responses",), SWITCHED, {"thinking": False}),
    "our own extensions": (CHAT, ("chat",), {}, {"extensions": True}),
    "tools that ride on functions": (CHAT, ("chat",), {}, {"tools": [CUSTOM]}),
    "tools that a Responses server would leave out": (RESPONSES, ("responses",), FUNCTIONS_ONLY, {"tools": [SPACE]}),
    "a search that a Responses server would leave out": (
        RESPONSES,
        ("responses",),
        FUNCTIONS_ONLY,
        {"tools": [{"type": "web_search"}]},
    ),
    "such tools among the items": (
        RESPONSES,
        ("chat", "responses"),
        FUNCTIONS_ONLY,
        {"input": [ADDED, {"role": "user", "content": "Hi"}]},
    ),
    **{
        f"{name} that a Messages server would leave out": (
            MESSAGES,
            ("chat", "messages"),
            {"capabilities": {"relayed_features": []}},
            {"max_tokens": 9, name: value},
        )
        for name, value in FEATURES.items()
    },
    "our own switch for the thinking of a Messages request": (
        MESSAGES,
        ("chat", "messages"),
        SWITCHED,
        {"max_tokens": 9, "thinking": {"type": "adaptive"}},
    ),
    "a budget for reasoning": (RESPONSES, ("responses",), {}, {"reasoning": {"max_tokens": 9}}),
}


@pytest.mark.parametrize(("endpoint", "dialects", "model", "params"), TRANSLATED.values(), ids=TRANSLATED)
def test_the_upstream_gets_a_turn(endpoint: Endpoint, dialects: tuple[Dialect, ...], model: Json, params: Json) -> None:
    planned, provider = plan(endpoint, *dialects, model=model, **params)
    assert isinstance(planned, TranslationPlan)
    assert provider.turn is not None
    assert provider.turn.model == "theirs"
    assert provider.relayed is None


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES], ids=["chat", "Responses"])
def test_parameters_reported_as_dropped_are_not_sent(endpoint: Endpoint) -> None:
    tool = TOOL if endpoint is RESPONSES else {"type": "function", "function": {"name": "f"}}
    model = {"capabilities": {"parallel_tools": False}}
    planned, provider = plan(endpoint, dialect_of(endpoint), model=model, tools=[tool], parallel_tool_calls=True)
    assert planned.losses == [Loss("parallel_tool_calls", "dropped")]
    assert provider.relayed is not None
    assert "parallel_tool_calls" not in provider.relayed[1]


OURS: dict[str, tuple[Endpoint, Json, Json, list[Loss]]] = {
    "a switch the upstream has no word for": (CHAT, {}, {"thinking": False}, [Loss("thinking", "dropped")]),
    "a switch for an upstream that never reasons": (
        CHAT,
        {"capabilities": {"reasoning": False}},
        {"thinking": True},
        [Loss("thinking", "dropped")],
    ),
    "thinking, forbidden to an upstream that never reasons": (
        CHAT,
        {"capabilities": {"reasoning": False}},
        {"thinking": False},
        [],
    ),
    "extensions that the Responses API has none of": (
        RESPONSES,
        {},
        {"extensions": True},
        [Loss("extensions", "dropped")],
    ),
    "extensions, turned off": (CHAT, {}, {"extensions": False}, []),
}


@pytest.mark.parametrize(("endpoint", "model", "params", "losses"), OURS.values(), ids=OURS)
def test_a_relay_reports_losses_of_parameters_that_the_gateway_implements(
    endpoint: Endpoint, model: Json, params: Json, losses: list[Loss]
) -> None:
    planned, provider = plan(endpoint, dialect_of(endpoint), model=model, **params)
    assert isinstance(planned, RelayPlan)
    assert planned.losses == losses
    assert provider.relayed is not None
    assert not params.keys() & provider.relayed[1].keys()


@pytest.mark.parametrize("thinking", [True, False])
def test_a_relayed_effort_turns_thinking_on(thinking: bool) -> None:
    planned, provider = plan(CHAT, "chat", thinking=thinking, reasoning_effort="high")
    assert isinstance(planned, RelayPlan)
    assert planned.losses == ([] if thinking else [Loss("thinking", "dropped")])
    assert provider.relayed is not None
    assert provider.relayed[1]["reasoning_effort"] == "high"


REFUSED: dict[str, tuple[Endpoint, tuple[Dialect, ...], Json, str]] = {
    "images, relayed as Responses": (
        RESPONSES,
        ("responses",),
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]},
        "input[0]",
    ),
    "several choices, translated": (CHAT, ("responses",), {"n": 2}, "n"),
    "audio output, translated": (
        CHAT,
        (),
        {"modalities": ["audio"], "audio": {"voice": "a", "format": "wav"}},
        "modalities",
    ),
    "stored history, translated": (RESPONSES, ("chat",), {"background": True}, "background"),
}


@pytest.mark.parametrize(("endpoint", "dialects", "params", "param"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_comes_before_anything_is_sent(
    endpoint: Endpoint, dialects: tuple[Dialect, ...], params: Json, param: str
) -> None:
    with pytest.raises(Unrepresentable) as refusal:
        plan(endpoint, *dialects, model={"capabilities": {"images": False}}, **params)
    assert refusal.value.param == param


@pytest.mark.parametrize(("strict", "model"), [(True, {}), (False, {"strict": True})], ids=["the client", "the model"])
def test_in_strict_mode_a_loss_is_a_refusal(strict: bool, model: Json) -> None:
    with pytest.raises(Unrepresentable, match="max_tool_calls=dropped") as refusal:
        plan(RESPONSES, "chat", strict=strict, model=model, max_tool_calls=1)
    assert refusal.value.param == "max_tool_calls"


def test_losses_of_every_step_are_reported() -> None:
    model = {"capabilities": {"parallel_tools": False}}
    body: Json = {"max_tool_calls": 1, "parallel_tool_calls": True, "tools": [TOOL, {"type": "web_search"}]}
    planned, _ = plan(RESPONSES, "chat", model=model, losses=[Loss("seed", "dropped")], **body)
    assert list(map(str, planned.losses)) == [
        "max_tool_calls=dropped",
        "parallel_tool_calls=dropped",
        "tools[1]=web_search left out",
        "seed=dropped",
    ]


def test_a_request_without_a_loss_passes_in_strict_mode() -> None:
    planned, _ = plan(CHAT, "chat", strict=True)
    assert planned.losses == []


def test_losses_and_refusals_have_the_clients_names() -> None:
    planned, _ = plan(CHAT, "responses", losses=[Loss("input", "reasoning dropped")])
    assert list(planned.losses) == [Loss("messages", "reasoning dropped")]
    with pytest.raises(Unrepresentable) as refusal:
        plan(CHAT, "responses", losses=[Loss("max_output_tokens", "raised to 16")], strict=True)
    assert refusal.value.param == "max_completion_tokens"


CALLED: dict[str, tuple[Endpoint, Json]] = {
    "chat": (
        CHAT,
        {
            "messages": [
                *({"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": ""}}]},),
                *({"role": "tool", "tool_call_id": "x", "content": "ok"},),
            ]
            * 2
        },
    ),
    "Responses": (
        RESPONSES,
        {
            "input": [
                {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "x", "output": "ok"},
            ]
            * 2
        },
    ),
}


@pytest.mark.parametrize(("endpoint", "params"), CALLED.values(), ids=CALLED)
def test_a_relayed_reply_knows_the_ids_that_were_sent_upstream(endpoint: Endpoint, params: Json) -> None:
    planned, _ = plan(endpoint, dialect_of(endpoint), model={"max_tool_args_bytes": 7}, **params)
    assert isinstance(planned, RelayPlan)
    assert planned.call_rules.used_ids == {"x", "x__2"}
    assert planned.call_rules.max_args_bytes == 7


KEEPING: dict[str, tuple[Endpoint, Json, bool]] = {
    "chat, which goes on from nothing": (CHAT, {"store": True}, True),
    "a response that is not stored": (RESPONSES, {"store": False}, True),
    "a response, which is stored unless that is forbidden": (RESPONSES, {}, False),
    "a response in a conversation": (RESPONSES, {"store": False, "conversation": "c"}, False),
}


@pytest.mark.parametrize(("endpoint", "params", "renames"), KEEPING.values(), ids=KEEPING)
def test_ids_are_changed_unless_the_upstream_continues_from_them(
    endpoint: Endpoint, params: Json, renames: bool
) -> None:
    planned, _ = plan(endpoint, dialect_of(endpoint), **params)
    assert isinstance(planned, RelayPlan)
    assert planned.call_rules.renames_ids is renames


def test_parameters_that_a_relays_upstream_ignores_are_losses() -> None:
    unheld = Loss("response_format", "uniqueItems not enforced")
    planned, _ = plan(CHAT, "chat", losses=[unheld])
    assert isinstance(planned, RelayPlan)
    assert list(planned.losses) == [unheld]
    with pytest.raises(Unrepresentable, match="uniqueItems not enforced") as refused:
        plan(CHAT, "chat", losses=[unheld], strict=True)
    assert refused.value.param == "response_format"


SEARCH_TOOL: Json = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("search_sources", "tools", "asks"), [(True, [SEARCH_TOOL], True), (True, [], False), (False, [SEARCH_TOOL], False)]
)
def test_pages_of_searches_are_requested_if_available(*, search_sources: bool, tools: list[Json], asks: bool) -> None:
    hosted = frozenset({"web_search"})
    capabilities = replace(CAPABILITIES["openai_compatible"], hosted_tools=hosted, search_sources=search_sources)
    provider = Recorder("up", capabilities)
    route = resolver({"mine": {"provider": "up"}}, provider).resolve("mine")
    body = {"model": "mine", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    plan_body(MESSAGES, body, route)
    assert provider.turn is not None
    assert provider.turn.search_sources is asks
