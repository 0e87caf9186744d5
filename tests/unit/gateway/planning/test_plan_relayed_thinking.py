"""A relayed chat request says about thinking what a translated one would, in the parameters of its upstream."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.config.settings import parse_settings
from gateway.dialects.chat.endpoint import CHAT
from gateway.planning.plan import RelayPlan
from gateway.planning.resolver import Resolver
from providers.capabilities import CAPABILITIES
from providers.config import ProviderType
from providers.http.dialects import DIALECTS
from tests.unit.gateway.planning.every_field.upstream_requests import RecordingProvider
from tests.unit.support.routing import plan_body
from translation.errors import Unrepresentable
from translation.representation.json_types import Json

SAID: Final[dict[str, Json]] = {
    "thinking": {"thinking": True},
    "no thinking": {"thinking": False},
    "an effort": {"reasoning_effort": "high"},
    "no effort": {"reasoning_effort": "none"},
    "an effort in an object": {"reasoning": {"effort": "high"}},
    "no effort in an object": {"reasoning": {"effort": "none"}},
    "a switch in an object, on": {"reasoning": {"enabled": True}},
    "a switch in an object, off": {"reasoning": {"enabled": False}},
    "a budget": {"reasoning": {"max_tokens": 500}},
    "a budget and a switch": {"reasoning": {"max_tokens": 500, "enabled": True}},
    "a budget and another switch": {"reasoning": {"max_tokens": 500}, "thinking": True},
    "a summary": {"reasoning": {"summary": "detailed"}},
    "a summary as each model gives it": {"reasoning": {"summary": "auto"}},
    "nothing": {"reasoning": {}},
    "nulls": {"reasoning": {"effort": None}, "thinking": None, "reasoning_effort": None},
    "two efforts": {"reasoning": {"effort": "high"}, "reasoning_effort": "low"},
    "two switches": {"reasoning": {"enabled": False}, "thinking": True},
    "an effort and a switch": {"reasoning_effort": "high", "thinking": False},
    "no effort and a switch": {"reasoning_effort": "none", "thinking": True},
    "no effort and no thinking": {"reasoning_effort": "none", "thinking": False},
    "all at once": {"reasoning_effort": "high", "thinking": True, "reasoning": {"max_tokens": 9, "enabled": True}},
    "an argument of the template": {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "none"},
    "extensions that are off": {"extensions": False},
}

UPSTREAMS: Final[dict[str, tuple[ProviderType, Json]]] = {
    **{kind: (kind, {}) for kind in ("openai", "openai_compatible", "openrouter", "vllm", "llama_server")},
    "a switch by a type": ("openai_compatible", {"thinking_switch": "thinking_type"}),
    "a switch by a type, and no effort": (
        "openai_compatible",
        {"thinking_switch": "thinking_type", "effort_field": "none"},
    ),
    "an object without a switch": ("openai_compatible", {"effort_field": "reasoning"}),
    "an object and a switch of the template": (
        "openai_compatible",
        {"effort_field": "reasoning", "thinking_switch": "chat_template_kwargs"},
    ),
    "a refused effort": ("openai_compatible", {"refused_params": ["reasoning_effort"]}),
    "a refused switch": ("vllm", {"refused_params": ["chat_template_kwargs"]}),
    "a refused type": (
        "openai_compatible",
        {"thinking_switch": "thinking_type", "refused_params": ["thinking"]},
    ),
}

WRITTEN: Final = ("thinking", "reasoning", "reasoning_effort", "chat_template_kwargs")


def send(
    upstream: str, params: Json, *, relays: bool, capabilities: Json | None = None, strict: bool = False
) -> tuple[Json, Sequence[str]]:
    """Returns what an upstream is sent about thinking, and the losses."""
    kind, profile = UPSTREAMS[upstream]
    provider = RecordingProvider(
        "up", replace(CAPABILITIES[kind], dialects=frozenset({"chat"})), lower=DIALECTS["chat"].lower
    )
    model = {"provider": "up", "model": "m", **profile, "capabilities": capabilities or {}}
    settings = parse_settings(
        {
            "providers": {"up": {"type": kind, "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}},
            "models": {"mine": model},
        },
        environ={},
    )
    body = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}], **params}
    CHAT.request.validate(body)
    endpoint = CHAT if relays else replace(CHAT, relay=None)
    planned = plan_body(endpoint, body, Resolver(settings, {"up": provider}).resolve("mine"), strict=strict)
    assert isinstance(planned, RelayPlan) is relays
    assert provider.sent.keys() <= {"model", "messages", "stream", "stream_options", *WRITTEN}
    sent = {name: provider.sent[name] for name in WRITTEN if name in provider.sent}
    return sent, sorted({str(loss) for loss in planned.losses})


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("params", SAID.values(), ids=SAID)
def test_a_relay_sends_what_a_translation_sends(upstream: str, params: Json) -> None:
    relayed, relay_losses = send(upstream, params, relays=True)
    translated, losses = send(upstream, params, relays=False)
    given = params.get("reasoning") or {}
    if UPSTREAMS[upstream][1].get("effort_field") == "reasoning" or upstream == "openrouter":
        # The object is sent with all its keys.
        forwarded = {key: given[key] for key in ("summary",) if key in given}
        expected = forwarded | translated.get("reasoning", {})
        translated = {**translated, "reasoning": expected} if expected else translated
        losses = [loss for loss in losses if not loss.startswith("reasoning.summary")]
    if "chat_template_kwargs" in UPSTREAMS[upstream][1].get("refused_params", ()):
        relay_losses = [loss for loss in relay_losses if loss.removesuffix("=dropped") not in params]
        losses = [loss for loss in losses if loss.removesuffix("=dropped") not in params]
    elif "chat_template_kwargs" in params:  # only some profiles list it, and a relay forwards what is no parameter
        translated = {"chat_template_kwargs": params["chat_template_kwargs"], **translated}
        losses = [loss for loss in losses if not loss.startswith("chat_template_kwargs")]
    assert relayed == translated
    assert relay_losses == losses


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("params", [{"thinking": True}, {"reasoning": {"enabled": True}}], ids=str)
def test_an_upstream_that_never_reasons_is_sent_nothing_about_it(upstream: str, params: Json) -> None:
    assert send(upstream, params, relays=True, capabilities={"reasoning": False}) == ({}, ["thinking=dropped"])
    off: Json = {"thinking": False} if "thinking" in params else {"reasoning": {"enabled": False}}
    assert send(upstream, off, relays=True, capabilities={"reasoning": False}) == ({}, [])


OBJECTS: Final[dict[str, tuple[str, Json, Json, list[str]]]] = {
    "an object as its server reads it": (
        "a switch by a type",
        {"type": "enabled", "budget_tokens": 9, "keep": "all"},
        {"thinking": {"type": "enabled", "budget_tokens": 9, "keep": "all"}},
        [],
    ),
    "an object that turns thinking off": (
        "a switch by a type",
        {"type": "disabled"},
        {"thinking": {"type": "disabled"}},
        [],
    ),
    "an object of a type that the gateway does not know": (
        "a switch by a type",
        {"type": "auto"},
        {"thinking": {"type": "auto"}},
        [],
    ),
    "a switch of the template": (
        "vllm",
        {"type": "disabled"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        [],
    ),
    "a switch of the template, without a budget": (
        "vllm",
        {"type": "adaptive", "budget_tokens": 9, "keep": "all"},
        {"chat_template_kwargs": {"enable_thinking": True}},
        ["thinking.budget_tokens=dropped", "thinking.keep=dropped"],
    ),
    "OpenRouter's object, with the budget": (
        "openrouter",
        {"type": "enabled", "budget_tokens": 9},
        {"reasoning": {"max_tokens": 9, "enabled": True}},
        [],
    ),
    "nothing without a switch": ("openai_compatible", {"type": "disabled"}, {}, ["thinking=dropped"]),
    "nothing without a switch, and other keys": (
        "openai_compatible",
        {"type": "enabled", "keep": "all"},
        {},
        ["thinking.keep=dropped", "thinking=dropped"],
    ),
    "an effort for a budget without a switch": (
        "openai_compatible",
        {"type": "enabled", "budget_tokens": 9},
        {"reasoning_effort": "low"},
        ["thinking.budget_tokens=as effort low"],
    ),
    "nothing for an unknown type": ("vllm", {"type": "auto"}, {}, ["thinking.type=dropped"]),
}


@pytest.mark.parametrize(("upstream", "thinking", "sent", "losses"), OBJECTS.values(), ids=OBJECTS)
def test_the_object_of_the_upstreams_is_relayed(upstream: str, thinking: Json, sent: Json, losses: list[str]) -> None:
    assert send(upstream, {"thinking": thinking}, relays=True) == (sent, losses)


@pytest.mark.parametrize(
    ("enabled", "kind", "losses"),
    [
        (True, "enabled", []),
        (False, "enabled", ["reasoning.enabled=dropped"]),
        (False, "auto", ["reasoning.enabled=dropped"]),
    ],
)
def test_the_object_of_the_upstreams_counts_more_than_another(enabled: bool, kind: str, losses: list[str]) -> None:
    params: Json = {"thinking": {"type": kind}, "reasoning": {"enabled": enabled}}
    assert send("a switch by a type", params, relays=True) == ({"thinking": {"type": kind}}, losses)


SWITCHES: Final[tuple[Json, ...]] = (
    {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "enabled"}},
    {"thinking": False},
    {"thinking": True},
)


@pytest.mark.parametrize("params", SWITCHES, ids=str)
def test_a_strict_request_does_not_switch_thinking_where_there_is_no_switch(params: Json) -> None:
    with pytest.raises(Unrepresentable) as refused:
        send("openai_compatible", params, relays=True, strict=True)
    assert refused.value.param == "thinking"


OTHER_KEYS: Final[dict[str, tuple[str, Json, list[str]]]] = {
    "vllm": ("vllm", {"reasoning_effort": "low"}, ["reasoning.exclude=dropped"]),
    "openrouter": ("openrouter", {"reasoning": {"exclude": True, "effort": "low"}}, []),
}


@pytest.mark.parametrize(("upstream", "sent", "losses"), OTHER_KEYS.values(), ids=OTHER_KEYS)
def test_only_openrouter_gets_the_other_keys_of_its_object(upstream: str, sent: Json, losses: list[str]) -> None:
    params = {"reasoning": {"exclude": True, "effort": "low"}}
    assert send(upstream, params, relays=True) == (sent, losses)


def test_every_documented_field_of_chat_is_said_here() -> None:
    page = Path("docs/extensions.md").read_text()
    section = page.partition("## Request fields")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \| (both|chat) \|", section, re.MULTILINE)
    documented = {name for names, _ in rows for name in re.findall(r"`([^`]+)`", names)}
    said: set[Any] = {name for params in SAID.values() for name in params}
    said |= {f"reasoning.{key}" for params in SAID.values() for key in params.get("reasoning") or {}}
    assert documented
    assert documented <= said
