"""What a stored completion consists of."""

from typing import Any

from gateway.dialects.chat.stored_reply import CompletionRecorder
from gateway.state.values import StoredHeaders


class Completions:
    """The completions of a store, with the one that was stored."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []

    @property
    def completions(self) -> "Completions":
        return self

    @property
    def owner_data(self) -> "Completions":
        return self

    def was_erased_since(self, owner: str, begun_us: int) -> bool:
        return False

    async def store_completion(self, *values: Any) -> None:
        self.stored.append(values)


async def test_a_completion_is_stored_with_its_messages_and_metadata() -> None:
    store: Any = Completions()
    body = {"messages": [{"role": "user", "content": "a"}], "metadata": {"k": "v"}}
    recording = CompletionRecorder(store, "o", body, lambda: StoredHeaders("n=dropped"))
    recording.begin()
    await recording.finish(None)
    assert store.stored == []
    await recording.finish({"id": "chatcmpl_1"})
    await recording.abandon(None)
    completion = {"id": "chatcmpl_1", "metadata": {"k": "v"}}
    messages = [{"role": "user", "content": "a", "id": "chatcmpl_1-0"}]
    assert store.stored == [("o", completion, messages, StoredHeaders("n=dropped"))]
