"""gateway/doctor/checks/prefix_probe.py: checks an upstream's prefix cache by the usage of two turns."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.doctor.checks.prefix_probe import probe_prefix_cache
from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.verdicts import Inconclusive, RequestFailed, UncachedPrefix
from providers.base import Capabilities

Json = dict[str, Any]
SUBJECT = Subject(
    name="m",
    provider="p",
    provider_type="vllm",
    upstream_model="m",
    capabilities=Capabilities(),
    strict=False,
    unknown_model="nobody",
)


class Session:
    """Replies to every turn with a usage of 1,000 input tokens, of which some were cached."""

    def __init__(self, cached: int | None, provider_type: str = "vllm", window: int | None = None) -> None:
        self.subject = replace(
            SUBJECT, provider_type=provider_type, capabilities=Capabilities(max_context_window=window)
        )
        self.requests: list[Json] = []
        self._usage: Json = {"prompt_tokens": 1000}
        if cached is not None:
            self._usage["prompt_tokens_details"] = {"cached_tokens": cached}

    def create_completion(self, **body: Any) -> Json:
        self.requests.append(body)
        return {"choices": [{"message": {"content": None}}], "usage": self._usage}


def probe(session: Any) -> str:
    return probe_prefix_cache(session)


def test_a_second_turn_repeats_the_first_behind_another_first_line() -> None:
    session = Session(900)
    assert probe(session) == "900 of the 1000 tokens of the first turn were cached in the second"
    first, second = (request["messages"] for request in session.requests)
    assert second[1:2] == first[1:]
    header, rules = first[0]["content"].split("\n\n")
    other_header, same_rules = second[0]["content"].split("\n\n")
    assert (rules == same_rules, header == other_header) == (True, False)


def test_the_prompt_fits_the_context_of_a_small_model() -> None:
    small, large = Session(900, window=2048), Session(900)
    probe(small)
    probe(large)
    lengths = [len(session.requests[0]["messages"][0]["content"]) for session in (small, large)]
    assert lengths[0] < 1200 < 6000 < lengths[1]


@pytest.mark.parametrize(("cached", "provider_type"), [(0, "vllm"), (800, "vllm"), (512, "openai")])
def test_a_cache_that_had_too_little_is_a_fail(cached: int, provider_type: str) -> None:
    with pytest.raises(UncachedPrefix, match=f"^{cached} of the 1000 tokens"):
        probe(Session(cached, provider_type))


@pytest.mark.parametrize(
    ("cached", "provider_type", "words"),
    [
        (None, "vllm", "--enable-prompt-tokens-details"),
        (None, "openai_compatible", "its upstream does not report cached tokens"),
        (0, "anthropic", "only what requests mark"),
    ],
)
def test_a_cache_without_counts_is_not_judged(cached: int | None, provider_type: str, words: str) -> None:
    with pytest.raises(Inconclusive, match=words):
        probe(Session(cached, provider_type))


def test_a_prompt_that_is_not_counted_or_does_not_fit_decides_nothing() -> None:
    session = Session(900)
    session._usage["prompt_tokens"] = None
    with pytest.raises(Inconclusive, match="does not report the tokens of a prompt"):
        probe(session)

    class TooSmall(Session):
        def create_completion(self, **_: Any) -> Json:
            raise RequestFailed(400, {"code": code, "message": "no"})

    code = "context_length_exceeded"
    with pytest.raises(Inconclusive, match="its context is too small"):
        probe(TooSmall(0))
    code = "upstream_error"
    with pytest.raises(RequestFailed):
        probe(TooSmall(0))
