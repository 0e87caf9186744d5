"""gateway/vector_stores/patient_embedder.py: which failures of a model of embeddings pass, and how long files wait."""

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import pytest

from gateway.retrieval.embedding import EmbeddedQueries, Vector, embed_queries, pack_vector
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.upstreams.outcomes import OUTCOMES, find_outcome
from gateway.vector_stores import patient_embedder
from gateway.vector_stores.patient_embedder import IndexingPostponed, PatientEmbedder, Tries, is_model_away
from providers.errors import (
    ConnectionsExhausted,
    ContextLengthExceeded,
    EngineUnavailable,
    UpstreamBroken,
    UpstreamGarbled,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from translation.errors import ProtocolViolation, Unrepresentable

VECTOR = pack_vector([1.0, 2.0])
MOST = 5


class FailingEmbedder:
    """Fails with these errors, one at each call, and then succeeds."""

    name = "model"

    def __init__(self, *errors: Exception) -> None:
        self.errors = [*errors]
        self.calls = 0

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return [VECTOR for _ in texts]

    def is_away(self, error: Exception) -> bool:
        return is_model_away(error)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_embedder, "_LONGEST_WAIT_S", 0.001)


def rejected(status: int, code: str | None = None, headers: dict[str, str] | None = None) -> UpstreamRejected:
    return UpstreamRejected("secret words of the upstream", status=status, code=code, headers=headers)


PASSING: dict[str, Exception] = {
    "status 429": UpstreamRateLimited("busy", status=429),
    "status 503": UpstreamOverloaded("busy", status=503),
    "status 529": rejected(529),
    "status 425": rejected(425),
    "status 408": rejected(408),
    "status 500": rejected(500),
    "status 502": rejected(502),
    "status 504": rejected(504),
    "no connection": UpstreamUnreachable("refused"),
    "reset": UpstreamUnreachable("reset", was_sent=True),
    "broken off": UpstreamBroken("broken"),
    "no reply in time": UpstreamTimeout("silence"),
    "no free connection": ConnectionsExhausted("all in use", status=503),
    "an engine that starts": EngineUnavailable("starting"),
}

FINAL: dict[str, tuple[Exception, str]] = {
    "status 400": (rejected(400), "refuses a chunk of the file: status 400"),
    "status 413": (rejected(413), "refuses a chunk of the file: status 413"),
    "status 422": (rejected(422), "refuses a chunk of the file: status 422"),
    "a content filter": (rejected(400, code="content_filter"), "refuses a chunk of the file: status 400"),
    "status 401": (UpstreamUnauthorized("no", status=401), "refuses the gateway's key"),
    "status 403": (UpstreamUnauthorized("no", status=403), "refuses the gateway's key"),
    "status 402": (rejected(402), "no quota left"),
    "no quota": (UpstreamRateLimited("pay", status=429, code="insufficient_quota"), "no quota left"),
    "no such model": (UpstreamModelNotFound("no", status=404), "does not have the model"),
    "another 404": (UpstreamModelNotFound("no", status=404, param="input"), "refuses a chunk of the file: status 404"),
    "too long": (ContextLengthExceeded("long", status=400), "smaller max_chunk_size_tokens"),
    "another size": (ProtocolViolation("the upstream replied with embeddings of [3] numbers"), "of [3] numbers"),
    "no embeddings here": (Unrepresentable("the provider p has no /v1/embeddings", param=None), "no /v1/embeddings"),
    "not HTTP": (UpstreamGarbled("what"), "refuses a chunk of the file."),
    "must not be repeated": (rejected(503, headers={"x-should-retry": "false"}), "status 503"),
}


def test_the_tables_have_every_outcome() -> None:
    outcomes = [find_outcome(error) for error in (*PASSING.values(), *(error for error, _ in FINAL.values()))]
    assert [name for name, outcome in OUTCOMES.items() if outcome not in outcomes] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", PASSING)
async def test_failures_that_pass_are_tried_again(kind: str) -> None:
    embedder = FailingEmbedder(PASSING[kind], PASSING[kind])
    assert await PatientEmbedder(embedder, Tries(0, MOST)).embed(["a", "b"]) == [VECTOR, VECTOR]
    assert embedder.calls == 3


@pytest.mark.parametrize("kind", FINAL)
async def test_failures_that_do_not_pass_fail_the_file_at_once(kind: str) -> None:
    error, words = FINAL[kind]
    embedder = FailingEmbedder(error)
    with pytest.raises(UnreadableFile) as failed:
        await PatientEmbedder(embedder, Tries(0, MOST)).embed(["a"])
    assert failed.value.code == "server_error"
    assert words in failed.value.message
    assert "secret" not in failed.value.message
    assert failed.value.message.endswith(".")
    assert embedder.calls == 1


@pytest.mark.parametrize("kind", PASSING)
async def test_a_search_goes_by_words_while_its_model_is_away(kind: str) -> None:
    assert await embed_queries(FailingEmbedder(PASSING[kind]), ["a"]) == EmbeddedQueries(is_model_away=True)


async def test_a_search_goes_by_words_if_its_model_does_not_reply_in_time() -> None:
    class SilentEmbedder(FailingEmbedder):
        async def embed(self, texts: Sequence[str]) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError("nothing sets the event")

    assert await embed_queries(SilentEmbedder(), ["a"], limit_s=0.01) == EmbeddedQueries(is_model_away=True)


FAILING: dict[str, Exception] = {kind: error for kind, (error, _) in FINAL.items()} | {"a fault of ours": KeyError("x")}


@pytest.mark.parametrize("error", FAILING.values(), ids=FAILING)
async def test_a_search_fails_if_its_model_cannot_be_used(error: Exception) -> None:
    with pytest.raises(type(error)):
        await embed_queries(FailingEmbedder(error), ["a"])


@pytest.mark.usefixtures("quick")
async def test_the_last_try_fails_the_file() -> None:
    embedder = FailingEmbedder(*[PASSING["status 503"]] * 10)
    with pytest.raises(UnreadableFile, match="at every try"):
        await PatientEmbedder(embedder, Tries(1, MOST)).embed(["a"])
    assert embedder.calls == MOST - 1


@pytest.mark.usefixtures("quick")
async def test_what_succeeds_in_between_is_no_reason_to_try_for_ever() -> None:
    """A large file goes on after each busy minute, and one with a chunk that always fails ends."""
    busy = [PASSING["status 429"]] * (MOST - 2)
    embedder, tries = FailingEmbedder(), Tries(1, MOST)
    patient = PatientEmbedder(embedder, tries)
    for _ in range(3):
        embedder.errors = [*busy]
        await patient.embed(["a"])
    assert tries.postpone(1000.0, "").tries == 2


def limited(**headers: str) -> UpstreamRateLimited:
    return UpstreamRateLimited("busy", status=429, headers={name.replace("_", "-"): v for name, v in headers.items()})


@pytest.mark.parametrize(
    ("error", "before", "least_s", "most_s"),
    [
        (UpstreamOverloaded("busy", status=503), 4, 12, 16),
        (UpstreamOverloaded("busy", status=503), 90, 225, 300),
        (limited(retry_after="61"), 0, 61, 61),
        (limited(retry_after="900"), 0, 900, 900),
        (limited(retry_after="86400"), 0, 3600, 3600),
        (limited(retry_after="1"), 9, 225, 300),
    ],
)
async def test_a_long_wait_puts_the_file_off(error: Exception, before: int, least_s: float, most_s: float) -> None:
    with pytest.raises(IndexingPostponed) as postponed:
        await PatientEmbedder(FailingEmbedder(error), Tries(before, 100)).embed(["a"])
    assert least_s <= postponed.value.wait_s <= most_s
    assert postponed.value.tries == before + 1


async def test_a_wait_that_the_upstream_names_is_kept_in_place_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(patient_embedder, "sleep", record)
    embedder = FailingEmbedder(limited(retry_after="59"), limited(retry_after_ms="2500"))
    await PatientEmbedder(embedder, Tries(0, MOST)).embed(["a"])
    assert waits == [59, 2.5]
