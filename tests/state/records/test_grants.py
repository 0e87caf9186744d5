"""Tokens of MCP servers after a login: stored encrypted, and refreshed by one replica only."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import select

from gateway.errors import StoreUnavailable
from gateway.sealing.sealer import Sealer
from gateway.state.database.tables import mcp_grants
from gateway.state.sql.store import SqlStore
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth.grants import GrantedTokens, TokenGrant
from gateway.tools.mcp.oauth.tokens import AuthorizationServer, IssuedTokens, OAuthClient
from gateway.tools.operator_servers import grant_vault
from gateway.tools.operator_servers.grant_vault import SealedGrant
from providers.egress import EgressClient
from tests.polling import wait_until

SEALER = Sealer([b"k" * 32])
CLIENT = OAuthClient(client_id="gateway", client_secret=None, resource="https://mcp.example.com/mcp")


@dataclass
class Issuer:
    """An authorization server that gives a new refresh token with each use, and takes the old one as stolen."""

    refresh_token: str = "refresh-0"
    forms: list[Any] = field(default_factory=list)
    may_answer: asyncio.Event | None = None

    def for_replica(self) -> AuthorizationServer:
        server = AuthorizationServer(CLIENT, EgressClient(), EgressClient())
        server.fetch_tokens = self._fetch  # type: ignore[method-assign]
        return server

    async def _fetch(self, form: Any) -> IssuedTokens:
        self.forms.append(form)
        await asyncio.sleep(0)
        if form["refresh_token"] != self.refresh_token:
            raise McpFault("authorization_failed", "login.example.com answered with HTTP status 400: invalid_grant")
        self.refresh_token = f"refresh-{len(self.forms)}"
        if self.may_answer is not None:
            await self.may_answer.wait()
        return IssuedTokens(f"access-{len(self.forms)}", 3600, self.refresh_token)


def grant(**changes: Any) -> TokenGrant:
    made = TokenGrant("access-0", "refresh-0", time.time() + 60, CLIENT.client_id, CLIENT.resource)
    return made._replace(**changes)


def vault_of(store: SqlStore, sealer: Sealer = SEALER) -> SealedGrant:
    return SealedGrant("crm", store.grants, sealer)


async def test_of_two_replicas_one_refreshes_and_the_other_reads(store: SqlStore, other: SqlStore) -> None:
    await vault_of(store).store(grant(expires_at=0))
    issuer = Issuer()
    replicas = [GrantedTokens("crm", issuer.for_replica(), vault_of(each)) for each in (store, other)]
    assert await asyncio.gather(*(replica.get_token() for replica in replicas)) == ["access-1"] * 2
    assert len(issuer.forms) == 1
    # Both had the token that the server now rejects.
    renewed = await asyncio.gather(*(replica.get_token(rejected="access-1") for replica in replicas))
    assert renewed == ["access-2"] * 2
    assert [form["refresh_token"] for form in issuer.forms] == ["refresh-0", "refresh-1"]


async def test_a_call_that_ends_while_tokens_are_refreshed_loses_none(store: SqlStore) -> None:
    await vault_of(store).store(grant(expires_at=0))
    issuer = Issuer(may_answer=asyncio.Event())
    tokens = GrantedTokens("crm", issuer.for_replica(), vault_of(store))
    call = asyncio.create_task(tokens.get_token())
    await wait_until(lambda: len(issuer.forms) == 1)
    call.cancel()
    await asyncio.wait({call})
    later_call = asyncio.create_task(tokens.get_token())
    assert issuer.may_answer is not None
    issuer.may_answer.set()
    assert await later_call == "access-1"
    assert len(issuer.forms) == 1
    stored = await vault_of(store).load()
    assert stored is not None
    assert stored[0].refresh_token == issuer.refresh_token


async def test_the_end_of_the_gateway_waits_for_tokens_that_are_refreshed(store: SqlStore) -> None:
    await vault_of(store).store(grant(expires_at=0))
    issuer = Issuer(may_answer=asyncio.Event())
    tokens = GrantedTokens("crm", issuer.for_replica(), vault_of(store))
    call = asyncio.create_task(tokens.get_token())
    await wait_until(lambda: len(issuer.forms) == 1)
    call.cancel()
    ending = asyncio.create_task(tokens.aclose())
    await asyncio.wait({call})
    assert not ending.done()
    assert issuer.may_answer is not None
    issuer.may_answer.set()
    await ending
    stored = await vault_of(store).load()
    assert stored is not None
    assert stored[0].refresh_token == issuer.refresh_token


@pytest.mark.parametrize("outages", [1, 3])
async def test_refreshed_tokens_are_stored_once_the_store_is_back(
    outages: int, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await vault_of(store).store(grant(expires_at=0))
    replace_grant, left = store.grants.replace_grant, [StoreUnavailable("away")] * outages

    async def replace(server: str, sealed: str, version: int) -> bool:
        if left:
            raise left.pop()
        return await replace_grant(server, sealed, version)

    monkeypatch.setattr(store.grants, "replace_grant", replace)
    issuer = Issuer()
    tokens = GrantedTokens("crm", issuer.for_replica(), vault_of(store))
    assert await tokens.get_token() == "access-1"
    assert len(issuer.forms) == 1
    assert await GrantedTokens("crm", issuer.for_replica(), vault_of(store)).get_token() == "access-1"


@pytest.mark.parametrize("ends", [False, True], ids=["by the next call", "at the end of the gateway"])
async def test_refreshed_tokens_that_could_not_be_stored_are_stored_later(
    ends: bool, store: SqlStore, other: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await vault_of(store).store(grant(expires_at=0))
    monkeypatch.setattr(grant_vault, "_MAX_OUTAGE_S", 0.0)

    async def fail(server: str, sealed: str, version: int) -> bool:
        raise StoreUnavailable("away")

    issuer = Issuer()
    tokens = GrantedTokens("crm", issuer.for_replica(), vault_of(store))
    with monkeypatch.context() as patch:
        patch.setattr(store.grants, "replace_grant", fail)
        with pytest.raises(McpFault, match="the store with its tokens is unavailable"):
            await tokens.get_token()
    if ends:
        await tokens.aclose()
    else:
        assert await tokens.get_token() == "access-1"
    assert await GrantedTokens("crm", issuer.for_replica(), vault_of(other)).get_token() == "access-1"
    assert len(issuer.forms) == 1


async def test_a_lock_of_a_replica_that_died_ends(store: SqlStore, other: SqlStore) -> None:
    await vault_of(store).store(grant())
    assert await store.grants.lock_grant("crm", 1, 0.0)
    assert await other.grants.lock_grant("crm", 1, 60.0), "the first lock has ended"
    assert not await store.grants.lock_grant("crm", 1, 60.0)
    assert not await store.grants.lock_grant("crm", 2, 60.0)
    await other.grants.unlock_grant("crm", 1)
    assert await store.grants.lock_grant("crm", 1, 60.0)
    assert await store.grants.replace_grant("crm", "sealed", 1)
    assert not await other.grants.replace_grant("crm", "sealed", 1)


async def test_an_expired_login_is_reported_with_advice_and_replaced_by_another(store: SqlStore) -> None:
    issuer = Issuer(refresh_token="another")
    tokens = GrantedTokens("crm", issuer.for_replica(), vault_of(store))
    with pytest.raises(McpFault, match="there is no login: run `responses-gateway mcp login crm`"):
        await tokens.get_token()
    await vault_of(store).store(grant(expires_at=0))
    with pytest.raises(McpFault, match="invalid_grant: run `responses-gateway mcp login crm`"):
        await tokens.get_token()
    await vault_of(store).store(grant(refresh_token=None, expires_at=0))
    with pytest.raises(McpFault, match="the login has expired"):
        await tokens.get_token()
    await vault_of(store).store(grant(access_token="access-9"))
    assert await tokens.get_token() == "access-9"
    assert set(tokens.list_secrets()) == {"access-9", "refresh-0"}


@pytest.mark.parametrize("changes", [{"client_id": "another"}, {"resource": "https://evil.example.com/mcp"}])
async def test_tokens_reach_no_other_server_than_the_one_they_are_for(store: SqlStore, changes: Any) -> None:
    await vault_of(store).store(grant(**changes))
    with pytest.raises(McpFault, match="there is no login"):
        await GrantedTokens("crm", Issuer().for_replica(), vault_of(store)).get_token()


async def test_tokens_are_stored_encrypted_and_for_their_server_alone(store: SqlStore) -> None:
    await vault_of(store).store(grant())
    async with store._database.read_transaction() as connection:
        sealed = (await connection.execute(select(mcp_grants.c.sealed))).scalar_one()
    assert "access-0" not in sealed
    await store.grants.store_grant("another", sealed)
    assert await SealedGrant("another", store.grants, SEALER).load() is None
    assert await vault_of(store, Sealer([b"l" * 32])).load() is None
