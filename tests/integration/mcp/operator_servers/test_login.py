"""`responses-gateway mcp login`: a person authorizes the gateway in a browser, and the gateway uses the server."""

import asyncio
import base64
import hashlib
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
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import Json, json_reply

ISSUED = {"access_token": "access-token-1", "refresh_token": "refresh-token-1", "expires_in": 3600}


def auth_of(issuer: ScriptedUpstream) -> Json:
    addresses = {"authorization_url": f"{issuer.url}/authorize?a=b", "token_url": f"{issuer.url}/token"}
    return {"oauth": {"grant": "login", "client_id": "gateway", "scope": "read", **addresses}}


async def browse(settings: Settings, **answers: str) -> dict[str, list[str]]:
    """Opens the page as a browser would, and returns to the redirect address with these answers. Returns the query."""
    opened: asyncio.Queue[str] = asyncio.Queue()
    login = asyncio.get_running_loop().create_task(log_in(settings, "lookup", 0, opened.put_nowait, 20))
    page = urlsplit(await opened.get())
    query = parse_qs(page.query)
    back = query["redirect_uri"][0]
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(back.replace("/callback", "/favicon.ico"))).status_code == 404
        await browser.get(f"{back}?{urlencode({'state': query['state'][0], **answers})}")
    await login
    return query


async def test_a_server_is_used_after_a_login(tmp_path: Path) -> None:
    async with ScriptedUpstream() as issuer, scripted_mcp(answer(text_result("found"))) as server:
        issuer.on("/token", json_reply(ISSUED))
        mcp = configured(lookup={"url": server.url, "auth": auth_of(issuer)})
        store = {"url": ready_sqlite(tmp_path / "state.db")}
        settings = parse_settings({"store": store, "tools": {"mcp": mcp}}, environ={})
        query = await browse(settings, code="the-code")
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


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"code": "the-code", "state": "another"}, "belongs to another login"),
        ({"error": "access_denied"}, "the login was refused: access_denied"),
    ],
)
async def test_an_answer_that_is_not_of_this_login_is_refused(
    tmp_path: Path, answers: dict[str, str], message: str
) -> None:
    async with ScriptedUpstream() as issuer:
        mcp = configured(lookup={"url": "https://mcp.example.com/mcp", "auth": auth_of(issuer)})
        store = {"url": ready_sqlite(tmp_path / "state.db")}
        with pytest.raises(McpFault, match=message):
            await browse(parse_settings({"store": store, "tools": {"mcp": mcp}}, environ={}), **answers)
        assert issuer.requests == []
