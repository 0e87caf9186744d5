"""Keeps what a request answered right away leaves behind: its beginning meanwhile, its end before it is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import structlog

from gateway.errors import StoreUnavailable
from gateway.state.store import LeaseLost, NewResponse, Store
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

RenderLosses: TypeAlias = Callable[[], str | None]
"""What a reply has lost so far, as its header says it; some is known only once the upstream has answered."""

_log = structlog.get_logger(__name__)


class ReplyRecorder(Protocol):
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
    def track_response(self, owner: str, response_id: str) -> None: ...
    def untrack_response(self, owner: str, response_id: str) -> None: ...


class ForegroundRecorder:
    """A response in the foreground. Its row begins while the upstream works, and its end is one transaction."""

    def __init__(self, store: Store, lease: Lease, new: NewResponse, render_losses: RenderLosses) -> None:
        self._store = store
        self._lease = lease
        self._new_response = new
        self._render_losses = render_losses
        self._begin_task: asyncio.Task[None] | None = None
        self._end_task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._lease.track_response(self._new_response.owner, self._new_response.response["id"])
        self._begin_task = _start_detached_task(self._store.create_response(self._new_response))

    async def finish(self, result: Json | None) -> None:
        assert result is not None
        self._end_task = _start_detached_task(self._commit_end(result))
        # A client that leaves now has still been given a whole answer.
        await asyncio.shield(self._end_task)

    async def abandon(self, unfinished: Json | None) -> None:
        if self._end_task is None and self._begin_task is not None:
            self._end_task = _start_detached_task(self._commit_abandonment(unfinished))
            await asyncio.shield(self._end_task)

    async def _commit_end(self, result: Json) -> None:
        assert self._begin_task is not None
        try:
            await self._begin_task
            owner, losses = self._new_response.owner, self._render_losses()
            await self._store.finish_response(owner, result, worker=self._lease.worker, losses=losses)
        except LeaseLost:
            _log.info("response_gone", why="deleted or cancelled while it ran")
        finally:
            self._lease.untrack_response(self._new_response.owner, self._new_response.response["id"])

    async def _commit_abandonment(self, unfinished: Json | None) -> None:
        assert self._begin_task is not None
        try:
            await self._begin_task
            if unfinished is None:
                await self._store.delete_response(self._new_response.owner, self._new_response.response["id"])
            else:
                await self._store.finish_response(
                    self._new_response.owner, _cancelled_response(unfinished), worker=self._lease.worker
                )
        except (StoreUnavailable, LeaseLost):
            _log.info("response_left", why="its beginning stays, to be ended as interrupted")
        except InvalidRequest:
            _log.info("response_left", why="it never began: what it continues was deleted meanwhile")
        finally:
            self._lease.untrack_response(self._new_response.owner, self._new_response.response["id"])


class CompletionRecorder:
    """A chat completion, which is kept whole at its end. `body`: the request that asked for it."""

    def __init__(self, store: Store, owner: str, body: Json, render_losses: RenderLosses) -> None:
        self._store = store
        self._owner = owner
        self._body = body
        self._render_losses = render_losses

    def begin(self) -> None:
        return

    async def finish(self, result: Json | None) -> None:
        if result is None:
            return  # it failed, and half an answer is none
        messages = [
            {**message, "id": f"{result['id']}-{place}"} for place, message in enumerate(self._body["messages"])
        ]
        completion = {**result, "metadata": self._body.get("metadata") or {}}
        await self._store.store_completion(self._owner, completion, messages, self._render_losses())

    async def abandon(self, unfinished: Json | None) -> None:
        return


def _start_detached_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Work that goes on when whoever waits for it is cancelled, and whose failure only they hear of."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _cancelled_response(unfinished: Json) -> Json:
    """The client of a response in the foreground left, which is how it is cancelled."""
    return {**unfinished, "status": "cancelled", "error": None, "incomplete_details": None, "completed_at": None}
