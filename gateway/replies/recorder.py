"""Keeps what a request answered right away leaves behind: its beginning meanwhile, its end before it is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import structlog

from gateway.errors import StoreUnavailable
from gateway.state.store import NewResponse, NotHeld, Store
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

Losses: TypeAlias = Callable[[], str | None]
"""What a reply has lost so far, as its header says it; some is known only once the upstream has answered."""

_log = structlog.get_logger(__name__)


class Recording(Protocol):
    """One reply on its way into the store."""

    def begin(self) -> None:
        """The request is accepted. Does not wait."""
        ...

    async def finish(self, result: Json | None) -> None:
        """The reply has ended, or failed: returns once it is kept, if it can be kept. Raises StoreUnavailable."""
        ...

    async def abandon(self, unfinished: Json | None) -> None:
        """Nobody waits for the reply any more. `unfinished`: what was told of it; None: nothing, not even its id."""
        ...


class Lease(Protocol):
    """This process's word that it lives and runs what it holds. What the store has as its own and it does not hold any
    more is ended as interrupted."""

    @property
    def worker(self) -> str: ...
    def hold(self, owner: str, response_id: str) -> None: ...
    def drop(self, owner: str, response_id: str) -> None: ...


class ResponseRecording:
    """A response in the foreground. Its row begins while the upstream works, and its end is one transaction."""

    def __init__(self, store: Store, lease: Lease, new: NewResponse, losses: Losses) -> None:
        self._store = store
        self._lease = lease
        self._new = new
        self._losses = losses
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._lease.hold(self._new.owner, self._new.response["id"])
        self._beginning = _apart(self._store.begin(self._new))

    async def finish(self, result: Json | None) -> None:
        assert result is not None
        self._ending = _apart(self._finish(result))
        # A client that leaves now has still been given a whole answer.
        await asyncio.shield(self._ending)

    async def abandon(self, unfinished: Json | None) -> None:
        if self._ending is None and self._beginning is not None:
            self._ending = _apart(self._abandon(unfinished))
            await asyncio.shield(self._ending)

    async def _finish(self, result: Json) -> None:
        assert self._beginning is not None
        try:
            await self._beginning
            owner, losses = self._new.owner, self._losses()
            await self._store.finish(owner, result, worker=self._lease.worker, losses=losses)
        except NotHeld:
            _log.info("response_gone", why="deleted or cancelled while it ran")
        finally:
            self._lease.drop(self._new.owner, self._new.response["id"])

    async def _abandon(self, unfinished: Json | None) -> None:
        assert self._beginning is not None
        try:
            await self._beginning
            if unfinished is None:
                await self._store.delete(self._new.owner, self._new.response["id"])
            else:
                await self._store.finish(self._new.owner, _cancelled(unfinished), worker=self._lease.worker)
        except (StoreUnavailable, NotHeld):
            _log.info("response_left", why="its beginning stays, to be ended as interrupted")
        except InvalidRequest:
            _log.info("response_left", why="it never began: what it continues was deleted meanwhile")
        finally:
            self._lease.drop(self._new.owner, self._new.response["id"])


class CompletionRecording:
    """A chat completion, which is kept whole at its end. `body`: the request that asked for it."""

    def __init__(self, store: Store, owner: str, body: Json, losses: Losses) -> None:
        self._store = store
        self._owner = owner
        self._body = body
        self._losses = losses

    def begin(self) -> None:
        return

    async def finish(self, result: Json | None) -> None:
        if result is None:
            return  # it failed, and half an answer is none
        messages = [
            {**message, "id": f"{result['id']}-{place}"} for place, message in enumerate(self._body["messages"])
        ]
        kept = {**result, "metadata": self._body.get("metadata") or {}}
        await self._store.keep_completion(self._owner, kept, messages, self._losses())

    async def abandon(self, unfinished: Json | None) -> None:
        return


def _apart(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Work that goes on when whoever waits for it is cancelled, and whose failure only they hear of."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _cancelled(unfinished: Json) -> Json:
    """The client of a response in the foreground left, which is how it is cancelled."""
    return {**unfinished, "status": "cancelled", "error": None, "incomplete_details": None, "completed_at": None}
