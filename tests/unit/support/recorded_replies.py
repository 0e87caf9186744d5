"""The recorded streams of every upstream dialect, as the batches of events that encoders of client dialects are fed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.unit.support.golden import GOLDEN, chunks_of, recordings
from tests.unit.support.translator_drivers import counting_ids
from translation.chat.upstream.decode import ChatDecoder
from translation.gemini.upstream.decode import GeminiDecoder
from translation.messages.upstream.decode import AnthropicDecoder
from translation.ollama.upstream.decode import OllamaDecoder
from translation.parsers.generated_text import GeneratedTextDecoder
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.events import Event, Started, Usage
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.responses.upstream.decode import ResponsesDecoder

_DECODERS: dict[str, Any] = {
    "anthropic": AnthropicDecoder,
    "chat": ChatDecoder,
    "gemini": GeminiDecoder,
    "ollama": OllamaDecoder,
    "responses": ResponsesDecoder,
}

RECORDED_REPLIES = [
    recording
    for dialect in (*_DECODERS, "harmony", "completion")
    for recording in [*recordings(dialect), *sorted((GOLDEN / dialect).glob("*.ndjson"))]
]
"""`harmony` are the tokens of gpt-oss, and `completion` is the text of an engine, with thoughts and calls in it."""


def name_recording(recording: Path) -> str:
    """The id of a recording's test."""
    return f"{recording.parent.name} {recording.stem}"


def decode_recording(recording: Path, profile: Profile = DEFAULT_PROFILE) -> list[Sequence[Event]]:
    """Returns the batches of a recording's events, one for each chunk, and one for its end."""
    wire, dialect = recording.read_bytes(), recording.parent.name
    is_lines = recording.suffix == ".ndjson"
    chunks = [orjson.loads(line) for line in wire.splitlines() if line] if is_lines else chunks_of(wire)
    if dialect == "completion":
        return _decode_completion(chunks)
    decoder = _build_harmony_decoder(profile) if dialect == "harmony" else _DECODERS[dialect](counting_ids(), profile)
    return [*map(decoder.feed, chunks), decoder.finish()]


def _build_harmony_decoder(profile: Profile) -> Any:
    # Imported here, because the vocabulary of gpt-oss takes a second to load, and few tests need it.
    from providers.harmony.decode import HarmonyDecoder
    from providers.harmony.token_decoder import HarmonyTokenDecoder
    from tests.unit.support.harmony import real

    return HarmonyDecoder(real(), HarmonyTokenDecoder(real(), counting_ids(), profile), 9)


def _decode_completion(chunks: Sequence[Json]) -> list[Sequence[Event]]:
    decoder = GeneratedTextDecoder(
        counting_ids(), DEFAULT_PROFILE, parse_think_tags=True, parser=PARSER_FACTORIES["hermes"]()
    )
    batches: list[Sequence[Event]] = [[Started(model="m")]]
    batches += [decoder.feed_text(chunk["content"]) for chunk in chunks]
    return [*batches, decoder.finish("length" if chunks[-1]["stop_type"] == "limit" else "stop", Usage())]
