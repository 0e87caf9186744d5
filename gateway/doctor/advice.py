"""Suggests a fix for a failed check: first for its most common cause, then in the configuration."""

import re
from typing import Final, NamedTuple

from gateway.doctor.checks.subjects import Subject

TIMED_OUT: Final = "too_slow"
"""The error code of a reply that did not end before the deadline of a request."""

_READ_UPSTREAM_LOG: Final = "Read the upstream's log: it failed, or left its reply unfinished."

UNPARSED_OUTPUT: Final = "misread"
"""The error code of output that the gateway would parse with another setting."""

UNCACHED_PREFIX: Final = "uncached_prefix"
"""The error code of a prompt that the upstream computed again although it begins like the previous one."""


class _CommonCause(NamedTuple):
    """A message by which an upstream names a missing option of its start."""

    message: re.Pattern[str]
    advice: str


_COMMON_CAUSES: Final = (
    _CommonCause(
        # Source of the message: `vllm/renderers/online_renderer.py` of vLLM 0.32.
        re.compile("--tool-call-parser"),
        "Start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME. The name depends on the model, such as "
        "hermes for Qwen, llama3_json for Llama 3, mistral for Mistral. If it cannot be restarted, write "
        "text_tool_calls: hermes at {model}.",
    ),
    _CommonCause(
        # Source of this message and the next: llama-server of llama.cpp.
        re.compile("requires --jinja flag"),
        "Start llama-server with --jinja. If it cannot be restarted, write text_tool_calls: hermes at {model}.",
    ),
    _CommonCause(
        re.compile("provide the mmproj"),
        "Start llama-server with --mmproj and the model's projector. If the model has none, write "
        "capabilities: {{images: false}} at {model}.",
    ),
    _CommonCause(
        re.compile("is not a multimodal model|does not support (?:image|vision)", re.IGNORECASE),
        "The model cannot read images: write capabilities: {{images: false}} at {model}.",
    ),
    _CommonCause(
        # Source of the message: Ollama.
        re.compile("does not support tools"),
        "The model's template has no tools: write capabilities: {{tools: false}} at {model}, or choose another model.",
    ),
)

_PARSERS_OF_UPSTREAMS: Final = {
    "vllm": "Start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME for calls, and with "
    "--reasoning-parser NAME for thinking. ",
    "llama_server": "Start llama-server with --jinja. ",
}
"""Provider type -> the advice by which its server parses the output of a model itself."""

_PARSER_CHECKS: Final = {
    "vllm": "Check that vLLM runs with --enable-auto-tool-choice and the --tool-call-parser of this model: with "
    "another, calls remain text.",
}
"""Provider type -> the advice for its server if a model answers with text instead of calls."""

_CACHE_SWITCHES: Final = {
    "vllm": "Start vLLM without --no-enable-prefix-caching.",
    "llama_server": "Start llama-server without --no-cache-prompt.",
    "harmony": "Start llama-server without --no-cache-prompt.",
    "vllm_inprocess": "Write engine: {{enable_prefix_caching: true}} at {provider}.",
    "llamacpp": "Remove keys about the cache from engine at {provider}.",
}
"""Provider type -> the advice by which its prefix cache is on."""

_ADVICE_BY_CODE: Final = {
    TIMED_OUT: "Find out why the upstream does not respond; if it only needs more time, raise --timeout.",
    UNCACHED_PREFIX: "{cache_switch} Let all requests of a conversation reach the same server, and leave "
    "volatile_lines at {model} as it is by default.",
    "upstream_unreachable": "Start the upstream, or correct base_url at {provider}.",
    "upstream_timeout": "Find out why the upstream does not respond; if it needs more time, raise answer_s and "
    "silence_s at {provider}.",
    "upstream_disconnected": _READ_UPSTREAM_LOG,
    "upstream_truncated": _READ_UPSTREAM_LOG,
    "upstream_error": _READ_UPSTREAM_LOG,
    "server_error": _READ_UPSTREAM_LOG,
    "upstream_garbled": "Check the server at base_url of {provider}: its replies do not fit the API of the type.",
    "upstream_unauthorized": "Correct api_key at {provider}: the upstream refuses it.",
    "upstream_overloaded": "Try again once the upstream has capacity.",
    "rate_limit_exceeded": "Try again once the upstream's rate limit allows it.",
    "insufficient_quota": "Check the account that the key of {provider} belongs to.",
    "model_not_found": "Correct model at {model}: the upstream has no model {upstream_model}. If it has, correct "
    "base_url at {provider}: without its version, such as /v1, the upstream finds no model.",
    "engine_unavailable": "Read the engine's log: it did not start, or has stopped.",
    "internal_error": "Read the gateway's log, and report the request and the reply.",
}
"""Error code -> advice, for errors that say nothing about the model's capabilities."""


def suggest_fix(
    subject: Subject, code: str | None, needs: tuple[str, ...], *, undeclared: bool, detail: str = ""
) -> str:
    """Returns the advice for a failed check, in a few sentences.

    `detail` describes the failure, and is searched for messages of upstreams that name the cause. `code` is the error's
    code, and `needs` are the capabilities that the check requires. `undeclared`: the check passed although a capability
    is not declared.
    """
    provider, model = f"providers.{subject.provider}", subject.place
    for cause in _COMMON_CAUSES:
        if cause.message.search(detail):
            return cause.advice.format(model=model)
    if code == UNPARSED_OUTPUT:
        parsers = _PARSERS_OF_UPSTREAMS.get(subject.provider_type)
        return f"{parsers}Or write that setting at {model}." if parsers else f"Write that setting at {model}."
    if code in _ADVICE_BY_CODE:
        switch = _CACHE_SWITCHES.get(subject.provider_type, "Turn the upstream's prefix cache on.")
        return _ADVICE_BY_CODE[code].format(
            provider=provider,
            model=model,
            upstream_model=subject.upstream_model,
            cache_switch=switch.format(provider=provider),
        )
    missing = [name for name in needs if not getattr(subject.capabilities, name)]
    if undeclared:
        return f"If the model can do this, write {_render_capabilities(missing, 'true')} at {model}."
    parser_check = _PARSER_CHECKS.get(subject.provider_type, "")
    if parser_check and "tools" in needs and code is None and not subject.has_text_calls:
        capabilities = _render_capabilities(("tools",), "false")
        return f"{parser_check} If the model cannot call tools, write {capabilities} at {model}."
    if needs:
        capabilities = _render_capabilities(needs[-1:], "false")
        return f"If the model cannot do this, write {capabilities} at {model}; if it can, fix the upstream."
    return "Fix the upstream: no capability declares this, so none can be withdrawn."


def _render_capabilities(names: list[str] | tuple[str, ...], value: str) -> str:
    return "capabilities: {" + ", ".join(f"{name}: {value}" for name in names) + "}"
