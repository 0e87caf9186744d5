"""The base class of decoders whose upstream sends a stream of independent JSON objects (chunks)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from translation.exact_numbers import parse_with_tool_data
from translation.representation.events import Event
from translation.representation.json_types import Json


class ChunkDecoder(ABC):
    """Decodes each chunk by itself. Chunks after the end of the turn are ignored."""

    ended = False
    """Whether the turn has ended."""
    delta_run: Final = None
    """Always None, because there is no fast path: every chunk goes through `decode_payloads`."""

    @abstractmethod
    def feed(self, chunk: Json) -> list[Event]:
        """Decodes one parsed chunk. Returns its events, possibly none."""

    def decode_payloads(self, payloads: Sequence[bytes], batch: list[Event] | None = None) -> list[Event]:
        """Parses and decodes chunks. Appends to `batch`, if given, so that the events before an error are not lost.

        Raises orjson.JSONDecodeError for a chunk that is no JSON, unless the turn has ended.
        """
        events = [] if batch is None else batch
        for payload in payloads:
            if self.ended:
                break
            events += self.feed(parse_with_tool_data(payload))
        return events
