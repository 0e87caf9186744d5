"""`responses-gateway mcp login`: a person authorizes the gateway in a browser, and the gateway uses the server."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from gateway.cli.mcp_login import log_in
from gateway.config.settings import Settings, parse_settings
from gateway.tools.mcp.errors import McpFault
from tests.databases import ready_sqlite
from tests.integration.mcp.operator_servers.operator_gateway import configured, model_with
from tests.integration.mcp.tool_gateway import call_of, hosting
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.upstream import Reply, ScriptedUpstream
from tests.upstream.builders import Json, json_reply

ISSUED = {"access_token": "access-token-1", "refresh_token": "refresh-token-1", "expires_in": 3600}


def auth_of(issuer: ScriptedUpstream) -> Json:
    addresses = {"authorization_url": f"{issuer.url}/authorize?a=b", "token_url": f"{issuer.url}/token"}
    return {"oauth": {"grant": "login", "client_id": "gateway", "scope": "read", **addresses}}


@asynccontextmanager
async def begun(settings: Settings) -> AsyncIterator[tuple[asyncio.Task[None], str, dict[str, list[str]]]]:
    """A login that waits for its answer: its task, the address for the answer, and the query of the page to open."""
    opened: asyncio.Queue[str] = asyncio.Queue()
    login = asyncio.get_running_loop().create_task(log_in(settings, "lookup", 0, opened.put_nowait, 20))
    try:
        query = parse_qs(urlsplit(await opened.get()).query)
        yield login, query["redirect_uri"][0], query
    finally:
        login.cancel()
        with suppress(asyncio.CancelledError, McpFault):
            await login


async def browse(settings: Settings, **answers: str) -> tuple[dict[str, list[str]], str]:
    """Opens the page as a browser would, and returns to the redirect address with these answers. Returns the query of
    the page, and the text at the redirect address."""
    async with begun(settings) as (login, back, query), httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        assert (await browser.get(back.replace("/callback", "/favicon.ico"))).status_code == 404
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        reply = await browser.get(f"{back}?{urlencode({'state': query['state'][0], **answers})}", headers=headers)
        assert reply.status_code == 200
        try:
            await login
        except McpFault:
            assert reply.text == "The login failed. The command shows the reason."
            raise
        return query, reply.text


def settings_for(tmp_path: Path, issuer: ScriptedUpstream) -> Settings:
    mcp = configured(lookup={"url": "https://mcp.example.com/mcp", "auth": auth_of(issuer)})
    return parse_settings({"store": {"url": ready_sqlite(tmp_path / "state.db")}, "tools": {"mcp": mcp}}, environ={})


async def test_a_server_is_used_after_a_login(tmp_path: Path) -> None:
    async with ScriptedUpstream() as issuer, scripted_mcp(answer(text_result("found"))) as server:
        issuer.on("/token", json_reply(ISSUED))
        mcp = configured(lookup={"url": server.url, "auth": auth_of(issuer)})
        store = {"url": ready_sqlite(tmp_path / "state.db")}
        settings = parse_settings({"store": store, "tools": {"mcp": mcp}}, environ={})
        query, text = await browse(settings, code="the-code")
        assert text == "You are logged in. This page can be closed."
        assert (query["a"], query["client_id"], query["scope"], query["resource"]) == (
            ["b"],
            ["gateway"],
            ["read"],
            [server.url],
        )
        form = {name: value[0] for name, value in parse_qs(issuer.requests[0].content.decode()).items()}
        assert (form["grant_type"], form["code"], form["client_id"]) == ("authorization_code", "the-code", "gateway")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert query["code_challenge"] == [base64.urlsafe_b64encode(digest).decode().rstrip("=")]
        async with hosting(mcp=mcp, models=model_with("lookup"), store=store) as gateway:
            assert call_of(await gateway.ask())["output"] == "found"
        assert server.calls[0].headers["authorization"] == "Bearer access-token-1"
        assert len(issuer.requests) == 1


async def test_a_refused_login_ends_with_the_reason(tmp_path: Path) -> None:
    async with ScriptedUpstream() as issuer:
        with pytest.raises(McpFault, match="the login was refused: access_denied"):
            await browse(settings_for(tmp_path, issuer), error="access_denied")
        assert issuer.requests == []


async def test_the_page_does_not_say_that_a_login_succeeded_whose_code_was_refused(tmp_path: Path) -> None:
    async with ScriptedUpstream() as issuer:
        issuer.on("/token", Reply(400, {"content-type": "application/json"}, b'{"error": "invalid_grant"}'))
        with pytest.raises(McpFault):
            await browse(settings_for(tmp_path, issuer), code="the-code")


STRANGE: dict[str, tuple[dict[str, str], dict[str, str], int]] = {
    "the answer to another login": ({"state": "another", "code": "c"}, {}, 400),
    "an answer without a state": ({"code": "c"}, {}, 400),
    "a refusal of another login": ({"state": "", "error": "access_denied"}, {}, 400),
    "a page of a name that leads here": ({}, {"host": "evil.example"}, 421),
    "a request of a page": ({}, {"origin": "https://evil.example"}, 403),
}


@pytest.mark.parametrize(("answers", "headers", "status"), STRANGE.values(), ids=STRANGE)
async def test_an_answer_that_is_not_of_this_login_ends_nothing(
    tmp_path: Path, answers: dict[str, str], headers: dict[str, str], status: int
) -> None:
    async with ScriptedUpstream() as issuer, httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        issuer.on("/token", json_reply(ISSUED))
        async with begun(settings_for(tmp_path, issuer)) as (login, back, query):
            reply = await browser.get(back, params=answers, headers=headers)
            assert (reply.status_code, "logged in" in reply.text) == (status, False)
            assert not login.done()
            right = {"state": query["state"][0], "code": "the-code"}
            assert "You are logged in." in (await browser.get(back, params=right)).text
            await login
        assert len(issuer.requests) == 1
