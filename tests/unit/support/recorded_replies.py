"""The recorded streams of every upstream dialect, as the batches of events that encoders of client dialects are fed."""

from pathlib import Path
from typing import Any

import orjson

from tests.unit.support.golden import GOLDEN, chunks_of, recordings
from tests.unit.support.translator_drivers import counting_ids
from translation.anthropic.decode import AnthropicDecoder
from translation.chat.decode import ChatDecoder
from translation.gemini.decode import GeminiDecoder
from translation.ollama.decode import OllamaDecoder
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.decode import ResponsesDecoder

_DECODERS: dict[str, Any] = {
    "anthropic": AnthropicDecoder,
    "chat": ChatDecoder,
    "gemini": GeminiDecoder,
    "ollama": OllamaDecoder,
    "responses": ResponsesDecoder,
}

RECORDED_REPLIES = [
    recording
    for dialect in _DECODERS
    for recording in [*recordings(dialect), *sorted((GOLDEN / dialect).glob("*.ndjson"))]
]


def name_recording(recording: Path) -> str:
    """The id of a recording's test."""
    return f"{recording.parent.name} {recording.stem}"


def decode_recording(recording: Path) -> list[Any]:
    """Returns the batches of a recording's events, one for each chunk, and one for its end."""
    decoder = _DECODERS[recording.parent.name](counting_ids(), DEFAULT_PROFILE)
    wire = recording.read_bytes()
    is_lines = recording.suffix == ".ndjson"
    chunks = [orjson.loads(line) for line in wire.splitlines() if line] if is_lines else chunks_of(wire)
    return [*map(decoder.feed, chunks), decoder.finish()]
