"""What to do about a check that failed."""

from typing import Final

from gateway.doctor.checks.subjects import Subject

TIMED_OUT: Final = "too_slow"
"""The code of what had no end in the time there is for a request."""

_READ_UPSTREAM_LOG: Final = "Read the upstream's log: it failed, or left its reply unfinished."

UNPARSED_OUTPUT: Final = "misread"
"""The code of what a setting mends."""

_ADVICE_BY_CODE: Final = {
    UNPARSED_OUTPUT: "Write that setting at {model}.",
    TIMED_OUT: "Find out why the upstream is silent; where it only needs longer, give it more with --timeout.",
    "upstream_unreachable": "Start the upstream, or mend base_url at {provider}.",
    "upstream_timeout": "Find out why the upstream is silent; where it needs longer, raise answer_s and silence_s "
    "at {provider}.",
    "upstream_disconnected": _READ_UPSTREAM_LOG,
    "upstream_truncated": _READ_UPSTREAM_LOG,
    "upstream_error": _READ_UPSTREAM_LOG,
    "server_error": _READ_UPSTREAM_LOG,
    "upstream_garbled": "Look at what answers at base_url of {provider}: it does not speak the API that its type says.",
    "upstream_unauthorized": "Mend api_key at {provider}: the upstream refuses it.",
    "upstream_overloaded": "Try again once the upstream has room.",
    "rate_limit_exceeded": "Try again once the upstream lets you.",
    "insufficient_quota": "Look at the account that the key of {provider} belongs to.",
    "model_not_found": "Mend model at {model}: the upstream has none that is called {upstream_model}. Where it has, "
    "mend base_url at {provider}: without its version, such as /v1, nothing is found there.",
    "engine_unavailable": "Read the engine's log: it did not start, or has ended.",
    "internal_error": "Read the gateway's log, and report what was asked and what came back.",
}
"""Code -> what to do about errors that come before anything a model can or cannot do."""


def suggest_fix(subject: Subject, code: str | None, needs: tuple[str, ...], *, undeclared: bool) -> str:
    """In one or two sentences. `code` is that of the error it failed with, `needs` what has to be declared for it;
    `undeclared`: it holds, and is not declared."""
    provider, model = f"providers.{subject.provider}", f"models.{subject.name}"
    if code in _ADVICE_BY_CODE:
        return _ADVICE_BY_CODE[code].format(provider=provider, model=model, upstream_model=subject.upstream_model)
    missing = [name for name in needs if not getattr(subject.capabilities, name)]
    if undeclared:
        return f"Where the model can, write {_render_capabilities(missing, 'true')} at {model}."
    if needs:
        capabilities = _render_capabilities(needs[-1:], "false")
        return f"Where the model cannot, write {capabilities} at {model}; where it can, mend the upstream."
    return "Mend the upstream: no capability stands for this, so that none can be taken back."


def _render_capabilities(names: list[str] | tuple[str, ...], value: str) -> str:
    return "capabilities: {" + ", ".join(f"{name}: {value}" for name in names) + "}"
