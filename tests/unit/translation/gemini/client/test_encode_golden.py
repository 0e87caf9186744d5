"""Recorded streams of real servers, through the events, as Gemini's API would have them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.stream_checks.gemini_order import check_content_reply, check_content_stream, read_chunks
from tests.unit.support.translator_drivers import counting_ids, feed_to_end
from translation.gemini.client.collect import ContentCollector
from translation.gemini.client.encode import GeminiEncoder, StreamForm
from translation.gemini.client.gemini_errors import build_status_body
from translation.gemini.client.reply_objects import ReplyHead
from translation.gemini.upstream.decode import GeminiDecoder
from translation.representation.events import Failed

HEAD = ReplyHead("resp_1", "m", "2026-11-23T12:00:00Z")


def build_error(failed: Failed) -> dict[str, Any]:
    return build_status_body(failed.message, status=502, code=failed.code)


def comparable(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply with its texts joined, as clients join them, and without what only one of both forms can have."""
    (candidate,) = reply["candidates"]
    parts: list[dict[str, Any]] = []
    for part in candidate["content"]["parts"]:
        if parts and "text" in part and "text" in parts[-1] and part.get("thought") == parts[-1].get("thought"):
            parts[-1]["text"] += part["text"]
        else:
            parts.append(dict(part))
    logprobs = candidate.pop("logprobsResult", {}).get("chosenCandidates")
    return {**reply, "candidates": [{**candidate, "content": parts, "logprobs": logprobs}]}


@pytest.mark.parametrize("form", ["events", "array"])
@pytest.mark.parametrize("thoughts", [True, False])
@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_real_stream_becomes_the_reply_that_its_events_collect_to(
    recording: Path, form: StreamForm, *, thoughts: bool
) -> None:
    batches = decode_recording(recording)
    encoder = GeminiEncoder(HEAD, form=form, thoughts=thoughts, logprobs=True, build_error=build_error)
    collector = ContentCollector(HEAD, thoughts=thoughts)
    wire = feed_to_end(encoder, *batches)
    for batch in batches:
        collector.feed(batch)
    if collector.failed is not None:
        last = (read_chunks(wire) if form == "events" else orjson.loads(wire))[-1]
        assert last["error"]["message"] == collector.failed.message
        return
    whole = check_content_reply(orjson.loads(orjson.dumps(collector.result())))
    assert comparable(check_content_stream(wire, form=form)) == comparable(whole)
    assert thoughts or not any(part.get("thought") for part in whole["candidates"][0]["content"]["parts"])


@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_the_decoder_of_the_same_api_reads_encoded_streams(recording: Path) -> None:
    batches = decode_recording(recording)
    collector = ContentCollector(HEAD, thoughts=True)
    for batch in batches:
        collector.feed(batch)
    if collector.failed is not None:
        return
    whole = collector.result()
    decoder = GeminiDecoder(counting_ids())
    again = ContentCollector(HEAD, thoughts=True)
    again.feed(decoder.feed(orjson.loads(orjson.dumps(whole))))
    again.feed(decoder.finish())
    if whole["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL":
        assert again.failed is not None
        return
    repeated, original = comparable(again.result()), comparable(whole)
    assert repeated["candidates"][0]["content"] == original["candidates"][0]["content"]
    assert repeated["candidates"][0]["finishReason"] == original["candidates"][0]["finishReason"]
    assert repeated["usageMetadata"] == original["usageMetadata"]
