"""What becomes of every request parameter, found out by trying: each is lifted, and lowered for each upstream."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from providers.capabilities import CAPABILITIES
from providers.profiles import PROFILES
from scripts.docs.markdown import code, table
from translation.anthropic import lower as anthropic_lower
from translation.chat import lift as chat_lift
from translation.chat import schema as chat_schema
from translation.chat.lowering import lower as chat_lower
from translation.errors import InvalidRequest
from translation.gemini import lower as gemini_lower
from translation.ollama import lower as ollama_lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses import lift as responses_lift
from translation.responses import lower as responses_lower
from translation.responses.schema import request as responses_schema
from translation.tools.bridge import bridge_tools

_FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}


class Asked(NamedTuple):
    """A value for one parameter, and what else a request with it has to say."""

    value: Any
    beside: Json = {}  # noqa: RUF012 - never changed


_SHARED = {
    "frequency_penalty": Asked(0.5),
    "logit_bias": Asked({"50256": -100}),
    "metadata": Asked({"a": "b"}),
    "presence_penalty": Asked(0.5),
    "prompt_cache_key": Asked("a"),
    "prompt_cache_retention": Asked("24h"),
    "safety_identifier": Asked("a"),
    "seed": Asked(1),
    "service_tier": Asked("flex"),
    "stop": Asked(["a"]),
    "store": Asked(True),
    "stream": Asked(True),
    "stream_options": Asked({"include_usage": True}, {"stream": True}),
    "temperature": Asked(0.5),
    "thinking": Asked(True),
    "top_p": Asked(0.5),
    "user": Asked("a"),
}

CHAT = _SHARED | {
    "audio": Asked({"voice": "alloy", "format": "mp3"}),
    "extensions": Asked(True),
    "function_call": Asked("none", {"functions": [_FUNCTION]}),
    "functions": Asked([_FUNCTION]),
    "logprobs": Asked(True),
    "max_completion_tokens": Asked(99),
    "max_tokens": Asked(99),
    "modalities": Asked(["text", "audio"], {"audio": {"voice": "alloy", "format": "mp3"}}),
    "n": Asked(2),
    "parallel_tool_calls": Asked(False, {"tools": [{"type": "function", "function": _FUNCTION}]}),
    "prediction": Asked({"type": "content", "content": "a"}),
    "reasoning": Asked({"effort": "low", "max_tokens": 99}),
    "reasoning_effort": Asked("low"),
    "response_format": Asked({"type": "json_object"}),
    "tool_choice": Asked("required", {"tools": [{"type": "function", "function": _FUNCTION}]}),
    "tools": Asked([{"type": "function", "function": _FUNCTION}]),
    "top_logprobs": Asked(2, {"logprobs": True}),
    "verbosity": Asked("low"),
    "web_search_options": Asked({}),
}

RESPONSES = _SHARED | {
    "access_programs": Asked({"a": "b"}),
    "background": Asked(True),
    "client_metadata": Asked({"a": "b"}),
    "context_management": Asked([{"type": "compaction"}]),
    "conversation": Asked("conv_1"),
    "image": Asked({"a": "b"}),
    "include": Asked(["file_search_call.results"]),
    "instructions": Asked("a"),
    "max_output_tokens": Asked(99),
    "max_tool_calls": Asked(1),
    "moderation": Asked({"model": "a"}),
    "parallel_tool_calls": Asked(False, {"tools": [{"type": "function", **_FUNCTION}]}),
    "previous_response_id": Asked("resp_1"),
    "prompt": Asked({"id": "a"}),
    "prompt_cache_options": Asked({"mode": "explicit"}),
    "reasoning": Asked({"effort": "low", "summary": "auto"}),
    "resumable": Asked(True, {"stream": True}),
    "stream_options": Asked({"include_obfuscation": True}, {"stream": True}),
    "text": Asked({"format": {"type": "json_object"}, "verbosity": "low"}),
    "tool_choice": Asked("required", {"tools": [{"type": "function", **_FUNCTION}]}),
    "tools": Asked([{"type": "function", **_FUNCTION}]),
    "top_logprobs": Asked(2, {"include": ["message.output_text.logprobs"]}),
    "truncation": Asked("auto"),
}


class _Upstream(NamedTuple):
    name: str
    lower: Callable[[Turn, Profile], LoweredRequest]
    profile: Profile
    hosted: frozenset[str] = frozenset()
    """Tools it runs itself."""


_UPSTREAMS = (
    *(
        _Upstream(f"{kind}, chat", chat_lower.lower, PROFILES[kind])
        for kind in ("openai_compatible", "vllm", "openrouter")
    ),
    _Upstream("openai, chat", chat_lower.lower, PROFILES["openai"]),
    _Upstream("openai, responses", responses_lower.lower, PROFILES["openai"]),
    _Upstream("anthropic", anthropic_lower.lower, PROFILES["anthropic"], CAPABILITIES["anthropic"].hosted_tools),
    _Upstream("gemini", gemini_lower.lower, PROFILES["gemini"], CAPABILITIES["gemini"].hosted_tools),
    _Upstream("ollama", ollama_lower.lower, PROFILES["ollama"]),
)


def chat_parameters() -> str:
    minimal = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    return _parameters(chat_schema.Request.__annotations__, CHAT, minimal, chat_schema.validate, chat_lift.lift)


def responses_parameters() -> str:
    minimal = {"model": "m", "input": "a"}
    fields = responses_schema.Request.__annotations__
    return _parameters(fields, RESPONSES, minimal, responses_schema.validate, responses_lift.lift)


def _parameters(
    fields: Mapping[str, Any],
    samples: Mapping[str, Asked],
    minimal: Json,
    validate: Callable[[Json], None],
    lift: Callable[[Json], Turn],
) -> str:
    """Raises KeyError for a parameter the API has and this file has no value for."""

    def row(name: str) -> Iterator[str]:
        asked = samples[name]
        plain = {**minimal, **asked.beside}
        body = {**plain, name: asked.value}
        validate(body)
        yield f"`{name}`"
        for upstream in _UPSTREAMS:
            yield _outcome(name, plain, body, lift, upstream)

    rows = [list(row(name)) for name in sorted(fields.keys() - minimal.keys())]
    return table(["parameter", *(upstream.name for upstream in _UPSTREAMS)], rows)


def _outcome(name: str, plain: Json, body: Json, lift: Callable[[Json], Turn], upstream: _Upstream) -> str:
    try:
        asked, losses = _lowered(lift(body), upstream)
    except InvalidRequest:
        return "refused"
    before, losses_before = _lowered(lift(plain), upstream)
    said = [key for key in asked if asked[key] != before.get(key)]
    lost = [loss for loss in losses if loss not in losses_before]
    if not said:
        return "lost" if lost else "-"
    words = "same" if said == [name] else code(said)
    return f"{words}; lost: {code(loss.param for loss in lost)}" if lost else words


def _lowered(turn: Turn, upstream: _Upstream) -> tuple[Json, list[Loss]]:
    bridged = bridge_tools(turn, kinds=frozenset({"function"}), hosted=upstream.hosted)
    body, losses = upstream.lower(bridged.turn, upstream.profile)
    return body, [*turn.losses, *bridged.losses, *losses]
