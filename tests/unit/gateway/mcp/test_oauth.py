"""gateway/mcp/oauth/tokens.py: where the token endpoint is found, and which addresses may not be."""

from collections.abc import Sequence
from typing import Any

import httpx2
import orjson
import pytest

from gateway.mcp.errors import McpFault
from gateway.mcp.oauth import tokens as oauth
from gateway.mcp.oauth.tokens import AuthorizationServer, OAuthClient, OAuthTokens
from providers.egress import EgressClient

RESOURCE = "https://mcp.example.com/mcp"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
ISSUER = "https://login.example.com/tenant"
ISSUER_METADATA = "https://login.example.com/.well-known/oauth-authorization-server/tenant"
TOKEN_URL = "https://login.example.com/tenant/token"
PAGES: dict[str, Any] = {
    METADATA: {"resource": RESOURCE, "authorization_servers": [ISSUER]},
    ISSUER_METADATA: {"issuer": ISSUER, "token_endpoint": TOKEN_URL},
    TOKEN_URL: {"access_token": "a-token", "expires_in": 60},
}
ADDRESSES = {"mcp.example.com": "10.0.0.7", "login.example.com": "93.184.216.34", "inside.example.com": "10.0.0.8"}


async def resolve(host: str, _: int) -> Sequence[str]:
    return [ADDRESSES[host]]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is on the web, which is reached only through the guard."""
    web = dict(PAGES)

    class Web:
        def __init__(self, egress: EgressClient) -> None:
            self._egress = egress

        async def send(self, request: httpx2.Request) -> httpx2.Response:
            await self._egress.resolve(request.url.scheme, request.url.host, request.url.port)
            page = web.get(str(request.url))
            content = b"" if page is None else orjson.dumps(page)
            return httpx2.Response(404 if page is None else 200, stream=httpx2.ByteStream(content))

        async def aclose(self) -> None: ...

    monkeypatch.setattr(oauth, "GuardedSender", Web)
    return web


def tokens() -> OAuthTokens:
    client = OAuthClient(client_id="gateway", client_secret="the-secret", resource=RESOURCE)
    own = EgressClient(allow=["mcp.example.com"], resolver=resolve)
    return OAuthTokens(AuthorizationServer(client, own, EgressClient(resolver=resolve)))


async def test_the_token_endpoint_is_found_by_the_metadata_of_the_server(pages: dict[str, Any]) -> None:
    source = tokens()
    assert await source.get_token() == "a-token"
    pages.clear()
    assert await source.get_token() == "a-token", "it is kept until shortly before its end"
    assert source.list_secrets() == ["the-secret", "a-token"]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "an internal authorization server": (
        METADATA,
        {"authorization_servers": ["https://inside.example.com"]},
        "outside the public internet",
    ),
    "the address of the server itself": (
        METADATA,
        {"authorization_servers": ["https://mcp.example.com"]},
        "outside the public internet",
    ),
    "an internal token endpoint": (
        ISSUER_METADATA,
        {"issuer": ISSUER, "token_endpoint": "https://inside.example.com/token"},
        "outside the public internet",
    ),
    "a token endpoint without TLS": (
        ISSUER_METADATA,
        {"issuer": ISSUER, "token_endpoint": "http://login.example.com/token"},
        "not https",
    ),
    "another issuer": (
        ISSUER_METADATA,
        {"issuer": "https://evil.example.com", "token_endpoint": TOKEN_URL},
        "says that it is another one",
    ),
    "no authorization server": (METADATA, {}, "names no authorization server"),
    "no metadata": (METADATA, None, "mcp.example.com answered with HTTP status 404"),
    "no token endpoint": (ISSUER_METADATA, {"issuer": ISSUER}, "has no token endpoint"),
    "no token": (TOKEN_URL, {"access_token": 7}, "sent no token"),
    "a token that is no header": (TOKEN_URL, {"access_token": "a\r\nb"}, "sent no token"),
}


@pytest.mark.parametrize(("url", "page", "message"), REFUSED.values(), ids=REFUSED)
async def test_56_metadata_that_leads_elsewhere_is_refused(
    pages: dict[str, Any], url: str, page: Any, message: str
) -> None:
    pages[url] = page
    with pytest.raises(McpFault, match=message):
        await tokens().get_token()
