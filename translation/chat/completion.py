"""Events → one `chat.completion`: the stream, collected."""

from collections.abc import Sequence

from translation.chat import reply_objects
from translation.representation.collector import Collector
from translation.representation.events import Delta, Event, Failed, ItemStarted, Usage
from translation.representation.json_types import Item, Json

_KEYS: dict[reply_objects.Noun, str] = {"arguments": "function", "input": "custom"}


class CompletionCollector:
    """Collects one turn. Feed it batches that satisfy the event grammar; ask for the `result` after Finished. The
    completion has `tool_warnings` where something is wrong with its calls.

    With `extensions` the completion has `extensions.reasoning_chunks` (texts) and `extensions.tool_call_chunks` (as
    in a stream's `delta.tool_calls`), each chunk as it came.
    """

    def __init__(
        self,
        *,
        completion_id: str,
        created: int,
        model: str,
        reasoning_fields: frozenset[str],
        extensions: bool = False,
        legacy_functions: bool = False,
    ) -> None:
        self._identity: Json = {"id": completion_id, "object": "chat.completion", "created": created, "model": model}
        self._reasoning_fields = sorted(reasoning_fields)
        self._legacy = legacy_functions
        self._collector = Collector()
        self._chunks = _Chunks() if extensions else None

    def feed(self, batch: Sequence[Event]) -> None:
        """Take one batch."""
        self._collector.feed(batch)
        if self._chunks is not None:
            self._chunks.feed(batch)

    @property
    def failed(self) -> Failed | None:
        """How the turn ended badly; then there is no completion."""
        return self._collector.failed

    @property
    def usage(self) -> Usage | None:
        """The latest counts the upstream reported."""
        return self._collector.usage

    def result(self) -> Json:
        """The whole reply. Only after Finished; raises ValueError otherwise."""
        finished = self._collector.finished
        if finished is None:
            raise ValueError("the turn has not finished")
        items = self._collector.items
        message = self._message(items)
        called = "tool_calls" in message or "function_call" in message
        choice: Json = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(items),
            **reply_objects.ending(finished, called=called, legacy=self._legacy),
        }
        completion = {**self._identity, **reply_objects.marks(self._collector.facts), "choices": [choice]}
        if (usage := reply_objects.usage(self.usage)) is not None:
            completion["usage"] = usage
        completion |= reply_objects.warned(self._collector.facts)
        if self._chunks is not None:
            completion["extensions"] = {
                "reasoning_chunks": self._chunks.reasoning,
                "tool_call_chunks": self._chunks.tool_calls,
            }
        return completion

    def _message(self, items: Sequence[Item]) -> Json:
        said: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
        calls: list[Json] = []
        annotations: list[Json] = []
        details: list[Json] = []
        for index, item in enumerate(items):
            own = reply_objects.NOUNS.get((item["type"], None))
            if own is not None:
                calls.append(reply_objects.call(item, item.get(own) or ""))
                continue
            for part_index, part_type, text in reply_objects.texts(item):
                noun = reply_objects.NOUNS[item["type"], part_type]
                if noun == "reasoning" and said[noun] and reply_objects.stands_apart((index, part_index), part_type):
                    said[noun].append(reply_objects.GAP)
                said[noun].append(text)
            annotations += reply_objects.citations(item)
            details += item.get("details") or ()
        texts = {noun: "".join(parts) if parts else None for noun, parts in said.items()}
        message: Json = {"role": "assistant", "content": texts["content"], "refusal": texts["refusal"]}
        if not calls and not any(said.values()):
            message["content"] = ""  # a reply that says nothing is an empty text, as on a stream
        if texts["reasoning"] is not None:
            message |= dict.fromkeys(self._reasoning_fields, texts["reasoning"])
        if details and self._reasoning_fields:
            message["reasoning_details"] = details
        if annotations:
            message["annotations"] = annotations
        if self._legacy and calls and "function" in calls[0]:
            message["function_call"] = calls.pop(0)["function"]
        if calls:
            message["tool_calls"] = calls
        return message


class _Chunks:
    """Reasoning and calls in the pieces they came in."""

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.tool_calls: list[Json] = []
        self._types: list[str] = []
        self._numbers: dict[int, int] = {}

    def feed(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if isinstance(event, Delta):
                self._delta(event)
            elif isinstance(event, ItemStarted):
                self._types.append(event.item["type"])
                if (noun := reply_objects.NOUNS.get((event.item["type"], None))) is not None:
                    number = self._numbers[event.index] = len(self._numbers)
                    self.tool_calls.append(
                        {"index": number, **reply_objects.call(event.item, event.item.get(noun) or "")}
                    )

    def _delta(self, event: Delta) -> None:
        item_type = self._types[event.index]
        if item_type == "reasoning":
            self.reasoning.append(event.text)
        elif event.index in self._numbers:
            noun = reply_objects.NOUNS[item_type, None]
            self.tool_calls.append({"index": self._numbers[event.index], _KEYS[noun]: {noun: event.text}})


def _logprobs(items: Sequence[Item]) -> Json | None:
    tokens: dict[str, list[Json]] = {"content": [], "refusal": []}
    for item in items:
        for part in item.get("content") or ():
            if (noun := reply_objects.NOUNS.get((item["type"], part.get("type")))) in tokens:
                tokens[noun] += part.get("logprobs") or ()
    return {noun: said or None for noun, said in tokens.items()} if any(tokens.values()) else None
