"""Recorded streams of real servers, through the events, as Chat Completions would have them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.support.chat_replies import COMPLETION, accumulate, read_stream
from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.translator_drivers import feed_to_end
from translation.chat.client.completion import CompletionCollector
from translation.chat.client.encode import ChatEncoder
from translation.representation.events import Event


def without_bytes(value: Any) -> Any:
    """A choice without the bytes of its tokens: the Responses API has them only at the end of a text."""
    if isinstance(value, dict):
        return {key: without_bytes(each) for key, each in value.items() if key != "bytes"}
    return [without_bytes(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_real_stream_adds_up_to_the_completion(recording: Path) -> None:
    batches = decode_recording(recording)
    for fields in (frozenset({"reasoning", "reasoning_content"}), frozenset[str]()):
        check_sum(batches, fields)


def check_sum(batches: Sequence[Sequence[Event]], fields: frozenset[str]) -> None:
    encoder = ChatEncoder(completion_id="chatcmpl-1", created=7, model="m", reasoning_fields=fields, include_usage=True)
    collector = CompletionCollector(completion_id="chatcmpl-1", created=7, model="m", reasoning_fields=fields)
    chunks = read_stream(feed_to_end(encoder, *batches))
    for batch in batches:
        collector.feed(batch)
    if collector.failed is not None:
        assert chunks[-1]["error"]["message"] == collector.failed.message
        return
    completion = collector.result()
    COMPLETION.validate_python(completion, strict=True)
    streamed, whole = without_bytes(accumulate(chunks)), without_bytes(completion["choices"][0])
    if not whole["message"]["content"]:
        # A stream that begins with text opens with "", which clients cannot distinguish from no text.
        streamed["message"]["content"] = whole["message"]["content"]
    assert streamed == whole
    reported = [completion["usage"]] if "usage" in completion else []
    assert [chunk["usage"] for chunk in chunks if not chunk["choices"]] == reported
