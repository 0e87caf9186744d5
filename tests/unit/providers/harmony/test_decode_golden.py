"""Recorded replies in Harmony, and their events."""

from pathlib import Path

import orjson
import pytest

from providers.harmony.decode import HarmonyDecoder
from providers.harmony.token_decoder import HarmonyTokenDecoder
from tests.unit.support.golden import check_events, chunks_of, recordings
from tests.unit.support.harmony import real
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from translation.representation.events import Finished
from translation.representation.profile import DEFAULT_PROFILE

RECORDINGS = recordings("harmony")


def decoder() -> HarmonyDecoder:
    return HarmonyDecoder(real(), HarmonyTokenDecoder(real(), counting_ids(), DEFAULT_PROFILE), 9)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_becomes_its_expected_events(recording: Path, update_golden: bool) -> None:
    check_events(recording, decode(decoder(), chunks_of(recording.read_bytes())), update=update_golden)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_one_piece_gives_the_same_events_as_many(recording: Path) -> None:
    streamed = decode(decoder(), chunks_of(recording.read_bytes()))
    whole = decode(decoder(), [orjson.loads(recording.with_suffix(".json").read_bytes())])
    assert collect(whole) == collect(streamed)
    assert isinstance(whole[-1], Finished)
    assert isinstance(streamed[-1], Finished)
    assert whole[-1].reason == streamed[-1].reason
