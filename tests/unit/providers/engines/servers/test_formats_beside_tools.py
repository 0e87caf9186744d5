"""Servers that apply a format to all of the output: a request for both has a loss, because no tool is called.

Measured with llama.cpp (xllamacpp 2026.10): a model that called a tool wrote JSON in place of the call as soon as the
request had a schema. vLLM: its issue 39929.
"""

from typing import Any

import pytest

from providers.config import ProviderConfig
from providers.profiles import build_profile
from providers.registry import build_provider
from tests.unit.support.fake_engine import message
from translation.representation.loss import Loss
from translation.representation.turn import Turn

Json = dict[str, Any]

KINDS: Any = pytest.mark.parametrize("kind", ["vllm", "llama_server"])
TOOL: Json = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SCHEMA: Json = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
LOSS = [Loss("tools", "not called beside a format")]


def provider(kind: Any) -> Any:
    return build_provider("up", ProviderConfig.model_validate({"type": kind, "base_url": "http://127.0.0.1:9/v1"}))


@KINDS
@pytest.mark.parametrize(
    ("fields", "losses"),
    [
        ({}, LOSS),
        ({"tool_choice": "auto"}, LOSS),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}},
            LOSS,
        ),
        ({"text_format": {"type": "json_object"}}, LOSS),
        ({"tool_choice": "none"}, []),
        ({"text_format": {"type": "text"}}, []),
        ({"text_format": None}, []),
        ({"tools": []}, []),
    ],
)
async def test_tools_that_the_model_cannot_call_are_a_loss(kind: Any, fields: Json, losses: list[Loss]) -> None:
    up = provider(kind)
    turn = Turn(**{"model": "m", "items": [message("Hi")], "tools": [TOOL], "text_format": SCHEMA, **fields})
    assert [loss for loss in up.prepare(turn, build_profile(kind, {})).losses if loss.param == "tools"] == losses
    await up.aclose()


@KINDS
async def test_two_passes_leave_the_tools_to_the_model(kind: Any) -> None:
    """The gateway itself applies the format there, and not to a call."""
    up = provider(kind)
    turn = Turn(model="m", items=[message("Hi")], tools=[TOOL], text_format=SCHEMA)
    assert LOSS[0] not in up.prepare(turn, build_profile(kind, {"two_pass": "on", "tool_parser": "hermes"})).losses
    await up.aclose()


CHAT_FORMAT: Json = {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}
ALLOWED: Json = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}}


@KINDS
@pytest.mark.parametrize(
    ("dialect", "body", "losses"),
    [
        ("chat", CHAT_FORMAT, LOSS),
        ("chat", {**CHAT_FORMAT, "tool_choice": ALLOWED}, LOSS),
        ("chat", {**CHAT_FORMAT, "tool_choice": "required"}, []),
        ("chat", {"response_format": {"type": "text"}}, []),
        ("responses", {"text": {"format": SCHEMA}}, LOSS),
        ("responses", {"text": {"verbosity": "low"}}, []),
        ("messages", {"output_config": {"format": SCHEMA}, "tool_choice": {"type": "auto"}}, LOSS),
        ("messages", {"output_config": {"format": SCHEMA}, "tool_choice": {"type": "none"}}, []),
    ],
)
async def test_they_are_a_loss_on_a_relay_too(kind: Any, dialect: Any, body: Json, losses: list[Loss]) -> None:
    up = provider(kind)
    assert list(up.prepare_relay(dialect, {**body, "tools": [TOOL]}).losses) == losses
    await up.aclose()


async def test_llama_cpp_gets_a_schema_with_json_object() -> None:
    """Without one, versions of 2026 enforce nothing (llama.cpp issue 24096)."""
    up = provider("llama_server")
    turn = Turn(model="m", items=[message("Hi")], text_format={"type": "json_object"})
    sent = up.prepare(turn, build_profile("llama_server", {}))._request.body["response_format"]
    assert sent == {"type": "json_schema", "json_schema": {"name": "object", "schema": {"type": "object"}}}
    own = {"type": "json_object", "schema": {"type": "object", "required": ["a"]}}
    for given, relayed in (
        ({"type": "json_object"}, {"type": "json_object", "schema": {"type": "object"}}),
        (own, own),
    ):
        assert up.prepare_relay("chat", {"response_format": given})._body["response_format"] == relayed
    await up.aclose()
