"""A message whose texts grow by paragraphs, joined once: each join copies all there is."""

from collections import defaultdict, deque

from translation.json_types import Json


class Growing:
    """What is added is in the message after `settle`, and not before it."""

    def __init__(self, message: Json) -> None:
        self.message = message
        self._pieces: dict[str, deque[str]] = defaultdict(deque)

    def add(self, field: str, text: str) -> None:
        """Text after what the field holds, a paragraph of its own where it holds anything."""
        pieces = self._pieces[field]
        if pieces:
            pieces.append(f"\n\n{text}")
        elif text:
            pieces.append(text)

    def put_before(self, field: str, text: str) -> None:
        """Text right before what the field holds."""
        self._pieces[field].appendleft(text)

    def settle(self) -> Json:
        """The message with all that was added; to be asked once."""
        for field, pieces in self._pieces.items():
            self.message[field] = "".join(pieces)
        return self.message
