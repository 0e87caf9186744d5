"""Request defaults of the operator: on both APIs, relayed and translated, as far as the upstream supports them."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

ROUTING = {"order": ["deepinfra"], "allow_fallbacks": False}
DEFAULTS = {"provider": ROUTING, "temperature": 0.5, "reasoning_effort": "low"}


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("kind", ["openrouter", "vllm"])
async def test_defaults_of_the_operator_fill_missing_parameters(api: str, kind: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Hi"))
        config: dict[str, Any] = {
            "providers": {"up": {"type": kind, "base_url": upstream.url, "api_key": "k"}},
            "models": {"m": {"provider": "up", "request_defaults": DEFAULTS}},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                if api == "chat":
                    create = client.chat.completions.with_raw_response.create
                    raw: Any = await create(model="m", messages=[{"role": "user", "content": "Hi"}], temperature=0.1)
                else:
                    raw = await client.responses.with_raw_response.create(model="m", input="Hi", temperature=0.1)
        body = upstream.requests[0].json
    assert body["temperature"] == 0.1
    assert "low" in (body.get("reasoning_effort"), body.get("reasoning", {}).get("effort"))
    if kind == "openrouter" or api == "chat":  # a relay passes on what only the upstream may know
        assert body["provider"] == ROUTING
        assert "x-gateway-loss" not in raw.headers
    else:
        assert "provider" not in body
        assert raw.headers["x-gateway-loss"] == "provider=dropped"
