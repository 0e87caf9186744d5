"""What a stored completion consists of."""

import asyncio
from typing import Any

from gateway.dialects.chat.stored_reply import CompletionRecorder
from gateway.state.values import StoredHeaders
from tests.polling import reach, wait_until


class Completions:
    """The completions of a store, with the one that was stored."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []
        self.is_called = asyncio.Event()
        self.may_store = asyncio.Event()

    @property
    def completions(self) -> "Completions":
        return self

    @property
    def owner_data(self) -> "Completions":
        return self

    def was_erased_since(self, owner: str, begun_us: int) -> bool:
        return False

    async def store_completion(self, *values: Any) -> None:
        self.is_called.set()
        await self.may_store.wait()
        self.stored.append(values)


async def test_a_completion_is_stored_with_its_messages_and_metadata() -> None:
    store: Any = Completions()
    body = {"messages": [{"role": "user", "content": "a"}], "metadata": {"k": "v"}}
    recording = CompletionRecorder(store, "o", body, lambda: StoredHeaders("n=dropped"))
    store.may_store.set()
    recording.begin()
    await recording.finish(None)
    assert store.stored == []
    await recording.finish({"id": "chatcmpl_1"})
    await recording.abandon(None)
    completion = {"id": "chatcmpl_1", "metadata": {"k": "v"}}
    messages = [{"role": "user", "content": "a", "id": "chatcmpl_1-0"}]
    assert store.stored == [("o", completion, messages, StoredHeaders("n=dropped"))]


async def test_a_completion_is_stored_although_its_client_leaves_meanwhile() -> None:
    store: Any = Completions()
    recording = CompletionRecorder(store, "o", {"messages": []}, StoredHeaders)
    finishing = asyncio.create_task(recording.finish({"id": "chatcmpl_1"}))
    await reach(store.is_called, finishing)
    finishing.cancel()
    await asyncio.wait({finishing})
    await recording.abandon(None)
    store.may_store.set()
    await wait_until(lambda: len(store.stored) == 1)
