"""Completions that are stored: collects the frames that were sent to one completion, and stores it at its end."""

import asyncio

import structlog

from gateway.errors import StoreUnavailable
from gateway.replies.recorder import FindHeaders
from gateway.replies.wrappers import EncoderWrapper, RelayWrapper
from gateway.state.row_values import read_clock_us
from gateway.state.store import Store, start_detached_task
from translation.chat import reply_objects
from translation.chat.client.encode import ChatEncoder
from translation.chat.relaying.relay import ChatRelay
from translation.chat.reply_forms import build_completion
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)


class StoredChatEncoder(EncoderWrapper[ChatEncoder]):
    """A chat FrameEncoder that collects the frames it returned."""

    def __init__(self, encoder: ChatEncoder) -> None:
        super().__init__(encoder)
        self._sent_frames: list[bytes] = []

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply was completed."""
        return _build_completion(self._sent_frames, self._encoder)

    def _process_frames(self, frames: bytes) -> bytes:
        self._sent_frames.append(frames)
        return frames


class StoredChatRelay(RelayWrapper[ChatRelay]):
    """A chat Relay that collects the frames it returned."""

    def __init__(self, relay: ChatRelay) -> None:
        super().__init__(relay)
        self._sent_frames: list[bytes] = []

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply was completed."""
        return _build_completion(self._sent_frames, self._relay)

    def _process_frames(self, frames: bytes) -> bytes:
        self._sent_frames.append(frames)
        return frames


def _build_completion(sent_frames: list[bytes], reply: ChatEncoder | ChatRelay) -> Json | None:
    if reply.failed is not None or not reply.ended:
        return None
    completion = build_completion(b"".join([*sent_frames, reply.closing_frames]))
    # The stored completion has the usage even if the client did not request it in its stream.
    if (usage_object := reply_objects.build_usage(reply.usage)) is not None:
        completion["usage"] = usage_object
    return completion


class CompletionRecorder:
    """Stores a chat completion, in one write at its end. `body` is its request."""

    def __init__(self, store: Store, owner: str, body: Json, find_headers: FindHeaders) -> None:
        self._store = store
        self._owner = owner
        self._body = body
        self._find_headers = find_headers
        self._begun_us = read_clock_us()

    def begin(self) -> None:
        return

    def begin_unsent(self) -> None:
        return

    async def finish(self, result: Json | None) -> None:
        if result is None:
            return  # the completion failed, and partial completions are not stored
        if self._store.owner_data.was_erased_since(self._owner, self._begun_us):
            _log.info("completion_not_stored", why="the data of its owner was erased while it ran")
            return
        messages = [
            {**message, "id": f"{result['id']}-{index}"} for index, message in enumerate(self._body["messages"])
        ]
        completion = {**result, "metadata": self._body.get("metadata") or {}}
        # If the client disconnects now, the completion is stored nevertheless.
        await asyncio.shield(start_detached_task(self._store_completion(completion, messages)))

    async def _store_completion(self, completion: Json, messages: list[Json]) -> None:
        try:
            await self._store.completions.store_completion(self._owner, completion, messages, self._find_headers())
        except StoreUnavailable:
            _log.info("completion_not_stored", why="the store did not accept it")  # its client may have left
            raise

    async def abandon(self, unfinished: Json | None) -> None:
        return
