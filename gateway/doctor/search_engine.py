"""Examines the search engine of the configuration: sends one search, and says what an operator has to change."""

import asyncio
import time
from typing import Final

from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.tools.web_search.domains import DomainRules
from gateway.tools.web_search.engine_client import EngineClient, SearchUnavailable
from gateway.tools.web_search.engines import ENGINES, SearchQuery

_QUERY: Final = "OpenAI Responses API"
_CHECK: Final = "search"
_KIND: Final = "Search engine"

_SEARXNG_ADVICE: Final = (
    "Add `json` to `search.formats` in SearXNG's settings.yml, and let its limiter pass the gateway."
)
_ADVICE: Final = {
    401: "Check the key (tools.web_search.key_env).",
    403: "Check the key (tools.web_search.key_env), and what its plan allows.",
    422: "Check the key (tools.web_search.key_env).",
    429: "The engine's rate limit is reached: wait, or take a larger plan.",
}


def examine_engine(settings: Settings) -> PartDiagnosis | None:
    """Returns a diagnosis of the search engine; None without one. It sends one search, which may be billed."""
    return asyncio.run(_examine(settings)) if settings.tools.web_search.engine is not None else None


async def _examine(settings: Settings) -> PartDiagnosis:
    own = settings.tools.web_search
    name = own.engine or ""
    began = time.monotonic()
    try:
        client = EngineClient(own)
        body = await client.fetch_reply(SearchQuery(_QUERY, 5, DomainRules()), own.deadline_s)
    except SearchUnavailable as fault:
        status = "" if fault.status is None else f" ({fault.status})"
        advice = _SEARXNG_ADVICE if (name, fault.status) == ("searxng", 403) else _ADVICE.get(fault.status or 0, "")
        finding = Finding(check=_CHECK, verdict="fail", detail=f"{fault.why}{status}", advice=advice)
        return PartDiagnosis(name, [finding], kind=_KIND)
    seconds = time.monotonic() - began
    count = sum(1 for _ in ENGINES[own.engine or "searxng"].read_results(body))
    if count:
        finding = Finding(check=_CHECK, verdict="pass", detail=f"{count} results", seconds=seconds)
    else:
        advice = "Look at the engine itself: an engine that finds nothing may be blocked where it searches."
        finding = Finding(check=_CHECK, verdict="fail", detail="no results", seconds=seconds, advice=advice)
    return PartDiagnosis(name, [finding], kind=_KIND)
