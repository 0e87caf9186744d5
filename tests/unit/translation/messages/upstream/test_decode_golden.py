"""Published streams of the Messages API, and their events."""

from pathlib import Path

import orjson
import pytest

from tests.unit.support.golden import GOLDEN, check_events, chunks_of, recordings
from tests.unit.support.stream_checks.responses_order import check_response, check_stream
from tests.unit.support.translator_drivers import Decoder, counting_ids, decode, every_split, feed_to_end
from translation.framing.sse import FrameDecoder
from translation.messages.upstream.decode import AnthropicDecoder
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.item_view import HIDING_INCLUDES
from translation.responses.client.snapshot import Snapshot

STREAMS = recordings("anthropic")
WHOLE = sorted((GOLDEN / "anthropic").glob("*.json"))
HEAD = new_response({"model": "m", "input": "a"}, response_id="resp_1", created_at=100, model="m")


def decoder() -> Decoder:
    return AnthropicDecoder(counting_ids())


@pytest.mark.parametrize("recording", STREAMS, ids=lambda path: path.stem)
def test_streams_become_their_expected_events(recording: Path, update_golden: bool) -> None:
    check_events(recording, decode(decoder(), chunks_of(recording.read_bytes())), update=update_golden)


@pytest.mark.parametrize("recording", WHOLE, ids=lambda path: path.stem)
def test_whole_messages_become_their_expected_events(recording: Path, update_golden: bool) -> None:
    events = decode(decoder(), [orjson.loads(recording.read_bytes())])
    check_events(recording, events, update=update_golden)


@pytest.mark.parametrize("recording", WHOLE, ids=lambda path: path.name)
def test_whole_messages_become_streams_the_official_client_accepts(recording: Path) -> None:
    reading = decoder()
    batches = [reading.feed(orjson.loads(recording.read_bytes())), reading.finish()]
    encoder = ResponsesEncoder(HEAD, lambda: 105, included=HIDING_INCLUDES)
    snapshot = Snapshot(HEAD, lambda: 105)
    events = check_stream(feed_to_end(encoder, *batches))
    for batch in batches:
        snapshot.feed(batch)
    assert events[-1]["response"] == snapshot.result()
    check_response(snapshot.result())


def test_bytes_may_be_split_anywhere() -> None:
    stream = (GOLDEN / "anthropic" / "published-thinking-omitted.sse").read_bytes()
    expected = decode(decoder(), chunks_of(stream))
    for reads in every_split(stream):
        frames, reading = FrameDecoder(), AnthropicDecoder(counting_ids())
        events = [event for read in reads for event in reading.decode_payloads(frames.parse_payloads(read))]
        assert [*events, *reading.finish()] == expected
