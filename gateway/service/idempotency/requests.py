"""Serves requests with an idempotency key: the first request with a key runs, and repeated ones get its reply.

The first request is a job: it continues when its client leaves, and another replica takes it over if this one dies.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

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
from gateway.http.guard import DrainState, RequestGuard
from gateway.http.headers import build_upstream_headers
from gateway.http.json_reply import build_json_reply
from gateway.http.large_bodies import LargeBodyPool
from gateway.replies.endpoints import ResponseForm
from gateway.replies.event_stream import EventStreamReply
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.replies.loss_header import LOSS_HEADER, render_stored_headers
from gateway.service.admission import ClientRequest
from gateway.service.idempotency.keys import KeyQuota, read_keyed_request
from gateway.service.run import Run
from gateway.state.idempotency import KeyedRequest, KeyTaken
from gateway.state.store import Store
from gateway.state.values import ACTIVE_STATUSES, NewResponse, StoredHeaders, StoredResponse
from translation.errors import InvalidRequest
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Json

_REPLAYED_HEADER: Final = {"x-gateway-replayed": "true"}
"""The header of replies to requests that were not run, because another request with the same key was run."""

_MAX_ATTEMPTS: Final = 5


class _Waiter(NamedTuple):
    """The client of a request: its connection, whether it wants a stream, and what it gets of a stored response."""

    scope: Scope
    receive: Receive
    streams: bool
    show: Callable[[Json], Json]


class IdempotentRequests:
    """Serves requests with an idempotency key, over a store. There is one per configuration.

    `submit` stores the job of an accepted request, and runs it.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        pool: LargeBodyPool,
        drain: DrainState,
        accept: Callable[[ClientRequest], Awaitable[Run]],
        submit: Callable[[Run, NewResponse], Awaitable[None]],
        build_event_stream: Callable[..., EventStreamReply],
    ) -> None:
        self._store = store
        self._pool = pool
        self._drain = drain
        self._accept = accept
        self._submit = submit
        self._build_event_stream = build_event_stream
        # A repeated request may ask for the stream, which has to be stored as long as its key holds.
        self._lifetime_s = min(settings.store.idempotency_hours, settings.store.events_hours) * 3600
        self._quota = KeyQuota(settings.limits.idempotency_keys)
        self._names_upstream = settings.routing.reply_headers
        self._replayed_headers = dict(_REPLAYED_HEADER)
        if self._names_upstream:
            self._replayed_headers |= build_upstream_headers(None, 0)
        self._max_outage_s = settings.background.lease_s
        self._hold_s = settings.server.keepalive_s

    async def serve(
        self, client_request: ClientRequest, form: ResponseForm, header: bytes, scope: Scope, receive: Receive
    ) -> Response | Run:
        """Returns the reply to a request with this key, or the accepted request if its response is not stored.

        `form` reads its body, which has not been validated.

        Raises IdempotencyKeyReused, TooManyKeys, and what `Intake.accept` raises.
        """
        owner = client_request.principal.owner
        keyed = await self._pool.call_weighed(client_request.weight, read_keyed_request, header, client_request.body)
        is_stored, streams = form.peek(client_request.body)
        show = client_request.endpoint.reply.show_reply
        waiter = _Waiter(
            scope, receive, streams, (lambda reply: reply) if show is None else partial(show, client_request.body)
        )
        for _ in range(_MAX_ATTEMPTS):
            existing = await self._find(owner, keyed) if is_stored else None
            if isinstance(existing, StoredResponse):
                return await self._follow(owner, existing, waiter)
            keyed = replace(keyed, replaces=existing)
            try:
                accepted = await self._accept(client_request)
                if accepted.job is None:
                    return accepted
                new = replace(accepted.job, keyed=keyed)
                if keyed.replaces is None:
                    limits = client_request.principal.limits
                    own_limit = None if limits is None else limits.idempotency_keys
                    await self._quota.reserve(self._store.idempotency_keys, owner, own_limit)
                await self._submit(accepted, new)
            except KeyTaken:
                continue
            except InvalidRequest:
                # The request may be refused because the other request with its key has used its approval.
                if isinstance(await self._find(owner, keyed), StoredResponse):
                    continue
                raise
            return await self._follow_own(new, accepted, waiter)
        raise IdempotencyKeyInUse

    async def _find(self, owner: str, keyed: KeyedRequest) -> StoredResponse | str | None:
        """Returns the response that holds the key, or the id of a response that held it before; None for a new key.

        Raises IdempotencyKeyReused.
        """
        stored_key = await self._store.idempotency_keys.load_key(owner, keyed.key)
        if stored_key is None:
            return None
        if stored_key.created_at < time.time() - self._lifetime_s:
            return stored_key.response_id
        stored = await self._store.responses.load_response(owner, stored_key.response_id)
        if stored is None or not await self._holds_key(owner, stored):
            return stored_key.response_id
        if stored_key.digest != keyed.digest:
            raise IdempotencyKeyReused
        return stored

    async def _holds_key(self, owner: str, stored: StoredResponse) -> bool:
        """Whether a request with the key of this response must not be run.

        A request whose client got only an error may be run again, unless it has called a tool.
        """
        response = stored.response
        if response["status"] != "failed" or stored.background:
            return True
        types = {item["type"] for item in response["output"]} - CALL_TYPES
        return any(kind.endswith("_call") for kind in types) or bool(
            await self._store.call_journal.load_calls(owner, response["id"])
        )

    async def _follow_own(self, new: NewResponse, accepted: Run, waiter: _Waiter) -> Response:
        """Returns the reply to the request that is run."""
        if waiter.streams:
            stream = accepted.follow_job(self._store, max_outage_s=self._max_outage_s, hold_s=self._hold_s)
            return self._build_event_stream(stream, accepted.build_early_headers(), None, accepted.late_headers)
        if new.response["background"]:
            return build_json_reply(new.response, headers=accepted.build_queued_headers())
        return await self._wait_for_end(new.owner, accepted.identity.id, accepted.build_upstream_headers, waiter)

    async def _follow(self, owner: str, stored: StoredResponse, waiter: _Waiter) -> Response:
        """Returns the reply to a request that is not run, from the response that has its key."""
        response_id = stored.response["id"]
        headers = self._render_stored(stored.headers) | self._replayed_headers
        if waiter.streams:
            replay = await open_log_replay(
                self._store,
                owner,
                response_id,
                after=None,
                max_outage_s=self._max_outage_s,
                hold_s=self._hold_s,
            )
            return self._build_event_stream(
                replay,
                headers,
                late_headers=lambda: self._render_stored(replay.headers),
            )
        if stored.background:
            return build_json_reply(waiter.show(stored.response), headers=headers)
        return await self._wait_for_end(owner, response_id, lambda: self._replayed_headers, waiter)

    def _render_stored(self, stored: StoredHeaders) -> dict[str, str]:
        return render_stored_headers(stored, names_upstream=self._names_upstream)

    async def _wait_for_end(
        self, owner: str, response_id: str, build_headers: Callable[[], Mapping[str, str]], waiter: _Waiter
    ) -> Response:
        """Returns a response as JSON once it has ended, whichever replica runs it. `build_headers` returns headers that
        are known then. Raises StoredFailure, and NotFound if it is deleted meanwhile."""
        store = self._store
        with RequestGuard(waiter.receive, self._drain, waiter.scope.get(CLIENT)):
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
        headers = {**self._render_stored(stored.headers), **build_headers()}
        if stored.response["status"] == "failed":
            headers.pop(LOSS_HEADER, None)
            raise StoredFailure(stored.response, headers)
        return build_json_reply(waiter.show(stored.response), headers=headers)
