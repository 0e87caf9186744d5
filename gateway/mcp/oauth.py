"""Access tokens by OAuth's client credentials, for servers of the configuration.

Sources: RFC 6749 (section 4.4), RFC 8414 and RFC 9728 (where endpoints are found), RFC 8707 (`resource`).
"""

import asyncio
import base64
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import orjson
import structlog

from gateway.mcp.errors import McpFault
from gateway.mcp.guarded_send import GuardedSender
from providers.egress import EgressClient, EgressRefused

_log = structlog.get_logger(__name__)

_DEADLINE_S: Final = 10.0
_MAX_BYTES: Final = 64 * 1024
_MARGIN_S: Final = 30.0
"""How long before its end a token is replaced, so that it does not expire on its way."""

_DEFAULT_LIFETIME_S: Final = 300.0
"""The lifetime of a token whose server does not say it."""

_MAX_CODE_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """How the gateway is known to an authorization server.

    `resource` is the address of the MCP server that tokens are for. Without a `token_url` it is found by the metadata
    of that server.
    """

    client_id: str
    client_secret: str = field(repr=False)
    resource: str
    token_url: str | None = None
    scope: str | None = None
    client_auth: Literal["basic", "post"] = "basic"


class OAuthTokens:
    """The token of one server, which is fetched when it is first needed, and again before it expires.

    `egress` guards the addresses that the operator wrote, `found_egress` those that servers name in their metadata.
    """

    def __init__(self, client: OAuthClient, egress: EgressClient, found_egress: EgressClient) -> None:
        self._client = client
        self._egress = egress
        self._found_egress = found_egress
        self._token: str | None = None
        self._expires_at = 0.0
        self._lock = asyncio.Lock()
        self._token_url = client.token_url

    def list_secrets(self) -> Sequence[str]:
        """Returns what must not be in any text that leaves the gateway."""
        return [self._client.client_secret, *([self._token] if self._token is not None else [])]

    async def get_token(self, rejected: str | None = None) -> str:
        """Returns a token, other than the one that the server rejected. Raises McpFault."""
        async with self._lock:
            if self._token is None or self._token == rejected or time.monotonic() > self._expires_at:
                await self._fetch_token()
            assert self._token is not None
            return self._token

    async def _fetch_token(self) -> None:
        client = self._client
        try:
            async with asyncio.timeout(_DEADLINE_S):
                url = self._token_url or await self._find_token_url()
                reply = await self._request("POST", url, self._egress_for(url), self._build_form())
        except TimeoutError:
            raise McpFault("authorization_failed", f"no token within {_DEADLINE_S:g} s") from None
        except EgressRefused as error:
            raise McpFault("egress_refused", f"the authorization server: {error}") from None
        except httpx2.TransportError:
            raise McpFault("authorization_failed", "the authorization server cannot be reached") from None
        token, lifetime = reply.get("access_token"), reply.get("expires_in")
        if not isinstance(token, str) or not token.isprintable() or not token.isascii():
            raise McpFault("authorization_failed", "the authorization server sent no token")
        self._token_url, self._token = url, token
        seconds = float(lifetime) if isinstance(lifetime, int | float) and lifetime > 0 else _DEFAULT_LIFETIME_S
        self._expires_at = time.monotonic() + max(seconds - _MARGIN_S, seconds / 2)
        _log.info("mcp_token_fetched", resource=client.resource, lifetime_s=round(seconds))

    def _build_form(self) -> tuple[bytes, dict[str, str]]:
        """Returns the body of a request for a token, and its headers."""
        client = self._client
        form = {"grant_type": "client_credentials", "resource": client.resource}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if client.scope is not None:
            form["scope"] = client.scope
        if client.client_auth == "post":
            form |= {"client_id": client.client_id, "client_secret": client.client_secret}
        else:
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return urlencode(form).encode(), headers

    async def _find_token_url(self) -> str:
        """Returns the token endpoint that the metadata of the MCP server leads to. Every address on the way is
        guarded: the server names them. Raises McpFault, and what `_request` raises."""
        resource = urlsplit(self._client.resource)
        origin = f"{resource.scheme}://{resource.netloc}"
        path = resource.path.rstrip("/")
        metadata = await self._request(
            "GET", _require_https(f"{origin}/.well-known/oauth-protected-resource{path}"), self._egress
        )
        issuers = metadata.get("authorization_servers")
        if not isinstance(issuers, list) or not issuers or not isinstance(issuers[0], str):
            raise McpFault(
                "authorization_failed", "the server names no authorization server: write auth.oauth.token_url"
            )
        issuer = urlsplit(_require_https(issuers[0]))
        location = f"https://{issuer.netloc}/.well-known/oauth-authorization-server{issuer.path.rstrip('/')}"
        described = await self._request("GET", location, self._found_egress)
        if described.get("issuer") != issuers[0]:
            raise McpFault("authorization_failed", "the authorization server says that it is another one")
        endpoint = described.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise McpFault("authorization_failed", "the authorization server has no token endpoint")
        return _require_https(endpoint)

    def _egress_for(self, url: str) -> EgressClient:
        return self._egress if url == self._client.token_url else self._found_egress

    async def _request(
        self, method: str, url: str, egress: EgressClient, form: tuple[bytes, dict[str, str]] | None = None
    ) -> dict[str, Any]:
        """Returns the JSON object that a request is answered with. No redirect is followed. Raises McpFault,
        EgressRefused and httpx2.TransportError."""
        body, headers = form or (b"", {"accept": "application/json"})
        async with aclosing(GuardedSender(egress)) as sender:
            reply = await sender.send(httpx2.Request(method, url, content=body or None, headers=headers))
            content = b""
            async with aclosing(reply):
                async for piece in reply.aiter_raw():
                    content += piece
                    if len(content) > _MAX_BYTES:
                        raise McpFault("authorization_failed", "the authorization server sent too much")
        parsed = _parse_object(content)
        if reply.status_code != 200 or parsed is None:
            code = (parsed or {}).get("error")
            reason = f": {code[:_MAX_CODE_CHARS]}" if isinstance(code, str) else ""
            place = urlsplit(url).hostname
            raise McpFault("authorization_failed", f"{place} answered with HTTP status {reply.status_code}{reason}")
        return parsed


def _require_https(url: str) -> str:
    """Returns the address. Raises McpFault unless it is https: tokens are only as safe as the way to them."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc:
        raise McpFault("egress_refused", "an address in the metadata of OAuth is not https: write auth.oauth.token_url")
    return url


def _parse_object(content: bytes) -> dict[str, Any] | None:
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None
