"""Recordings of real upstreams and, beside each, its expected events: one event per line.

Of an engine that is asked in tokens they are pieces of text, before anything is read out of it.
"""

from collections.abc import Sequence
from pathlib import Path

import orjson

from providers.engines.base import EngineDelta
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.events import Event
from translation.representation.json_types import Json

GOLDEN = Path(__file__).parents[2] / "golden"


def recordings(dialect: str) -> list[Path]:
    """Returns every recorded stream of a dialect."""
    return sorted((GOLDEN / dialect).glob("*.sse"))


def chunks_of(wire: bytes) -> list[Json]:
    """The JSON of every frame before [DONE]."""
    decoder = FrameDecoder()
    payloads = [frame.payload for frame in [*decoder.feed(wire), *decoder.finish()]]
    return [orjson.loads(payload) for payload in payloads if payload != DONE_PAYLOAD]


def check_events(recording: Path, events: Sequence[Event], *, update: bool) -> None:
    """Compares events with the file beside the recording, or writes it with `update` (`pytest --update-golden`)."""
    _check(recording, events, update=update)


def check_pieces(recording: Path, pieces: Sequence[EngineDelta], *, update: bool) -> None:
    """Compares the pieces of an engine's stream with the expected ones."""
    _check(recording, pieces, update=update)


def _check(recording: Path, meant: Sequence[object], *, update: bool) -> None:
    understood = "".join(f"{each}\n" for each in meant)
    expected = recording.with_suffix(".events")
    if update:
        expected.write_text(understood)
    assert understood == expected.read_text()
