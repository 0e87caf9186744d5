"""Ways to drive a translator in a test. They know no dialect."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from translation.representation.collector import TurnCollector
from translation.representation.events import Event
from translation.representation.grammar import EventGrammar
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json


class Decoder(Protocol):
    def feed(self, chunk: Json) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


def counting_ids() -> NewId:
    """Ids that can be written down in a test: `msg_1`, `fc_1`, `fc_2`."""
    counts: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        counts[prefix] += 1
        return f"{prefix}_{counts[prefix]}"

    return new_id


def decode(decoder: Decoder, chunks: Iterable[Json]) -> list[Event]:
    """Everything the chunks mean, up to the end; each event checked to have a right to be where it is."""
    grammar = EventGrammar()
    events: list[Event] = []
    for chunk in chunks:
        batch = decoder.feed(chunk)
        grammar.check(batch)
        events += batch
    batch = decoder.finish()
    grammar.check(batch)
    grammar.finish()
    return events + batch


def collect(events: Sequence[Event]) -> list[Item]:
    """The items that events add up to."""
    collector = TurnCollector()
    collector.feed(events)
    return collector.items


def every_split(data: bytes) -> Iterator[list[bytes]]:
    """The same bytes whole, one by one, and cut in two at every place."""
    yield [data]
    yield [data[place : place + 1] for place in range(len(data))]
    for place in range(1, len(data)):
        yield [data[:place], data[place:]]
