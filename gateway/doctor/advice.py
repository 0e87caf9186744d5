"""Suggests what to do about a failed check."""

from typing import Final

from gateway.doctor.checks.subjects import Subject

TIMED_OUT: Final = "too_slow"
"""The code of a reply that did not end before the deadline of a request."""

_READ_UPSTREAM_LOG: Final = "Read the upstream's log: it failed, or left its reply unfinished."

UNPARSED_OUTPUT: Final = "misread"
"""The code of output that the gateway would parse with another setting."""

_ADVICE_BY_CODE: Final = {
    UNPARSED_OUTPUT: "Write that setting at {model}.",
    TIMED_OUT: "Find out why the upstream does not respond; if it only needs more time, raise --timeout.",
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


def suggest_fix(subject: Subject, code: str | None, needs: tuple[str, ...], *, undeclared: bool) -> str:
    """Return the advice for a failed check, in one or two sentences.

    `code` is that of the error, `needs` the capabilities that the check requires. `undeclared` says that the check
    passed although a capability is not declared.
    """
    provider, model = f"providers.{subject.provider}", f"models.{subject.name}"
    if code in _ADVICE_BY_CODE:
        return _ADVICE_BY_CODE[code].format(provider=provider, model=model, upstream_model=subject.upstream_model)
    missing = [name for name in needs if not getattr(subject.capabilities, name)]
    if undeclared:
        return f"If the model can do this, write {_render_capabilities(missing, 'true')} at {model}."
    if needs:
        capabilities = _render_capabilities(needs[-1:], "false")
        return f"If the model cannot do this, write {capabilities} at {model}; if it can, fix the upstream."
    return "Fix the upstream: no capability declares this, so none can be withdrawn."


def _render_capabilities(names: list[str] | tuple[str, ...], value: str) -> str:
    return "capabilities: {" + ", ".join(f"{name}: {value}" for name in names) + "}"
