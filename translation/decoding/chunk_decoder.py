"""What decoders share whose upstreams say each thing in a JSON object of its own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import orjson

from translation.representation.events import Event
from translation.representation.json_types import Json


class ChunkDecoder(ABC):
    """Looks at every chunk by itself, and at none once it has `ended`."""

    ended = False
    delta_run: Final = None
    """Chunks are not compared with the last one: each read is cut into them, for `read`."""

    @abstractmethod
    def feed(self, chunk: Json) -> list[Event]:
        """Take one chunk; return what it means, possibly nothing."""

    def decode_payloads(self, payloads: Sequence[bytes]) -> list[Event]:
        """`feed` for chunks as their bytes came. Raises orjson.JSONDecodeError too, but not after the end."""
        events: list[Event] = []
        for payload in payloads:
            if self.ended:
                break
            events += self.feed(orjson.loads(payload))
        return events
