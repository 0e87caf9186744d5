"""Serves requests with an idempotency key: the first request with a key runs, and repeated ones get its reply.

The first request is a job: it continues when its client leaves, and another replica takes it over if this one dies.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT
from gateway.config.settings import Settings
from gateway.errors import (
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    NotFound,
    StoredFailure,
)
from gateway.http.auth import Principal
from gateway.http.guard import DrainState, RequestGuard
from gateway.http.json_reply import build_json_reply
from gateway.http.large_bodies import LargeBodyThreads
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import EventStreamReply
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.replies.loss_header import render_stored_losses
from gateway.service.accepted_request import AcceptedRequest
from gateway.service.idempotency.keys import KeyQuota, read_keyed_request
from gateway.state.idempotency import KeyedRequest, KeyTaken
from gateway.state.store import Store
from gateway.state.values import ACTIVE_STATUSES, StoredResponse
from translation.errors import InvalidRequest
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Json

_REPLAYED_HEADER: Final = {"x-gateway-replayed": "true"}
"""The header of replies to requests that were not run, because another request with the same key was run."""

_MAX_ATTEMPTS: Final = 5


class KeyedRequestAcceptor(Protocol):
    """Accepts a request, as `Intake.accept` does."""

    def __call__(
        self, endpoint: Endpoint, principal: Principal, body: Json, *, strict: bool, weight: int, has_key: bool
    ) -> Awaitable[AcceptedRequest]: ...


class IdempotentRequests:
    """Serves requests with an idempotency key. There is one per configuration. `store` is None if nothing is stored.

    `submit` stores the job of an accepted request, and runs it.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store | None,
        threads: LargeBodyThreads,
        drain: DrainState,
        accept: KeyedRequestAcceptor,
        submit: Callable[[AcceptedRequest], Awaitable[None]],
        build_event_stream: Callable[..., EventStreamReply],
    ) -> None:
        self._store = store
        self._threads = threads
        self._drain = drain
        self._accept = accept
        self._submit = submit
        self._build_event_stream = build_event_stream
        # A repeated request may ask for the stream, which has to be stored as long as its key holds.
        self._lifetime_s = min(settings.store.idempotency_hours, settings.store.events_hours) * 3600
        self._quota = KeyQuota(settings.limits.idempotency_keys)
        self._max_outage_s = settings.background.lease_s

    async def serve(
        self,
        endpoint: Endpoint,
        principal: Principal,
        header: bytes,
        body: Json,
        scope: Scope,
        receive: Receive,
        *,
        weight: int,
        strict: bool,
    ) -> Response | AcceptedRequest:
        """Returns the reply to a request with this key, or the accepted request if its response is not stored.

        Raises IdempotencyKeyReused, TooManyKeys, and what `Intake.accept` raises.
        """
        keyed = await self._threads.run(weight, read_keyed_request, header, body)
        for _ in range(_MAX_ATTEMPTS):
            existing = await self._find(principal.name, keyed, body)
            if isinstance(existing, StoredResponse):
                return await self._follow(principal.name, existing, body, scope, receive)
            keyed = replace(keyed, replaces=existing)
            try:
                accepted = await self._accept(endpoint, principal, body, strict=strict, weight=weight, has_key=True)
                if accepted.job is None:
                    return accepted
                accepted.job = replace(accepted.job, keyed=keyed)
                if keyed.replaces is None and self._store is not None:
                    await self._quota.reserve(self._store.idempotency_keys, principal.name)
                await self._submit(accepted)
            except KeyTaken:
                continue
            except InvalidRequest:
                # The request may be refused because the other request with its key has used its approval.
                if isinstance(await self._find(principal.name, keyed, body), StoredResponse):
                    continue
                raise
            return await self._follow_own(principal.name, accepted, body, scope, receive)
        raise IdempotencyKeyInUse

    async def _find(self, owner: str, keyed: KeyedRequest, body: Json) -> StoredResponse | str | None:
        """Returns the response that holds the key, or the id of a response that held it before; None for a new key.

        Raises IdempotencyKeyReused.
        """
        if self._store is None or body.get("store") is False:
            return None
        stored_key = await self._store.idempotency_keys.load_key(owner, keyed.key)
        if stored_key is None:
            return None
        if stored_key.created_at < time.time() - self._lifetime_s:
            return stored_key.response_id
        stored = await self._store.responses.load_response(owner, stored_key.response_id)
        if stored is None or not await self._holds_key(self._store, owner, stored):
            return stored_key.response_id
        if stored_key.digest != keyed.digest:
            raise IdempotencyKeyReused
        return stored

    async def _holds_key(self, store: Store, owner: str, stored: StoredResponse) -> bool:
        """Whether a request with the key of this response must not be run.

        A request whose client got only an error may be run again, unless it has called a tool.
        """
        response = stored.response
        if response["status"] != "failed" or stored.background:
            return True
        types = {item["type"] for item in response["output"]} - CALL_TYPES
        return any(kind.endswith("_call") for kind in types) or bool(
            await store.call_journal.load_calls(owner, response["id"])
        )

    async def _follow_own(
        self, owner: str, accepted: AcceptedRequest, body: Json, scope: Scope, receive: Receive
    ) -> Response:
        """Returns the reply to the request that is run."""
        assert self._store is not None
        assert accepted.job is not None
        response_id, headers = accepted.response_id, accepted.build_loss_headers()
        if body.get("stream"):
            replay = LogReplay(self._store, owner, response_id, max_outage_s=self._max_outage_s)
            return self._build_event_stream(replay, headers)
        if accepted.job.response["background"]:
            return build_json_reply(accepted.job.response, headers=headers)
        return await self._wait_for_end(self._store, owner, response_id, {}, scope, receive)

    async def _follow(self, owner: str, stored: StoredResponse, body: Json, scope: Scope, receive: Receive) -> Response:
        """Returns the reply to a request that is not run, from the response that has its key."""
        assert self._store is not None
        response_id = stored.response["id"]
        headers = render_stored_losses(stored.losses) | _REPLAYED_HEADER
        if body.get("stream"):
            replay = await open_log_replay(self._store, owner, response_id, after=None, max_outage_s=self._max_outage_s)
            return self._build_event_stream(replay, headers)
        if stored.background:
            return build_json_reply(stored.response, headers=headers)
        return await self._wait_for_end(self._store, owner, response_id, _REPLAYED_HEADER, scope, receive)

    async def _wait_for_end(
        self,
        store: Store,
        owner: str,
        response_id: str,
        headers: dict[str, str],
        scope: Scope,
        receive: Receive,
    ) -> Response:
        """Returns a response as JSON once it has ended, whichever replica runs it. Raises StoredFailure, and NotFound
        if it is deleted meanwhile."""
        with RequestGuard(receive, self._drain, scope.get(CLIENT)):
            stored = await store.responses.load_response(owner, response_id)
            if stored is not None and stored.response["status"] in ACTIVE_STATUSES:
                replay = LogReplay(store, owner, response_id, max_outage_s=self._max_outage_s)
                with suppress(NotFound):  # it was deleted, or ended without a last event
                    async with aclosing(replay.frames()) as frames:
                        async for _ in frames:
                            pass
                stored = await store.responses.load_response(owner, response_id)
        if stored is None:
            raise NotFound(f"Response with id '{response_id:.80}' was deleted.")
        if stored.response["status"] == "failed":
            raise StoredFailure(stored.response)
        return build_json_reply(stored.response, headers=render_stored_losses(stored.losses) | headers)
