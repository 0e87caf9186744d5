"""Recorded streams of real servers, through the events, as the Responses API would have them."""

from pathlib import Path

import pytest

from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.stream_checks.responses_order import check_response, check_stream
from tests.unit.support.translator_drivers import feed_to_end
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.item_view import HIDING_INCLUDES
from translation.responses.client.snapshot import Snapshot

HEAD = new_response({"model": "m", "input": "a"}, response_id="resp_1", created_at=100, model="m")


@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_real_stream_becomes_one_the_official_client_accepts(recording: Path) -> None:
    batches = decode_recording(recording)
    encoder = ResponsesEncoder(HEAD, lambda: 105, included=HIDING_INCLUDES)
    snapshot = Snapshot(HEAD, lambda: 105)
    events = check_stream(feed_to_end(encoder, *batches))
    for batch in batches:
        snapshot.feed(batch)
    assert events[-1]["response"] == snapshot.result()
    check_response(snapshot.result())
