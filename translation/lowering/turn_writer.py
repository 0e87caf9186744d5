"""Writes the items of a turn in the form of an upstream, each by the method for its type."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from translation.errors import InvalidRequest
from translation.lowering.text_parts import join_assistant_text, list_part_texts
from translation.lowering.unsupported import SETTING_TYPES, build_unknown_item_error, find_history_losses
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

OPENING_USER_TEXT: Final = "(The conversation begins with the assistant's words.)"
"""The user message before a history that begins with the assistant, for APIs that require the user's first."""

WriteItem: TypeAlias = Callable[[int, Item], None]
"""Writes an item, which it is given with its index."""


class TurnWriter(ABC):
    """Writes items in order. The outputs of calls are written directly after the assistant's message with the calls.

    A dialect derives from this class and writes the parts in which it differs. Losses are appended to `losses`.
    """

    def __init__(self, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
        self._turn = turn
        self._items = turn.items
        self._profile = profile
        self._losses = losses

    def write_items(self) -> None:
        """Writes all items of the turn.

        Items that change settings are losses. Raises InvalidRequest, naming the id, for a call without its output or an
        output without its call, and Unrepresentable for an item type that the upstream's API does not have.
        """
        writers = self._build_item_writers()
        for index, item in enumerate(self._items):
            write = writers.get(item.get("type", ""))
            if write is not None:
                write(index, item)
            elif item.get("type") in SETTING_TYPES:
                self._losses.append(Loss(f"input[{index}]", f"{item['type']} left out"))
            else:
                raise build_unknown_item_error(item, index)
        self.close_assistant()
        self._losses += find_history_losses(self._items)

    def check_end(self) -> None:
        """Raises InvalidRequest if the turn ends with a message that is not the assistant's.

        Call it if the messages for the upstream end with the assistant's, which the upstream continues: then the last
        message of the turn, such as an empty one, has no form in its API.
        """
        index = len(self._items) - 1
        while self._items[index].get("type") in SETTING_TYPES:
            index -= 1
        if self._items[index].get("type") == "message" and self._items[index]["role"] != "assistant":
            raise InvalidRequest(
                "The model would not get this last message, or not in its place, and would continue the assistant's "
                "message before it: end with a user message that has content.",
                param=f"input[{index}].content",
            )

    @abstractmethod
    def close_assistant(self) -> None:
        """Finishes the assistant's message and writes the outputs of its calls, before any other message."""

    def _build_item_writers(self) -> dict[str, WriteItem]:
        """Returns item type -> the method that writes such an item. A type that is not listed is refused by name."""
        return {
            "message": self._add_message,
            "reasoning": self._add_reasoning,
            "function_call": self._add_call,
            "function_call_output": self._check_output,
        }

    def _add_message(self, index: int, item: Item) -> None:
        role, parts = item["role"], item["content"]
        if role == "assistant":
            self._add_assistant_text(join_assistant_text(parts, index, self._losses))
            return
        self.close_assistant()
        if role == "developer":
            role = self._profile.developer_role
        if role == "user":
            self._add_user_content(parts, index)
        else:
            self.add_system(role, "\n".join(list_part_texts(parts, index)))

    def _check_output(self, index: int, _item: Item) -> None:
        """Writes nothing, because an output is written with its call."""
        self.close_assistant()
        self._turn.call_pairs.check_output(index)

    @abstractmethod
    def add_system(self, role: str, text: str) -> None:
        """Adds the text of a message of an instructing role: `system` or `developer`."""

    @abstractmethod
    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        """Adds the content of the user's message at `index`."""

    @abstractmethod
    def _add_assistant_text(self, text: str) -> None:
        """Adds the text of an assistant message."""

    @abstractmethod
    def _add_reasoning(self, index: int, item: Item) -> None:
        """Adds a reasoning item."""

    @abstractmethod
    def _add_call(self, index: int, item: Item) -> None:
        """Adds a call to the assistant's message."""
