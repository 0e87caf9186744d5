"""gateway/tools/mcp/oauth/tokens.py: how the token endpoint is found, and which addresses are refused."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import orjson
import pytest

from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth import tokens as oauth
from gateway.tools.mcp.oauth.tokens import AuthorizationServer, OAuthClient, OAuthTokens
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
FORMS: list[dict[str, str]] = []
"""The forms that the token endpoint received."""

ADDRESSES = {"mcp.example.com": "10.0.0.7", "login.example.com": "93.184.216.34", "inside.example.com": "10.0.0.8"}


async def resolve(host: str, _: int) -> Sequence[str]:
    return [ADDRESSES[host]]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The pages on the web, which are fetched only through the egress rules."""
    web = dict(PAGES)
    FORMS.clear()

    class Web:
        def __init__(self, egress: EgressClient) -> None:
            self._egress = egress

        async def send(self, request: httpx2.Request) -> httpx2.Response:
            await self._egress.resolve(request.url.scheme, request.url.host, request.url.port)
            page = web.get(str(request.url))
            FORMS.extend(dict(parse_qsl(request.content.decode())) for _ in range(request.method == "POST"))
            content = b"" if page is None else orjson.dumps(page)
            return httpx2.Response(404 if page is None else 200, stream=httpx2.ByteStream(content))

        async def aclose(self) -> None: ...

    monkeypatch.setattr(oauth, "GuardedSender", Web)
    return web


def tokens(resource: str = RESOURCE, token_url: str | None = None) -> OAuthTokens:
    client = OAuthClient(client_id="gateway", client_secret="the-secret", resource=resource, token_url=token_url)
    own = EgressClient(allow=["mcp.example.com"], resolver=resolve)
    return OAuthTokens(AuthorizationServer(client, own, EgressClient(resolver=resolve)))


async def test_the_token_endpoint_is_found_by_the_metadata_of_the_server(pages: dict[str, Any]) -> None:
    source = tokens()
    assert await source.get_token() == "a-token"
    pages.clear()
    assert await source.get_token() == "a-token", "it is kept until shortly before its end"
    assert source.list_secrets() == ["the-secret", "a-token"]


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        (None, RESOURCE),
        (RESOURCE, RESOURCE),
        (f"{RESOURCE}/", f"{RESOURCE}/"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com:443/", "https://mcp.example.com:443/"),
        (f"{RESOURCE}?key=abc", f"{RESOURCE}?key=abc"),
    ],
)
async def test_tokens_are_for_the_name_that_the_server_gives_itself(
    pages: dict[str, Any], named: str | None, sent: str
) -> None:
    """Without a name they are for its address without its query, which may be a credential."""
    pages[METADATA] = {"authorization_servers": [ISSUER], **({} if named is None else {"resource": named})}
    await tokens(f"{RESOURCE}?key=abc").get_token()
    assert [form["resource"] for form in FORMS] == [sent]


async def test_the_query_of_an_address_is_not_sent_to_a_configured_token_endpoint(pages: dict[str, Any]) -> None:
    await tokens(f"{RESOURCE}?key=abc", TOKEN_URL).get_token()
    assert [form["resource"] for form in FORMS] == [RESOURCE]


REFUSED: dict[str, tuple[str, Any, str]] = {
    **{
        f"the metadata of {named}": (METADATA, {"resource": named, "authorization_servers": [ISSUER]}, "another server")
        for named in (
            "https://evil.example.com/mcp",
            "http://mcp.example.com/mcp",
            "https://mcp.example.com/mc",
            "https://mcp.example.com/mcp/more",
            "https://mcp.example.com/mcp?other=1",
            "https://me@mcp.example.com/mcp",
            "https://mcp.example.com:x/mcp",
        )
    },
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
    **{
        f"a malformed token endpoint, {url}": (ISSUER_METADATA, {"issuer": ISSUER, "token_endpoint": url}, "malformed")
        for url in ("https://[", "https://login.example.com:x/", "https://login.example.com/\x00")
    },
    "a malformed authorization server": (METADATA, {"authorization_servers": ["https://[::1/"]}, "malformed"),
    "another issuer": (
        ISSUER_METADATA,
        {"issuer": "https://evil.example.com", "token_endpoint": TOKEN_URL},
        "names another issuer",
    ),
    "no authorization server": (METADATA, {}, "names no authorization server"),
    "no metadata": (METADATA, None, "mcp.example.com answered with HTTP status 404"),
    "no token endpoint": (ISSUER_METADATA, {"issuer": ISSUER}, "has no token endpoint"),
    "no token": (TOKEN_URL, {"access_token": 7}, "sent no token"),
    "a token that is no header": (TOKEN_URL, {"access_token": "a\r\nb"}, "sent no token"),
}


@pytest.mark.parametrize(("url", "page", "message"), REFUSED.values(), ids=REFUSED)
async def test_metadata_that_leads_elsewhere_is_refused(
    pages: dict[str, Any], url: str, page: Any, message: str
) -> None:
    pages[url] = page
    with pytest.raises(McpFault, match=message):
        await tokens().get_token()
