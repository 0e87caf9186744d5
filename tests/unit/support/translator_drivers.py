"""Ways to drive a translator in a test. They know no dialect."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from tests.unit.support.event_grammar import EventGrammar
from translation.representation.collector import TurnCollector
from translation.representation.events import Event
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json


class Decoder(Protocol):
    def feed(self, chunk: Json) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


T = TypeVar("T")
Piece = TypeVar("Piece", contravariant=True)
Failure = TypeVar("Failure", contravariant=True)


class Translator(Protocol[Piece]):
    """Makes frames of pieces and, at its end, the last frames."""

    @property
    def ended(self) -> bool: ...
    def feed(self, piece: Piece, /) -> bytes: ...
    def conclude(self) -> bytes: ...


class Relay(Translator[bytes], Protocol):
    def finish(self) -> bytes: ...


class Failing(Protocol[Failure]):
    @property
    def ended(self) -> bool: ...
    def fail(self, failure: Failure, /) -> bytes: ...
    def conclude(self) -> bytes: ...


def feed_to_end(translator: Translator[T], *pieces: T) -> bytes:
    """Returns all frames of a reply that ends after the pieces."""
    return b"".join(map(translator.feed, pieces)) + conclude(translator)


def relay_to_end(relay: Relay, *reads: bytes) -> bytes:
    """Returns all frames of a reply whose upstream closed after the reads. Without an end, they have none."""
    return b"".join(map(relay.feed, reads)) + relay.finish() + (conclude(relay) if relay.ended else b"")


def fail_to_end(stream: Failing[T], failure: T) -> bytes:
    """The frames that end a reply in a failure."""
    return stream.fail(failure) + conclude(stream)


def conclude(stream: Translator[T] | Failing[T]) -> bytes:
    """The last frames of a reply that has ended, which are made once."""
    assert stream.ended
    made = stream.conclude()
    assert made
    assert stream.conclude() == b""
    return made


def counting_ids() -> NewId:
    """Returns a maker of predictable ids: `msg_1`, `fc_1`, `fc_2`."""
    counts: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        counts[prefix] += 1
        return f"{prefix}_{counts[prefix]}"

    return new_id


def decode(decoder: Decoder, chunks: Iterable[Json]) -> list[Event]:
    """Returns the events of the chunks, up to the end, after checking their grammar."""
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
    """Yields the same bytes whole, one by one, and split in two at every place."""
    yield [data]
    yield [data[place : place + 1] for place in range(len(data))]
    for place in range(1, len(data)):
        yield [data[:place], data[place:]]
