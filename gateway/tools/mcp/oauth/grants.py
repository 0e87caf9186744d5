"""Access tokens that a person granted once: by an authorization code, and then by a refresh token that is stored.

Many authorization servers return a new refresh token with each use, and treat the old one as stolen. So one replica
refreshes, under a lock in the database, and the others read the tokens that it stored. They are stored even if the call
that needed them ends meanwhile: nobody could refresh the login again.

Sources: RFC 6749 (sections 4.1 and 6), RFC 7636 (PKCE), RFC 9700.
"""

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

import structlog

from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth.tokens import AuthorizationServer, IssuedTokens, compute_usable_seconds

_log = structlog.get_logger(__name__)

_LEASE_S: Final = 30.0
"""The time in which one replica must refresh the tokens. Another replica tries after that."""

_POLL_S: Final = 0.1

_CLOSE_S: Final = 10.0
"""The longest wait for refreshed tokens at the end of the gateway."""


class TokenGrant(NamedTuple):
    """The tokens of a server. `expires_at` is when the access token is no longer used, in epoch seconds."""

    access_token: str
    refresh_token: str | None
    expires_at: float
    client_id: str
    resource: str

    @classmethod
    def from_tokens(
        cls, issued: IssuedTokens, server: AuthorizationServer, refresh_token: str | None = None
    ) -> "TokenGrant":
        """Returns the grant of issued tokens. `refresh_token` is the previous one, which remains if no new one was
        issued."""
        return cls(
            issued.access_token,
            issued.refresh_token or refresh_token,
            time.time() + compute_usable_seconds(issued.lifetime_s),
            server.client.client_id,
            server.client.resource,
        )


class GrantVault(Protocol):
    """Stores the grant of one server for all replicas. All methods raise McpFault if the store is unavailable."""

    async def load(self) -> tuple[TokenGrant, int] | None:
        """Returns the grant and its version; None without a readable grant."""
        ...

    async def lock(self, version: int, lease_s: float) -> bool:
        """Locks the grant of a version. Returns False if it is locked already, or has another version."""
        ...

    async def replace(self, grant: TokenGrant, version: int) -> None:
        """Replaces the grant of a version, and unlocks it. It tries again for a while if the store is unavailable."""
        ...

    async def unlock(self, version: int) -> None:
        """Unlocks the grant of a version, unchanged."""
        ...


class GrantedTokens:
    """The token of one server that a person logged in to. `label` is its name, for the advice to log in."""

    def __init__(self, label: str, server: AuthorizationServer, vault: GrantVault | None) -> None:
        self._label = label
        self._server = server
        self._vault = vault
        self._grant: TokenGrant | None = None
        self._replaced: TokenGrant | None = None
        """The previous grant, whose tokens servers may still quote."""
        self._unstored: tuple[TokenGrant, int] | None = None
        """A grant that could not be stored, and the version that it replaces."""
        self._refreshing: set[asyncio.Task[TokenGrant | None]] = set()
        self._lock = asyncio.Lock()

    async def aclose(self) -> None:
        """Waits for tokens that were requested, and stores those that could not be stored before."""
        if self._refreshing:
            await asyncio.wait(self._refreshing, timeout=_CLOSE_S)
        if self._unstored is not None and self._vault is not None:
            with suppress(McpFault, TimeoutError):  # it was logged when they could not be stored for the first time
                async with asyncio.timeout(_CLOSE_S):
                    await self._store_refreshed(self._vault, *self._unstored)

    def list_secrets(self) -> Sequence[str]:
        """Returns the credentials, which are redacted from every text that leaves the gateway."""
        grants = [grant for grant in (self._grant, self._replaced) if grant is not None]
        tokens = [token for grant in grants for token in (grant.access_token, grant.refresh_token)]
        known = [self._server.client.client_secret, *tokens]
        return [secret for secret in known if secret is not None]

    async def get_token(self, rejected: str | None = None) -> str:
        """Returns a token, other than the one that the server rejected. Raises McpFault."""
        async with self._lock:
            grant = self._grant
            if grant is None or grant.access_token == rejected or time.time() > grant.expires_at:
                current = await self._find_grant(rejected)
                self._replaced, self._grant = grant, current
                return current.access_token
            return grant.access_token

    async def _find_grant(self, rejected: str | None) -> TokenGrant:
        """Returns the stored grant if it can be used, or else a new one, which this or another replica fetches."""
        if self._vault is None:
            raise McpFault("authorization_failed", "there is no store for its tokens: write store.url")
        deadline = time.monotonic() + 2 * _LEASE_S
        while time.monotonic() < deadline:
            stored = await self._vault.load()
            if stored is None or not self._is_for_this(stored[0]):
                raise McpFault("authorization_failed", f"there is no login: {self._advice}")
            grant, version = stored
            if grant.access_token != rejected and time.time() <= grant.expires_at:
                return grant
            # In a task of its own, which goes on if this call is cancelled.
            refreshing = asyncio.get_running_loop().create_task(self._lock_and_refresh(self._vault, grant, version))
            self._refreshing.add(refreshing)
            refreshing.add_done_callback(self._end_refresh)
            if (refreshed := await asyncio.shield(refreshing)) is not None:
                return refreshed
            await asyncio.sleep(_POLL_S)
        raise McpFault("authorization_failed", "no other replica has refreshed its tokens")

    def _end_refresh(self, refreshing: "asyncio.Task[TokenGrant | None]") -> None:
        self._refreshing.discard(refreshing)
        if not refreshing.cancelled():
            refreshing.exception()  # the call has it, or has left

    @property
    def _advice(self) -> str:
        return f"run `responses-gateway mcp login {self._label}`"

    async def _lock_and_refresh(self, vault: GrantVault, grant: TokenGrant, version: int) -> TokenGrant | None:
        """Returns a new grant, which is stored; None if the stored one has to be read again, because another replica or
        call has locked it, or an earlier refresh could be stored now."""
        if self._unstored is not None and self._unstored[1] == version:
            # Without the lock, which the failed refresh may still hold, and another replica must not get.
            await self._store_refreshed(vault, *self._unstored)
            return None
        if not await vault.lock(version, _LEASE_S):
            return None
        refreshed = await self._refresh(vault, grant, version)
        self._unstored = refreshed, version
        try:
            await self._store_refreshed(vault, refreshed, version)
        except McpFault:
            _log.warning("mcp_token_not_stored", server=self._label)
            raise
        return refreshed

    async def _store_refreshed(self, vault: GrantVault, grant: TokenGrant, version: int) -> None:
        await vault.replace(grant, version)
        self._unstored = None

    async def _refresh(self, vault: GrantVault, grant: TokenGrant, version: int) -> TokenGrant:
        if grant.refresh_token is None:
            await vault.unlock(version)
            raise McpFault("authorization_expired", f"the login has expired: {self._advice}")
        try:
            issued = await self._server.fetch_tokens(
                {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
            )
        except McpFault as fault:
            await vault.unlock(version)
            if "invalid_grant" in str(fault):
                raise McpFault("authorization_expired", f"{fault}: {self._advice}") from None
            raise
        return TokenGrant.from_tokens(issued, self._server, grant.refresh_token)

    def _is_for_this(self, grant: TokenGrant) -> bool:
        """Whether a grant is of this client and for this server: a token must not reach another one."""
        client = self._server.client
        return (grant.client_id, grant.resource) == (client.client_id, client.resource)


class LoginRequest:
    """One login of a person: the address of the page to open, and the exchange of the code that it returns."""

    def __init__(self, server: AuthorizationServer, redirect_uri: str) -> None:
        self.state: Final = secrets.token_urlsafe(32)
        self._server = server
        self._redirect_uri = redirect_uri
        self._verifier = secrets.token_urlsafe(64)

    async def build_url(self) -> str:
        """Returns the address of the page on which the person logs in. Raises McpFault."""
        endpoints = await self._server.find_endpoints()
        if endpoints.authorization_url is None:
            raise McpFault("authorization_failed", "there is no page to log in: write auth.oauth.authorization_url")
        client = self._server.client
        digest = hashlib.sha256(self._verifier.encode()).digest()
        query: dict[str, Any] = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self._redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": endpoints.resource,
            **({} if client.scope is None else {"scope": client.scope}),
        }
        separator = "&" if "?" in endpoints.authorization_url else "?"
        return f"{endpoints.authorization_url}{separator}{urlencode(query)}"

    async def exchange(self, code: str) -> TokenGrant:
        """Returns the grant for a code. Raises McpFault."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": self._verifier,
        }
        return TokenGrant.from_tokens(await self._server.fetch_tokens(form), self._server)
