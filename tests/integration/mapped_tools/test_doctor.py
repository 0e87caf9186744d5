"""What the doctor says of tools of MCP servers that are run as hosted tools."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from gateway.config.settings import parse_settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.mcp_servers import examine_servers
from tests.integration.mapped_tools.mapped_gateway import (
    CODE,
    MAPPINGS,
    WEB_SEARCH,
    MappedServer,
    mapped_server,
    server_settings,
)
from tests.upstream.builders import Json


@pytest.fixture(scope="module")
def server() -> Iterator[MappedServer]:
    with mapped_server() as server:
        yield server


async def examine(server: MappedServer, mappings: Json, **more: Any) -> dict[str, Finding]:
    config = {"tools": {"mcp": {"servers": {"finder": {**server_settings(server.url, **mappings), **more}}}}}
    (diagnosis,) = await asyncio.to_thread(examine_servers, parse_settings(config, environ={}))
    return {finding.check: finding for finding in diagnosis.findings}


async def test_mappings_that_fit_pass(server: MappedServer) -> None:
    found = (await examine(server, MAPPINGS))["as"]
    assert (found.verdict, found.detail) == (
        "pass",
        "find_pages is web_search, find_chunks is file_search, run_code is code_interpreter",
    )


def with_arguments(**arguments: str) -> Json:
    return {"find_pages": {**WEB_SEARCH, "arguments": arguments}}


ODD: Final[dict[str, tuple[Json, str]]] = {
    "a tool that is not listed": ({"find": WEB_SEARCH}, "find: the server does not list this tool"),
    "an argument that the tool does not have": (
        with_arguments(query="q", results="limit"),
        "find_pages: it has no argument 'limit' (it has: q, count, country, only)",
    ),
    "an argument that the tool requires": (
        with_arguments(query="count"),
        "find_pages: it requires the argument 'q', which the mapping does not have",
    ),
}


@pytest.mark.parametrize(("mappings", "detail"), ODD.values(), ids=ODD)
async def test_a_mapping_that_does_not_fit_fails(server: MappedServer, mappings: Json, detail: str) -> None:
    found = (await examine(server, mappings))["as"]
    assert (found.verdict, found.detail) == ("fail", detail)
    assert "`as`" in found.advice


PROBE: Final[Json] = {"tool": "find_pages", "arguments": {"q": "rain"}}
RESULTS: Final[dict[str, tuple[Json, str, str]]] = {
    "what can be read": (WEB_SEARCH, "pass", "2 results can be read"),
    "a path that finds nothing": (
        {**WEB_SEARCH, "result": {"items": "found", "url": "url"}},
        "fail",
        "no entry of the result has a url at url (result.url)",
    ),
    "a title that no page has": (
        {**WEB_SEARCH, "result": {"items": "found", "url": "link", "title": "title"}},
        "fail",
        "no entry of the result has a title at title (result.title)",
    ),
    "no list": ({**WEB_SEARCH, "result": {"url": "url"}}, "fail", "the result has no list at $ (result.items)"),
}


@pytest.mark.parametrize(("mapped", "verdict", "detail"), RESULTS.values(), ids=RESULTS)
async def test_the_result_of_a_probe_is_read(server: MappedServer, mapped: Json, verdict: str, detail: str) -> None:
    found = (await examine(server, {"find_pages": mapped}, probe=PROBE))["result"]
    assert (found.verdict, found.detail) == (verdict, detail)


async def test_a_probe_that_finds_nothing_fails() -> None:
    with mapped_server(find_pages=lambda _: {"found": []}) as server:
        found = (await examine(server, {"find_pages": WEB_SEARCH}, probe=PROBE))["result"]
    assert (found.verdict, found.detail) == ("fail", "no results")


async def test_a_probe_of_code_has_no_results_to_read(server: MappedServer) -> None:
    found = await examine(server, {"run_code": CODE}, probe={"tool": "run_code", "arguments": {"source": "1"}})
    assert (found["call"].verdict, "result" in found) == ("pass", False)
