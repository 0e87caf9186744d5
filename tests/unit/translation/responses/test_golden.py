"""Recorded streams of real servers, through the events, as the Responses API would tell them."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.support.golden import chunks_of, recordings
from tests.unit.support.responses_order import check_response, check_stream
from tests.unit.support.translator_drivers import counting_ids, feed_to_end
from translation.chat.decode import ChatDecoder
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.decode import ResponsesDecoder
from translation.responses.encode import ResponsesEncoder
from translation.responses.initial_response import new_response
from translation.responses.snapshot import Snapshot

HEAD = new_response({"model": "m", "input": "a"}, response_id="resp_1", created_at=100, model="m")
DECODERS: dict[str, Any] = {"chat": ChatDecoder, "responses": ResponsesDecoder}
RECORDINGS = [recording for dialect in DECODERS for recording in recordings(dialect)]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_real_stream_becomes_one_the_official_client_accepts(recording: Path) -> None:
    decoder = DECODERS[recording.parent.name](counting_ids(), DEFAULT_PROFILE)
    batches = [*map(decoder.feed, chunks_of(recording.read_bytes())), decoder.finish()]
    encoder, snapshot = ResponsesEncoder(HEAD, lambda: 105), Snapshot(HEAD, lambda: 105)
    events = check_stream(feed_to_end(encoder, *batches))
    for batch in batches:
        snapshot.feed(batch)
    assert events[-1]["response"] == snapshot.result()
    check_response(snapshot.result())
