"""Recorded streams of real servers, through the events, as Ollama's API would have them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.support.golden import GOLDEN, chunks_of, recordings
from tests.unit.support.ollama_order import check_lines, read_lines
from tests.unit.support.translator_drivers import counting_ids, feed_to_end
from translation.anthropic.decode import AnthropicDecoder
from translation.chat.decode import ChatDecoder
from translation.gemini.decode import GeminiDecoder
from translation.ollama.decode import OllamaDecoder
from translation.ollama_endpoint.collect import OllamaCollector
from translation.ollama_endpoint.encode import OllamaEncoder
from translation.ollama_endpoint.reply_lines import LineHead
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.decode import ResponsesDecoder

DECODERS: dict[str, Any] = {
    "anthropic": AnthropicDecoder,
    "chat": ChatDecoder,
    "gemini": GeminiDecoder,
    "responses": ResponsesDecoder,
}
RECORDINGS = [recording for dialect in DECODERS for recording in recordings(dialect)]


LINES = sorted((GOLDEN / "ollama").glob("*.ndjson"))


def batches_of(recording: Path) -> list[Any]:
    if recording.suffix == ".ndjson":
        decoder = OllamaDecoder(counting_ids(), DEFAULT_PROFILE)
        lines = [orjson.loads(line) for line in recording.read_bytes().splitlines() if line]
        return [*map(decoder.feed, lines), decoder.finish()]
    decoder = DECODERS[recording.parent.name](counting_ids(), DEFAULT_PROFILE)
    return [*map(decoder.feed, chunks_of(recording.read_bytes())), decoder.finish()]


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize("recording", [*RECORDINGS, *LINES], ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_real_stream_adds_up_to_the_whole_reply(recording: Path, is_chat: bool) -> None:
    batches = batches_of(recording)
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
