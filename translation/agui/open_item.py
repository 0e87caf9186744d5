"""The state of one item while its AG-UI events are written."""

from translation.agui.tool_items import view_call
from translation.representation.json_types import Item


class OpenItem:
    """One item whose events are being written. `texts` maps its parts to how many characters of each were sent."""

    __slots__ = (
        "first_thought_id",
        "has_arguments",
        "is_started",
        "item",
        "open_parts",
        "parent_id",
        "phase",
        "refusals",
        "texts",
    )

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_started = False
        """Whether its message, span or call was started."""
        self.has_arguments = False
        """Whether the arguments of the call were sent, and ended."""
        self.first_thought_id: str | None = None
        """The id of the first reasoning message, which has the encrypted value of the item."""
        self.texts: dict[int | None, int] = {}
        self.open_parts: dict[int, str] = {}
        """Maps the parts of a reasoning item that are open to the ids of their messages."""
        self.parent_id: str | None = None
        """The message that the call belongs to."""
        self.phase: str | None = None
        self.refusals: set[int] = set()
        """The parts of a message that are refusals."""

    def count_text(self, part_index: int | None, text: str) -> None:
        """Adds a text to the sent text of a part, or of the item itself, which has begun."""
        self.texts[part_index] += len(text)

    @property
    def call_id(self) -> str:
        """The id of the call, for an item that is a call; otherwise the item's own id."""
        call = view_call(self.item)
        item_id: str = self.item["id"]
        return item_id if call is None else call.call_id

    @property
    def output_of(self) -> str:
        """The id of the call that the item is the output of."""
        call_id: str = self.item.get("call_id") or self.item["id"]
        return call_id
