"""Request defaults of the operator: on both APIs, relayed and translated, as far as the upstream supports them."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text
from translation.representation.json_types import Json

ROUTING = {"order": ["deepinfra"], "allow_fallbacks": False}
DEFAULTS = {"provider": ROUTING, "temperature": 0.5, "reasoning_effort": "low"}


async def ask(api: str, kind: str, defaults: Json, **params: Any) -> tuple[Json, Any]:
    """Returns the body that an upstream got of a request with these parameters, and the raw reply."""
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Hi"))
        config: dict[str, Any] = {
            "providers": {"up": {"type": kind, "base_url": upstream.url, "api_key": "k"}},
            "models": {"m": {"provider": "up", "request_defaults": defaults}},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                if api == "chat":
                    create: Any = client.chat.completions.with_raw_response.create
                    raw = await create(model="m", messages=[{"role": "user", "content": "Hi"}], **params)
                else:
                    raw = await client.responses.with_raw_response.create(model="m", input="Hi", **params)
        return upstream.requests[0].json, raw


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("kind", ["openrouter", "vllm"])
async def test_defaults_of_the_operator_fill_missing_parameters(api: str, kind: str) -> None:
    body, raw = await ask(api, kind, DEFAULTS, temperature=0.1)
    assert body["temperature"] == 0.1
    assert "low" in (body.get("reasoning_effort"), body.get("reasoning", {}).get("effort"))
    if kind == "openrouter" or api == "chat":  # a relay passes on what only the upstream may know
        assert body["provider"] == ROUTING
        assert "x-gateway-loss" not in raw.headers
    else:
        assert "provider" not in body
        assert raw.headers["x-gateway-loss"] == "provider=dropped"


ON, OFF = {"enable_thinking": True}, {"enable_thinking": False}
DEEP_ON, DEEP_OFF = {"thinking": True}, {"thinking": False}

THINKING: dict[str, tuple[str, Json, str, Json | None]] = {
    # type, defaults, the client's effort, the arguments of the template
    "a template switch is kept": ("vllm", {"chat_template_kwargs": ON}, "high", ON),
    "DeepSeek's is kept": ("vllm", {"chat_template_kwargs": DEEP_ON}, "high", DEEP_ON),
    "the gateway's switch is kept": ("vllm", {"thinking": True}, "high", ON),
    "the object is kept": ("vllm", {"thinking": {"type": "enabled", "budget_tokens": 9}}, "high", ON),
    "no thinking is kept": ("vllm", {"chat_template_kwargs": OFF}, "none", OFF),
    "DeepSeek's is kept off": ("vllm", {"chat_template_kwargs": DEEP_OFF}, "none", DEEP_OFF),
    "it is kept without a switch of the type": ("openai_compatible", {"chat_template_kwargs": OFF}, "none", OFF),
    "the client turns thinking on": ("vllm", {"chat_template_kwargs": OFF}, "high", ON),
    "the client turns DeepSeek's on": ("vllm", {"chat_template_kwargs": DEEP_OFF}, "high", DEEP_ON),
    "the client turns DeepSeek's off": ("vllm", {"chat_template_kwargs": DEEP_ON}, "none", DEEP_OFF),
    "the client turns it off without a switch": ("openai_compatible", {"chat_template_kwargs": ON}, "none", OFF),
    "the client has an amount of its own": ("vllm", {"reasoning": {"effort": "low"}, "thinking": True}, "high", ON),
}


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(("kind", "defaults", "effort", "arguments"), THINKING.values(), ids=THINKING)
async def test_a_stated_effort_keeps_the_default_switches_that_agree(
    api: str, kind: str, defaults: Json, effort: Any, arguments: Json | None
) -> None:
    params: Json = {"reasoning_effort": effort} if api == "chat" else {"reasoning": {"effort": effort}}
    body, raw = await ask(api, kind, defaults, **params)
    assert body["reasoning_effort"] == effort
    assert body.get("chat_template_kwargs") == arguments
    assert "x-gateway-loss" not in raw.headers
