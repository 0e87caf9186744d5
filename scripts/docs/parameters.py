"""Renders the effect of every request parameter: each one is lifted, and lowered for each upstream."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from providers.capabilities import CAPABILITIES
from providers.profiles import PROFILES
from scripts.docs.markdown import render_code, render_table
from translation.chat.client import lift as chat_lift
from translation.chat.client import schema as chat_schema
from translation.chat.upstream import lower as chat_lower
from translation.errors import InvalidRequest
from translation.gemini.client import lift as gemini_lift
from translation.gemini.schema import request as gemini_schema
from translation.gemini.upstream import lower as gemini_lower
from translation.messages.client import lift as messages_lift
from translation.messages.schema import request as messages_schema
from translation.messages.upstream import lower as anthropic_lower
from translation.ollama.client import schema as ollama_schema
from translation.ollama.client.lift import lift_chat as lift_ollama_chat
from translation.ollama.upstream import lower as ollama_lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.client import lift as responses_lift
from translation.responses.schema import request as responses_schema
from translation.responses.upstream import lower as responses_lower
from translation.tools.tool_rewriting import rewrite_tools

_FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}


class ParameterSample(NamedTuple):
    """A value of one parameter, and the other fields that a request with it needs."""

    value: Any
    other_fields: Json = {}  # noqa: RUF012 - never changed


_SHARED = {
    "frequency_penalty": ParameterSample(0.5),
    "logit_bias": ParameterSample({"50256": -100}),
    "metadata": ParameterSample({"a": "b"}),
    "presence_penalty": ParameterSample(0.5),
    "prompt_cache_key": ParameterSample("a"),
    "prompt_cache_retention": ParameterSample("24h"),
    "safety_identifier": ParameterSample("a"),
    "seed": ParameterSample(1),
    "service_tier": ParameterSample("flex"),
    "stop": ParameterSample(["a"]),
    "store": ParameterSample(True),
    "stream": ParameterSample(True),
    "stream_options": ParameterSample({"include_usage": True}, {"stream": True}),
    "temperature": ParameterSample(0.5),
    "thinking": ParameterSample(True),
    "top_p": ParameterSample(0.5),
    "user": ParameterSample("a"),
}

CHAT = _SHARED | {
    "audio": ParameterSample({"voice": "alloy", "format": "mp3"}),
    "extensions": ParameterSample(True),
    "function_call": ParameterSample("none", {"functions": [_FUNCTION]}),
    "functions": ParameterSample([_FUNCTION]),
    "logprobs": ParameterSample(True),
    "max_completion_tokens": ParameterSample(99),
    "max_tokens": ParameterSample(99),
    "modalities": ParameterSample(["text", "audio"], {"audio": {"voice": "alloy", "format": "mp3"}}),
    "n": ParameterSample(2),
    "parallel_tool_calls": ParameterSample(False, {"tools": [{"type": "function", "function": _FUNCTION}]}),
    "prediction": ParameterSample({"type": "content", "content": "a"}),
    "reasoning": ParameterSample({"effort": "low", "max_tokens": 99}),
    "reasoning_effort": ParameterSample("low"),
    "response_format": ParameterSample({"type": "json_object"}),
    "tool_choice": ParameterSample("required", {"tools": [{"type": "function", "function": _FUNCTION}]}),
    "tools": ParameterSample([{"type": "function", "function": _FUNCTION}]),
    "top_logprobs": ParameterSample(2, {"logprobs": True}),
    "verbosity": ParameterSample("low"),
    "web_search_options": ParameterSample({}),
}

RESPONSES = _SHARED | {
    "access_programs": ParameterSample({"a": "b"}),
    "background": ParameterSample(True),
    "client_metadata": ParameterSample({"a": "b"}),
    "context_management": ParameterSample([{"type": "compaction"}]),
    "conversation": ParameterSample("conv_1"),
    "image": ParameterSample({"a": "b"}),
    "include": ParameterSample(["file_search_call.results"]),
    "instructions": ParameterSample("a"),
    "max_output_tokens": ParameterSample(99),
    "max_tool_calls": ParameterSample(1),
    "moderation": ParameterSample({"model": "a"}),
    "parallel_tool_calls": ParameterSample(False, {"tools": [{"type": "function", **_FUNCTION}]}),
    "previous_response_id": ParameterSample("resp_1"),
    "prompt": ParameterSample({"id": "a"}),
    "prompt_cache_options": ParameterSample({"mode": "explicit"}),
    "reasoning": ParameterSample({"effort": "low", "summary": "auto"}),
    "resumable": ParameterSample(True, {"stream": True}),
    "tool_events": ParameterSample(True),
    "elicitation": ParameterSample(True),
    "stream_options": ParameterSample({"include_obfuscation": True}, {"stream": True}),
    "text": ParameterSample({"format": {"type": "json_object"}, "verbosity": "low"}),
    "tool_choice": ParameterSample("required", {"tools": [{"type": "function", **_FUNCTION}]}),
    "tools": ParameterSample([{"type": "function", **_FUNCTION}]),
    "top_logprobs": ParameterSample(2, {"include": ["message.output_text.logprobs"]}),
    "truncation": ParameterSample("auto"),
}


_TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}

MESSAGES = {
    "anthropic_beta": ParameterSample(["a"]),
    "anthropic_version": ParameterSample("2023-06-01"),
    "cache_control": ParameterSample({"type": "ephemeral"}),
    "context_management": ParameterSample({"edits": [{"type": "clear_thinking_20251015"}]}),
    "frequency_penalty": ParameterSample(0.5),
    "max_tokens": ParameterSample(99),
    "mcp_servers": ParameterSample([{"type": "url", "name": "a", "url": "https://mcp.example.com"}]),
    "metadata": ParameterSample({"user_id": "a"}),
    "output_config": ParameterSample({"effort": "low"}),
    "output_format": ParameterSample({"type": "json_schema", "schema": {"type": "object", "properties": {}}}),
    "presence_penalty": ParameterSample(0.5),
    "prompt_cache_key": ParameterSample("a"),
    "prompt_cache_retention": ParameterSample("24h"),
    "seed": ParameterSample(1),
    "service_tier": ParameterSample("standard_only"),
    "stop_sequences": ParameterSample(["a"]),
    "stream": ParameterSample(True),
    "system": ParameterSample("Be kind."),
    "temperature": ParameterSample(0.5),
    "thinking": ParameterSample({"type": "enabled", "budget_tokens": 1024}),
    "thread": ParameterSample({"type": "create"}),
    "tool_choice": ParameterSample({"type": "any"}, {"tools": [_TOOL]}),
    "tools": ParameterSample([_TOOL]),
    "top_k": ParameterSample(5),
    "top_p": ParameterSample(0.5),
}


class _Upstream(NamedTuple):
    name: str
    lower: Callable[[Turn, Profile], LoweredRequest]
    profile: Profile
    hosted_tools: frozenset[str] = frozenset()
    """Kinds of tools that the upstream runs itself."""
    applied_here: frozenset[str] = frozenset()
    """The parameters of a turn that the gateway applies itself, because the upstream has none such."""


_UPSTREAMS = (
    *(
        _Upstream(f"{kind}, chat", chat_lower.lower, PROFILES[kind])
        for kind in ("openai_compatible", "vllm", "openrouter")
    ),
    _Upstream("openai, chat", chat_lower.lower, PROFILES["openai"]),
    _Upstream("openai, responses", responses_lower.lower, PROFILES["openai"], applied_here=frozenset({"stop"})),
    _Upstream("anthropic", anthropic_lower.lower, PROFILES["anthropic"], CAPABILITIES["anthropic"].hosted_tools),
    _Upstream("gemini", gemini_lower.lower, PROFILES["gemini"], CAPABILITIES["gemini"].hosted_tools),
    _Upstream("ollama", ollama_lower.lower, PROFILES["ollama"]),
)


OLLAMA = {
    "format": ParameterSample("json"),
    "keep_alive": ParameterSample("5m"),
    "logprobs": ParameterSample(True),
    "options": ParameterSample({"temperature": 0.5}),
    "shift": ParameterSample(True),
    "stream": ParameterSample(False),
    "think": ParameterSample("low"),
    "tools": ParameterSample([{"type": "function", "function": _FUNCTION}]),
    "top_logprobs": ParameterSample(2, {"logprobs": True}),
    "truncate": ParameterSample(True),
}


_GEMINI_SCHEMA = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
_GEMINI_TOOLS = {"tools": [{"functionDeclarations": [{"name": "f", "parameters": _GEMINI_SCHEMA}]}]}
_JSON_TYPE = {"responseMimeType": "application/json"}

GEMINI = {
    "cachedContent": ParameterSample("cachedContents/a"),
    "labels": ParameterSample({"a": "b"}),
    "safetySettings": ParameterSample([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
    "serviceTier": ParameterSample("flex"),
    "store": ParameterSample(True),
    "stream": ParameterSample(True),
    "systemInstruction": ParameterSample({"parts": [{"text": "Be kind."}]}),
    "toolConfig": ParameterSample({"functionCallingConfig": {"mode": "ANY"}}, _GEMINI_TOOLS),
    "tools": ParameterSample(_GEMINI_TOOLS["tools"]),
}

GEMINI_CONFIG = {
    "candidateCount": ParameterSample(2),
    "frequencyPenalty": ParameterSample(0.5),
    "logprobs": ParameterSample(2, {"responseLogprobs": True}),
    "maxOutputTokens": ParameterSample(99),
    "mediaResolution": ParameterSample("MEDIA_RESOLUTION_LOW"),
    "presencePenalty": ParameterSample(0.5),
    "responseFormat": ParameterSample({"text": {"mimeType": "APPLICATION_JSON"}}),
    "responseJsonSchema": ParameterSample({"type": "object", "properties": {}}, _JSON_TYPE),
    "responseLogprobs": ParameterSample(True),
    "responseMimeType": ParameterSample("application/json"),
    "responseModalities": ParameterSample(["IMAGE"]),
    "responseSchema": ParameterSample(_GEMINI_SCHEMA, _JSON_TYPE),
    "seed": ParameterSample(1),
    "stopSequences": ParameterSample(["a"]),
    "temperature": ParameterSample(0.5),
    "thinkingConfig": ParameterSample({"thinkingBudget": 1024, "includeThoughts": True}),
    "topK": ParameterSample(5),
    "topP": ParameterSample(0.5),
}


def render_chat_parameters() -> str:
    minimal = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    return _render_parameters(chat_schema.Request.__annotations__, CHAT, minimal, chat_schema.validate, chat_lift.lift)


def render_responses_parameters() -> str:
    minimal = {"model": "m", "input": "a"}
    fields = responses_schema.Request.__annotations__
    return _render_parameters(fields, RESPONSES, minimal, responses_schema.validate, responses_lift.lift)


def render_messages_parameters() -> str:
    minimal = {"model": "m", "max_tokens": 5000, "messages": [{"role": "user", "content": "a"}]}
    fields = dict.fromkeys(messages_schema.REQUEST_FIELDS)
    return _render_parameters(fields, MESSAGES, minimal, messages_schema.validate, _lift_message)


def _lift_message(body: Json) -> Turn:
    turn = messages_lift.lift(body)
    return replace(turn, tools=[*turn.tools, *messages_lift.read_facts(body).tools.servers])


def render_ollama_parameters() -> str:
    minimal = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    fields = {**ollama_schema.CommonParams.__annotations__, **ollama_schema.ChatRequest.__annotations__}
    return _render_parameters(fields, OLLAMA, minimal, ollama_schema.validate_chat, lift_ollama_chat)


def render_gemini_parameters() -> str:
    """Renders the fields of a request, and then the fields of its `generationConfig`."""
    minimal = {"model": "m", "contents": [{"role": "user", "parts": [{"text": "a"}]}]}
    fields = [*sorted(gemini_schema.REQUEST_FIELDS - {*minimal, "generationConfig"})]
    rows = [(name, *_build_bodies(minimal, name, GEMINI[name])) for name in fields]
    for name in sorted(gemini_schema.GenerationConfig.__annotations__):
        # Not every upstream takes the type of a schema, or logprobs, alone: the body without the field has neither.
        config = {**GEMINI_CONFIG[name].other_fields, name: GEMINI_CONFIG[name].value}
        rows.append((f"generationConfig.{name}", minimal, {**minimal, "generationConfig": config}))
    return _render_parameter_table(rows, gemini_schema.validate, gemini_lift.lift)


def _render_parameters(
    fields: Mapping[str, Any],
    samples: Mapping[str, ParameterSample],
    minimal: Json,
    validate: Callable[[Json], None],
    lift: Callable[[Json], Turn],
) -> str:
    """Renders a table of an API's parameters. Raises KeyError for a parameter that has no sample in this file."""
    names = sorted(fields.keys() - minimal.keys())
    rows = [(name, *_build_bodies(minimal, name, samples[name])) for name in names]
    return _render_parameter_table(rows, validate, lift)


def _build_bodies(minimal: Json, name: str, sample: ParameterSample) -> tuple[Json, Json]:
    """Returns a body without a parameter, and the same body with it."""
    plain = {**minimal, **sample.other_fields}
    return plain, {**plain, name: sample.value}


def _render_parameter_table(
    rows: Sequence[tuple[str, Json, Json]], validate: Callable[[Json], None], lift: Callable[[Json], Turn]
) -> str:
    """Returns the table for the rows' parameters, each with a body without it and one with it."""

    def cells(name: str, plain: Json, body: Json) -> Iterator[str]:
        validate(body)
        yield f"`{name}`"
        for upstream in _UPSTREAMS:
            yield _describe_outcome(name, plain, body, lift, upstream)

    return render_table(["parameter", *(upstream.name for upstream in _UPSTREAMS)], [list(cells(*row)) for row in rows])


def _describe_outcome(name: str, plain: Json, body: Json, lift: Callable[[Json], Turn], upstream: _Upstream) -> str:
    try:
        after, losses = _lower_turn(lift(body), upstream)
    except InvalidRequest:
        return "refused"
    if not upstream.applied_here.isdisjoint(lift(body).sampling):
        return "applied by the gateway"
    before, losses_before = _lower_turn(lift(plain), upstream)
    changed = [key for key in after if after[key] != before.get(key)]
    lost = [loss for loss in losses if loss not in losses_before]
    if not changed:
        return "lost" if lost else "-"
    outcome = "same" if changed == [name] else render_code(changed)
    return f"{outcome}; lost: {render_code(loss.param for loss in lost)}" if lost else outcome


def _lower_turn(turn: Turn, upstream: _Upstream) -> tuple[Json, list[Loss]]:
    rewritten = rewrite_tools(turn, kinds=frozenset({"function"}), hosted=upstream.hosted_tools)
    body, losses = upstream.lower(rewritten.turn, upstream.profile)
    return body, [*turn.losses, *rewritten.losses, *losses]
