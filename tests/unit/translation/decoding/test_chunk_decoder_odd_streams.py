"""Decoders and relays read odd streams as what they mean, or fail: tests/faults/upstreams has the same over sockets."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import orjson
import pytest

from tests.upstream.odd_streams import ODD_STREAMS, Odd
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.upstream.decode import ChatDecoder
from translation.errors import ProtocolViolation
from translation.framing.ndjson import LineDecoder
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.gemini.upstream.decode import GeminiDecoder
from translation.messages.relaying.relay import MessagesRelay
from translation.messages.upstream.decode import AnthropicDecoder
from translation.ollama.upstream.decode import OllamaDecoder
from translation.representation.events import Delta, Event, Failed, Finished, ItemStarted
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse
from translation.responses.upstream.decode import ResponsesDecoder

DECODERS: dict[str, Callable[..., Any]] = {
    "chat": ChatDecoder,
    "responses": ResponsesDecoder,
    "anthropic": AnthropicDecoder,
    "gemini": GeminiDecoder,
    "ollama": OllamaDecoder,
}
BROKEN = (ProtocolViolation, orjson.JSONDecodeError, TypeError, KeyError)
"""What whoever feeds a decoder takes for a broken reply."""

STREAMS = [
    pytest.param(dialect, odd, id=f"{dialect}: {name}")
    for dialect, streams in ODD_STREAMS.items()
    for name, odd in streams.items()
]


def decode(dialect: str, stream: bytes) -> list[Event]:
    numbers = count()
    decoder = DECODERS[dialect](lambda prefix: f"{prefix}_{next(numbers)}", DEFAULT_PROFILE)
    frames: Any = LineDecoder() if dialect == "ollama" else FrameDecoder()
    events: list[Event] = []
    for payload in [*frames.parse_payloads(stream), *(frame.payload for frame in frames.finish())]:
        if payload == DONE_PAYLOAD:
            break
        decoder.decode_payloads([payload], events)
        if events and isinstance(events[-1], Finished | Failed):
            break
    return [*events, *decoder.finish()]


def conclude(events: list[Event]) -> tuple[str, list[Any]]:
    """Returns the text and the calls as (name, parsed arguments)."""
    items: dict[int, Any] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ItemStarted):
            items[event.index] = event.item
            texts[event.index] = event.item.get("arguments") or ""
        elif isinstance(event, Delta):
            texts[event.index] += event.text
    kinds = [(item, texts[index]) for index, item in items.items()]
    calls = [(item["name"], json.loads(text)) for item, text in kinds if item["type"] == "function_call"]
    return "".join(text for item, text in kinds if item["type"] == "message"), calls


@pytest.mark.parametrize(("dialect", "odd"), STREAMS)
def test_a_decoder_reads(dialect: str, odd: Odd) -> None:
    try:
        events = decode(dialect, odd.stream)
    except BROKEN:
        assert odd.ending == "failed"
        return
    terminal = events[-1]
    if odd.ending == "failed":
        assert isinstance(terminal, Failed)
        return
    assert isinstance(terminal, Finished)
    assert (terminal.reason in ("length", "content_filter")) is (odd.ending == "incomplete")
    assert conclude(events) == (odd.text, [(name, json.loads(arguments)) for name, arguments in odd.calls])


def build_relay(dialect: str) -> Any:
    if dialect == "chat":
        return ChatRelay(OwnCompletion("m", {"id": "own"}), ChunkForm(frozenset({"reasoning_content"})))
    if dialect == "responses":
        return ResponsesRelay(
            OwnResponse("m", {"id": "r", "object": "response", "status": "in_progress", "output": []})
        )
    return MessagesRelay(model="m")


RELAY_DIFFERS = {
    "two inputs",  # deltas replace the input that a block began with
    "a text that is null",  # official clients stop with an error
    "a text that is a number",
    "input that is an object",
    "output that is an object",
    "output with a number",
    "an item whose content is a text",  # it is read only if the item may have to change
    "an item with a part that is a number",
    "no end of the message",  # clients of the same API wait for it
    "no end of the block",
    "a delta of another block",  # deltas are forwarded without parsing
    "input at the beginning of the block",
    "an error by the event's name",
}


@pytest.mark.parametrize("read_size", [None, 64], ids=["at once", "in pieces"])
@pytest.mark.parametrize(
    ("dialect", "odd"), [param for param in STREAMS if param.values[0] in ("chat", "responses", "anthropic")]
)
def test_a_relay_fails_where_a_decoder_does(
    dialect: str, odd: Odd, read_size: int | None, request: pytest.FixtureRequest
) -> None:
    relay = build_relay(dialect)
    step = read_size or len(odd.stream)
    for start in range(0, len(odd.stream), step):
        relay.feed(odd.stream[start : start + step])
    relay.finish()
    name = request.node.callspec.id.partition(": ")[2].partition("-")[0]
    if name not in RELAY_DIFFERS:
        assert (relay.failed is not None) is (odd.ending == "failed")
