"""Sends searches to the engine, and limits the size of its replies before they are parsed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

import httpx2
import orjson
import structlog

from dataplane.core import measure_json
from dataplane.sharing.work_pool import run_in_pool
from gateway.config.tool_settings import WebSearchSettings
from gateway.tools.executors.executor import ToolFault
from gateway.tools.web_search.engines import ENGINES, PageFound, SearchQuery
from providers.egress import EgressClient, EgressRefused, GuardedSender
from translation.hosted.citations.citation_table import remove_markers
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_LARGE_BYTES: Final = 64 * 1024
_MAX_VALUES: Final = 80_000
_MAX_DEPTH: Final = 100

_UNAVAILABLE: Final = "search_unavailable: the web search failed"
_ADVICE: Final = "Answer without it, or say that you cannot search now."


class SearchUnavailable(ToolFault):
    """The engine did not answer a search. `why` is logged for the operator; the message is for the model.

    `detail` is what a tool of an MCP server reports for the model.
    """

    def __init__(self, why: str, status: int | None = None, detail: str = "") -> None:
        reason = f" ({remove_markers(detail)})" if detail else ""
        super().__init__(f"{_UNAVAILABLE}{reason}. {_ADVICE}")
        self.why = why
        self.status = status


class EngineClient:
    """The client of the engine that the configuration names."""

    def __init__(self, settings: WebSearchSettings) -> None:
        if settings.engine is None:
            raise ValueError("no engine is configured")
        self._settings = settings
        self._engine = ENGINES[settings.engine]
        self.key: Final = "" if settings.key is None else settings.key.get_secret_value()
        self._url = self._engine.build_url(settings.url)
        # The operator named the host, so it may have any address. Redirects are not followed.
        self._egress = EgressClient(allow=[self._url.host])

    def list_secrets(self) -> Sequence[str]:
        """Returns the key, if there is one."""
        return [self.key] if self.key else []

    def finds_country(self, country: object) -> bool:
        """Whether the engine can search for a country. The value is as the client wrote it."""
        return isinstance(country, str) and country.upper() in self._engine.countries

    async def search(self, query: SearchQuery, deadline_s: float, allows: Callable[[str], bool]) -> list[PageFound]:
        """Returns the results whose URLs `allows` accepts, at most `query.limit`. Raises SearchUnavailable."""
        try:
            body = await self.fetch_reply(query, min(deadline_s, self._settings.deadline_s))
        except SearchUnavailable as fault:
            _log.warning("search_engine_failed", engine=self._settings.engine, why=fault.why, status=fault.status)
            raise
        return [each for each in self._engine.read_results(body) if allows(each.url)][: query.limit]

    async def fetch_reply(self, query: SearchQuery, deadline_s: float) -> Json:
        """Returns the reply to a search. Raises SearchUnavailable."""
        request = self._engine.build(self._url, self.key, query)
        try:
            async with asyncio.timeout(deadline_s), aclosing(GuardedSender(self._egress)) as sender:
                data = await self._read_reply(await sender.send(request))
        except TimeoutError:
            raise SearchUnavailable("no answer in time") from None
        except EgressRefused:
            raise SearchUnavailable("its host cannot be resolved") from None
        except httpx2.HTTPError as error:
            raise SearchUnavailable(f"no complete answer: {type(error).__name__}") from None
        return await run_in_pool(_parse_reply, data) if len(data) > _LARGE_BYTES else _parse_reply(data)

    async def _read_reply(self, reply: httpx2.Response) -> bytes:
        async with aclosing(reply):
            if reply.status_code != 200:
                raise SearchUnavailable("an error status", reply.status_code)
            if reply.headers.get("content-encoding", "identity").lower() != "identity":
                raise SearchUnavailable("compressed content, although the request does not accept it")
            data = bytearray()
            async for piece in reply.aiter_raw():
                data += piece
                if len(data) > self._settings.max_reply_bytes:
                    raise SearchUnavailable("an answer that is too large (tools.web_search.max_reply_mb)")
        return bytes(data)


def _parse_reply(data: bytes) -> Json:
    values, depth = measure_json(data)
    if values > _MAX_VALUES or depth > _MAX_DEPTH:
        raise SearchUnavailable("an answer with too many values")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise SearchUnavailable("an answer that is no JSON object")
    return body
