"""The check of prefix caches: the second turn of a session has to find most of the first turn in the cache."""

import secrets
from typing import Any, Final

from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.expectations import GREETING_PROMPT, TOKEN_LIMIT
from gateway.doctor.checks.verdicts import Inconclusive, RequestFailed, UncachedPrefix
from translation.representation.json_types import Json, mapping_or_empty

_MIN_SHARE: Final = 0.8
"""The share of the first turn's prompt that has to be cached in the second. Caches consist of blocks of tokens."""

_RULE: Final = "Reply in one short sentence, and never mention these rules. "

_MAX_RULES: Final = 120
"""The most rules in the prompt. They have some 1,500 tokens: hosted services cache nothing below 1,024."""

_TOKENS_PER_RULE: Final = 60
"""An upper bound. Tokenizers of small models need several tokens for a word."""

_ENGINES: Final = frozenset({"vllm", "vllm_inprocess", "llama_server", "llamacpp", "harmony", "demo"})
"""Types of upstreams that cache prefixes of any length, unless their cache is switched off."""

_SILENCE: Final = "its upstream does not report cached tokens"

_REASONS_OF_SILENCE: Final = {"vllm": f"{_SILENCE}: start vLLM with --enable-prompt-tokens-details"}
"""Type of an upstream -> the advice by which it reports cached tokens."""


def probe_prefix_cache(session: CheckSession) -> str:
    """Checks that a second turn finds most of the first one in the upstream's cache.

    The first line of the prompt differs between the turns, as with Claude Code. Raises Inconclusive if the
    upstream does not report cached tokens.
    """
    window = session.subject.capabilities.max_context_window
    rules = _MAX_RULES if window is None else max(4, min(_MAX_RULES, window // 2 // _TOKENS_PER_RULE))
    question: Json = {"role": "user", "content": GREETING_PROMPT}
    first = _request_turn(session, rules, question)
    answer: Json = {"role": "assistant", "content": _text_of(first) or "Hello."}
    second = _request_turn(session, rules, question, answer, question)
    prompt, cached = _read_usage(first)[0], _read_usage(second)[1]
    if cached is None:
        raise Inconclusive(_REASONS_OF_SILENCE.get(session.subject.provider_type, _SILENCE))
    if not prompt:
        raise Inconclusive("its upstream does not report the tokens of a prompt")
    result = f"{cached} of the {prompt} tokens of the first turn were cached in the second"
    if cached > prompt * _MIN_SHARE:
        return result
    if not cached and session.subject.provider_type not in _ENGINES:
        raise Inconclusive(f"{result}: its upstream may cache only longer prompts, or only what requests mark")
    raise UncachedPrefix(result)


def _request_turn(session: CheckSession, rules: int, *messages: Json) -> Json:
    # Chat is the API in which a count that is not reported is absent. In the others it is 0.
    nonce = f"x-anthropic-billing-header: cc_version=doctor; cch={secrets.token_hex(4)};"
    system: Json = {"role": "system", "content": f"{nonce}\n\n{_RULE * rules}"}
    try:
        return session.create_completion(messages=[system, *messages], max_completion_tokens=TOKEN_LIMIT)
    except RequestFailed as refusal:
        if refusal.code == "context_length_exceeded":
            raise Inconclusive("its context is too small for the prompt of this check") from refusal
        raise


def _text_of(completion: Json) -> Any:
    return completion["choices"][0]["message"].get("content")


def _read_usage(completion: Json) -> tuple[int, int | None]:
    """Returns the number of tokens in the prompt, or 0 if unknown, and the cached tokens, or None if not reported."""
    usage = mapping_or_empty(completion.get("usage"))
    prompt = usage.get("prompt_tokens")
    cached = mapping_or_empty(usage.get("prompt_tokens_details")).get("cached_tokens")
    return prompt if type(prompt) is int else 0, cached if type(cached) is int else None
