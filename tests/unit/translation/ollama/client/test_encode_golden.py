"""Recorded streams of real servers, through the events, as Ollama's API would have them."""

from pathlib import Path

import orjson
import pytest

from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.stream_checks.ollama_order import check_lines, read_lines
from tests.unit.support.translator_drivers import feed_to_end
from translation.ollama.client.collect import OllamaCollector
from translation.ollama.client.encode import OllamaEncoder
from translation.ollama.client.reply_lines import LineHead


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_real_stream_adds_up_to_the_whole_reply(recording: Path, is_chat: bool) -> None:
    batches = decode_recording(recording)
    for head in (
        LineHead("m", "", is_chat, shows, lambda: 0, logprobs) for shows, logprobs in ((True, True), (False, False))
    ):
        encoder, collector = OllamaEncoder(head), OllamaCollector(head)
        wire = feed_to_end(encoder, *batches)
        for batch in batches:
            collector.feed(batch)
        if collector.failed is not None:
            assert read_lines(wire)[-1].keys() == {"error"}
            continue
        assert check_lines(wire) == orjson.loads(orjson.dumps(collector.result()))
