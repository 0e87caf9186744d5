"""Collects the events of one turn into a message. Does not know the upstream's dialect."""

from collections.abc import Sequence

from translation.messages import reply_objects
from translation.messages.reply_objects import ThinkingView
from translation.representation.collector import TurnCollector
from translation.representation.events import Event, Failed, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Json


class MessageCollector:
    """Collects one turn. The caller feeds batches that satisfy the event grammar, and calls `result` after Finished.

    `thinking` is what the client gets of reasoning items, and `seal` seals what it has to send back of items.
    """

    def __init__(self, *, message_id: str, model: str, thinking: ThinkingView, seal: ItemSeal | None = None) -> None:
        self._message_id = message_id
        self._model = model
        self._thinking = thinking
        self._seal = seal
        self._collector = TurnCollector()

    def feed(self, batch: Sequence[Event]) -> None:
        """Takes one batch of events."""
        self._collector.feed(batch)

    @property
    def failed(self) -> Failed | None:
        """The failure that ended the turn, if it failed. Then there is no message."""
        return self._collector.failed

    @property
    def usage(self) -> Usage | None:
        """The latest token counts that the upstream reported."""
        return self._collector.usage

    def result(self) -> Json:
        """Returns the message. Raises ValueError before the turn has finished."""
        finished = self._collector.finished
        if finished is None:
            raise ValueError("the turn has not finished")
        items, facts = self._collector.items, self._collector.facts
        message = reply_objects.build_head(
            self._message_id, self._model, reply_objects.build_message_usage(self.usage, facts)
        )
        message["content"] = [
            block for item in items for block in reply_objects.build_blocks(item, self._thinking, self._seal)
        ]
        called = any(block["type"] == "tool_use" for block in message["content"])
        refused = any(part.get("type") == "refusal" for item in items for part in item.get("content") or ())
        return message | reply_objects.build_stop(finished, called=called, refused=refused, facts=facts)
