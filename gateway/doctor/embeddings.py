"""Examines the model of embeddings of the configuration, and the database that compares its vectors."""

import asyncio
import time
from contextlib import aclosing
from typing import Final

from gateway.config.settings import Settings, StoreSettings
from gateway.config.tool_settings import EmbeddingSettings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.errors import StoreUnavailable
from gateway.retrieval.embedding import count_numbers
from gateway.state.database.database import Database
from gateway.state.database.vector_table import require_vector_table
from gateway.state.values import SchemaMismatch
from gateway.tools.host import build_egress
from gateway.upstreams.outcomes import ResultName, find_outcome
from gateway.vector_stores.embedder import ProviderEmbedder
from providers.errors import ProviderError
from providers.registry import build_provider
from translation.errors import TranslationError

_KIND: Final = "Model of embeddings"
_TEXTS: Final = ("A cat sleeps on the mat.", "The invoice is due on Monday.")

_KEY: Final = "tools.file_search.embeddings"
_ADVICE: Final[dict[ResultName, str]] = {
    "unreachable": "Start the upstream, or correct base_url at {provider}.",
    "timeout": "Find out why the upstream does not respond; if it needs more time, raise answer_s at {provider}.",
    "overloaded": "Try again once the upstream has capacity: until then files wait (tools.file_search.tries).",
    "rate_limited": "Check the account that the key of {provider} belongs to, or wait for its rate limit.",
    "unauthorized": "Correct api_key at {provider}: the upstream refuses it.",
    "not_found": "Correct model at tools.file_search.embeddings, or base_url at {provider}: its version, such as /v1, "
    "may be missing.",
    "rejected": "Check that the model makes embeddings, and whether it has several sizes: without, remove dimensions.",
    "garbled": "Check that the model makes embeddings, and dimensions at tools.file_search.embeddings.",
}
_OTHER_ADVICE: Final = "Read the upstream's log."


def examine_embeddings(settings: Settings) -> PartDiagnosis | None:
    """Returns a diagnosis of the model of embeddings; None without one. It sends one request, which may be billed."""
    own = settings.tools.file_search.embeddings
    return None if own is None else asyncio.run(_examine(own, settings))


async def _examine(own: EmbeddingSettings, settings: Settings) -> PartDiagnosis:
    findings = [await _examine_model(own, settings)]
    if settings.store.url is not None:
        findings.append(await _examine_database(settings.store.url, settings.store))
    return PartDiagnosis(own.model, findings, kind=_KIND)


async def _examine_model(own: EmbeddingSettings, settings: Settings) -> Finding:
    check, began = "embed", time.monotonic()
    provider = build_provider(own.provider, settings.providers[own.provider], build_egress(settings.egress))
    async with aclosing(provider):
        try:
            first, second = await ProviderEmbedder(own, {own.provider: provider}, None).embed(_TEXTS)
        except (ProviderError, TranslationError) as error:
            outcome = find_outcome(error)
            advice = _OTHER_ADVICE if outcome is None else _ADVICE.get(outcome.result, _OTHER_ADVICE)
            advice = advice.format(provider=f"providers.{own.provider}")
            return Finding(check=check, verdict="fail", detail=str(error), advice=advice)
    if first == second:
        return Finding(
            check=check,
            verdict="fail",
            detail="two texts of different meaning have the same vector",
            advice=f"Name another model at {_KEY}: this one does not tell texts apart.",
        )
    detail = f"vectors of {count_numbers(first)} numbers"
    return Finding(check=check, verdict="pass", detail=detail, seconds=time.monotonic() - began)


async def _examine_database(url: str, store: StoreSettings) -> Finding:
    check, began = "compare", time.monotonic()
    database = Database(url, deadline_s=store.deadline_s)
    if database.is_sqlite:
        await database.aclose()
        return Finding(check=check, verdict="pass", detail="in the gateway, beside SQLite")
    try:
        async with database.read_transaction() as connection:
            await require_vector_table(connection)
    except SchemaMismatch as missing:
        why, _, advice = str(missing).partition(": ")
        return Finding(check=check, verdict="fail", detail=why, advice=f"{advice[:1].upper()}{advice[1:]}.")
    except StoreUnavailable:
        return Finding(
            check=check, verdict="fail", detail="the database cannot be asked", advice="Start it, or check store.url."
        )
    finally:
        await database.aclose()
    return Finding(check=check, verdict="pass", detail="pgvector", seconds=time.monotonic() - began)
