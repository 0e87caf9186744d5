"""The base of decoders whose upstreams send one JSON object per chunk."""

from collections.abc import Callable

import orjson
import pytest

from providers.new_id import new_id
from tests.upstream import anthropic, gemini, ollama
from translation.decoding.chunk_decoder import ChunkDecoder
from translation.gemini.upstream.decode import GeminiDecoder
from translation.messages.upstream.decode import AnthropicDecoder
from translation.ollama.upstream.decode import OllamaDecoder
from translation.representation.events import Failed, Finished

ENDED = {
    "anthropic": (AnthropicDecoder, anthropic.text_events("a")),
    "gemini": (GeminiDecoder, [{"error": {"message": "no"}}]),
    "ollama": (OllamaDecoder, [ollama.chunk("a"), ollama.last()]),
}


@pytest.mark.parametrize(("kind", "chunks"), ENDED.values(), ids=list(ENDED))
def test_chunks_after_the_end_are_not_parsed(kind: Callable[..., ChunkDecoder], chunks: list[object]) -> None:
    decoder = kind(new_id)
    payloads = [*map(orjson.dumps, chunks), b"{"]
    assert isinstance(decoder.decode_payloads(payloads)[-1], Finished | Failed)
    assert decoder.ended
    assert decoder.decode_payloads([b"{"]) == []


def test_invalid_json_before_the_end_is_reported() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        GeminiDecoder(new_id).decode_payloads([orjson.dumps(gemini.chunk(gemini.text("a"))), b"{"])


def test_chunks_are_not_forwarded_as_a_run_by_default() -> None:
    decoder = GeminiDecoder(new_id)
    decoder.decode_payloads([orjson.dumps(gemini.chunk(gemini.text("a")))] * 2)
    assert decoder.delta_run is None
