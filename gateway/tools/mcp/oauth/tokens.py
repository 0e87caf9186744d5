"""Access tokens by OAuth, for servers of the configuration: by client credentials.

Sources: RFC 6749 (section 4.4), RFC 8414 and RFC 9728 (where endpoints are found), RFC 8707 (`resource`).
"""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import httpx2
import orjson
import structlog

from gateway.tools.mcp.errors import McpFault, describe_unreachable
from providers.egress import EgressClient, EgressRefused, GuardedSender

_log = structlog.get_logger(__name__)

_DEADLINE_S: Final = 10.0
_MAX_BYTES: Final = 64 * 1024
_MARGIN_S: Final = 30.0

_DEFAULT_LIFETIME_S: Final = 300.0
"""The lifetime of a token if its server does not state one."""

_MAX_CODE_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """The gateway's registration at an authorization server.

    `resource` is the address of the MCP server that the tokens are for; its query is sent to no other server. A missing
    `token_url` or `authorization_url` is read from the metadata of that server. A public client has no secret.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    resource: str
    token_url: str | None = None
    authorization_url: str | None = None
    scope: str | None = None
    client_auth: Literal["basic", "post"] = "basic"


class OAuthEndpoints(NamedTuple):
    """The addresses of an authorization server. `authorization_url` is the page on which people log in, if there is
    one. `resource` is its name of the MCP server."""

    token_url: str
    authorization_url: str | None
    resource: str


class IssuedTokens(NamedTuple):
    """The tokens in a token endpoint's reply. `lifetime_s` is the lifetime of the access token."""

    access_token: str
    lifetime_s: float
    refresh_token: str | None


class AuthorizationServer:
    """Asks the authorization server of one MCP server for tokens.

    `egress` guards the configured addresses, `found_egress` the addresses that servers name in their metadata.
    """

    def __init__(self, client: OAuthClient, egress: EgressClient, found_egress: EgressClient) -> None:
        self.client: Final = client
        self._egress = egress
        self._found_egress = found_egress
        self._endpoints: OAuthEndpoints | None = None

    async def fetch_tokens(self, form: Mapping[str, str]) -> IssuedTokens:
        """Returns the tokens for a grant; `form` has its type and values. Raises McpFault."""
        try:
            async with asyncio.timeout(_DEADLINE_S):
                url, _, resource = await self.find_endpoints()
                reply = await self._request("POST", url, self._egress_for(url), self._build_form(form, resource))
        except TimeoutError:
            raise McpFault("authorization_failed", f"no token within {_DEADLINE_S:g} s") from None
        except EgressRefused as error:
            raise McpFault("egress_refused", f"the authorization server: {error}") from None
        except httpx2.TransportError as error:
            raise McpFault("authorization_failed", describe_unreachable(error, "authorization server")) from None
        token, lifetime, refresh = (reply.get(key) for key in ("access_token", "expires_in", "refresh_token"))
        if not isinstance(token, str) or not token.isprintable() or not token.isascii():
            raise McpFault("authorization_failed", "the authorization server sent no token")
        lifetime_s = float(lifetime) if isinstance(lifetime, int | float) and lifetime > 0 else _DEFAULT_LIFETIME_S
        _log.info("mcp_token_fetched", resource=resource, lifetime_s=round(lifetime_s))
        return IssuedTokens(token, lifetime_s, refresh if isinstance(refresh, str) else None)

    async def find_endpoints(self) -> OAuthEndpoints:
        """Returns the configured addresses, or the addresses from the metadata of the MCP server.

        Every address on the way is guarded, because servers name them. Raises McpFault, EgressRefused and
        httpx2.TransportError.
        """
        if self._endpoints is None:
            token_url, authorization_url = self.client.token_url, self.client.authorization_url
            if token_url is not None:
                self._endpoints = OAuthEndpoints(token_url, authorization_url, _without_query(self.client.resource))
            else:
                discovered = await self._discover()
                self._endpoints = discovered._replace(
                    authorization_url=authorization_url or discovered.authorization_url
                )
        return self._endpoints

    def _build_form(self, grant: Mapping[str, str], resource: str) -> tuple[bytes, dict[str, str]]:
        """Returns the body of a request for tokens, and its headers."""
        client = self.client
        form = {**grant, "resource": resource}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if client.client_secret is None:
            form["client_id"] = client.client_id
        elif client.client_auth == "post":
            form |= {"client_id": client.client_id, "client_secret": client.client_secret}
        else:
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return urlencode(form).encode(), headers

    async def _discover(self) -> OAuthEndpoints:
        resource = urlsplit(self.client.resource)
        origin = f"{resource.scheme}://{resource.netloc}"
        path = resource.path.rstrip("/")
        metadata = await self._request(
            "GET", _require_https(f"{origin}/.well-known/oauth-protected-resource{path}"), self._egress
        )
        named = metadata.get("resource")
        if isinstance(named, str) and not _covers(named, self.client.resource):
            raise McpFault(
                "authorization_failed",
                "the metadata of the server belongs to another server: write auth.oauth.token_url",
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
            raise McpFault("authorization_failed", "the metadata of the authorization server names another issuer")
        endpoint, page = described.get("token_endpoint"), described.get("authorization_endpoint")
        if not isinstance(endpoint, str):
            raise McpFault("authorization_failed", "the authorization server has no token endpoint")
        return OAuthEndpoints(
            _require_https(endpoint),
            _require_https(page) if isinstance(page, str) else None,
            named if isinstance(named, str) else _without_query(self.client.resource),
        )

    def _egress_for(self, url: str) -> EgressClient:
        return self._egress if url == self.client.token_url else self._found_egress

    async def _request(
        self, method: str, url: str, egress: EgressClient, form: tuple[bytes, dict[str, str]] | None = None
    ) -> dict[str, Any]:
        """Sends a request, and returns the JSON object of its reply. No redirect is followed. Raises McpFault,
        EgressRefused and httpx2.TransportError."""
        body, headers = form or (b"", {"accept": "application/json"})
        async with aclosing(GuardedSender(egress)) as sender:
            reply = await sender.send(httpx2.Request(method, url, content=body or None, headers=headers))
            content = b""
            async with aclosing(reply):
                async for piece in reply.aiter_raw():
                    content += piece
                    if len(content) > _MAX_BYTES:
                        raise McpFault("authorization_failed", "the reply of the authorization server is too large")
        parsed = _parse_object(content)
        if reply.status_code != 200 or parsed is None:
            code = (parsed or {}).get("error")
            reason = f": {code[:_MAX_CODE_CHARS]}" if isinstance(code, str) else ""
            place = urlsplit(url).hostname
            raise McpFault("authorization_failed", f"{place} answered with HTTP status {reply.status_code}{reason}")
        return parsed


class OAuthTokens:
    """The token of one server by client credentials, fetched when it is first needed, and again before it expires."""

    def __init__(self, server: AuthorizationServer) -> None:
        self._server = server
        self._token: str | None = None
        self._replaced: str | None = None
        """The previous token, which servers may still quote."""
        self._expires_at = 0.0
        self._lock = asyncio.Lock()

    def list_secrets(self) -> Sequence[str]:
        """Returns the credentials, which are redacted from every text that leaves the gateway."""
        known = (self._server.client.client_secret, self._token, self._replaced)
        return [secret for secret in known if secret is not None]

    async def aclose(self) -> None:
        """Does not wait: none of these tokens is stored, and others can be requested at any time."""

    async def get_token(self, rejected: str | None = None) -> str:
        """Returns a token, other than the one that the server rejected. Raises McpFault."""
        async with self._lock:
            if self._token is None or self._token == rejected or time.monotonic() > self._expires_at:
                scope = self._server.client.scope
                form = {"grant_type": "client_credentials", **({} if scope is None else {"scope": scope})}
                issued = await self._server.fetch_tokens(form)
                self._replaced, self._token = self._token, issued.access_token
                self._expires_at = time.monotonic() + compute_usable_seconds(issued.lifetime_s)
            return self._token


def compute_usable_seconds(lifetime_s: float) -> float:
    """Returns the seconds that a token is used. It is replaced earlier than it expires, so that it is valid on
    arrival."""
    return max(lifetime_s - _MARGIN_S, lifetime_s / 2)


def _without_query(url: str) -> str:
    """Returns an address without its query, which may be a credential. RFC 8707 (section 2) advises against it too."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def _covers(named: str, url: str) -> bool:
    """Whether the resource name in the metadata of a server is its address, or the beginning of its address.

    RFC 9728 (section 3.3) forbids the use of metadata of another resource.
    """
    try:
        name, address = urlsplit(named), urlsplit(url)
        has_same_origin = _read_origin(name) == _read_origin(address)
    except ValueError:
        return False
    is_beginning = f"{address.path.rstrip('/')}/".startswith(f"{name.path.rstrip('/')}/")
    return has_same_origin and is_beginning and name.query in ("", address.query) and "@" not in name.netloc


def _read_origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    """Raises ValueError for an invalid port."""
    return url.scheme, url.hostname, url.port or {"https": 443, "http": 80}.get(url.scheme)


def _require_https(url: str) -> str:
    """Returns the address. Raises McpFault unless it is https: tokens are only as safe as the way to them."""
    try:
        httpx2.URL(url)
        parts = urlsplit(url)
    except (ValueError, httpx2.InvalidURL):
        raise McpFault(
            "authorization_failed", "an address in the metadata of OAuth is malformed: write auth.oauth.token_url"
        ) from None
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc:
        raise McpFault("egress_refused", "an address in the metadata of OAuth is not https: write auth.oauth.token_url")
    return url


def _parse_object(content: bytes) -> dict[str, Any] | None:
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None
