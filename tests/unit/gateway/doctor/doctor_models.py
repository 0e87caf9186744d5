"""An upstream that answers as a sound model would, and the settings of a gateway in front of it."""

import json
from collections.abc import Mapping
from typing import Any

from gateway.config.settings import Settings, parse_settings
from tests.upstream import ScriptedUpstream, chat_calls, chat_text, error_reply
from tests.upstream.script import Exchange, Script

MODEL = "sound-model"
WINDOW = 1000

Json = dict[str, Any]


def settings_for(
    upstream: ScriptedUpstream,
    capabilities: Mapping[str, Any] | None = None,
    *,
    silence_s: float = 60,
    **model: Any,
) -> Settings:
    """Settings with one model, `sound`, that declares all capabilities by default."""
    declared = {"images": True, "max_context_window": WINDOW, **(capabilities or {})}
    limits = {"silence_s": silence_s, "connect_s": 60, "retries": 0}
    provider = {"type": "openai_compatible", "base_url": upstream.url, **limits}
    tree = {
        "providers": {"upstream": {**provider, "capabilities": declared}},
        "models": {"sound": {"provider": "upstream", "model": MODEL, **model}, "other-*": {"provider": "upstream"}},
    }
    return parse_settings(tree, environ={})


async def sound(exchange: Exchange) -> None:
    """Returns the reply of a model without faults to each check."""
    await answer_to(exchange.request.json)(exchange)


def answer_to(body: Json) -> Script:
    """Returns a reply of a model without faults."""
    if body["model"] != MODEL:
        return error_reply(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
    last = body["messages"][-1]
    asked = last["content"]
    if isinstance(asked, str) and len(asked.split()) > WINDOW:
        return error_reply(400, "This model's maximum context length is 1000.", code="context_length_exceeded")
    if body.get("tools") and last["role"] != "tool":
        return _calls(body, asked)
    if last["role"] == "tool":
        return chat_text("It is ", str(asked))
    if body.get("response_format"):
        return chat_text(json.dumps({"a": 3, "b": 4, "sum": 7}))
    if body.get("max_tokens") == 16:
        usage = {"prompt_tokens": 9, "completion_tokens": 16, "total_tokens": 25}
        return chat_text("1, 2, ", "3, 4", finish_reason="length", usage=usage)
    if body.get("stop"):
        return chat_text("1, 2, 3, ")
    if asked == "Count to 12.":
        return chat_text("1, 2, 3, ", "12")
    if isinstance(asked, list) and any(part["type"] == "image_url" for part in asked):
        return chat_text("Ora", "nge.")
    return chat_text("po", "ng")


def _calls(body: Json, asked: str) -> Script:
    names = [tool["function"]["name"] for tool in body["tools"]]
    if "search" in names:
        return chat_calls(("search", '{"query": "weather"}'))
    cities = ["Paris", "Rome"] if "Rome" in asked else ["Paris"]
    return chat_calls(*(("get_weather", json.dumps({"city": city})) for city in cities))
