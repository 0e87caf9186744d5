"""Collects the events of one turn into a message. Does not know the upstream's dialect."""

from translation.encoding.turn_reply import TurnReplyCollector
from translation.messages.client import reply_objects
from translation.messages.client.reply_objects import ThinkingView
from translation.messages.client.searches import build_search_usage
from translation.representation.events import Finished
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Json
from translation.tools.searches import is_counted


class MessageCollector(TurnReplyCollector):
    """Collects one turn into a message. `thinking` is the client's view of reasoning items.

    `seal` seals the data of items that the client has to send back.
    """

    def __init__(self, *, message_id: str, model: str, thinking: ThinkingView, seal: ItemSeal | None = None) -> None:
        super().__init__()
        self._message_id = message_id
        self._model = model
        self._thinking = thinking
        self._seal = seal

    def _build_reply(self, finished: Finished, /) -> Json:
        items, facts = self._collector.items, self._collector.facts
        usage = reply_objects.build_message_usage(self.usage, facts) | build_search_usage(sum(map(is_counted, items)))
        message = reply_objects.build_head(self._message_id, self._model, usage)
        message["content"] = [
            block for item in items for block in reply_objects.build_blocks(item, self._thinking, self._seal)
        ]
        called = any(block["type"] == "tool_use" for block in message["content"])
        refused = any(part.get("type") == "refusal" for item in items for part in item.get("content") or ())
        return message | reply_objects.build_stop(finished, called=called, refused=refused, facts=facts)
