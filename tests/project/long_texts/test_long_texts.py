"""Readers of texts from outside take linear time, also for long texts of one character, in one piece or in thousands.

Models write such texts when they do not find an end. `test_patterns.py` is about the regular expressions of readers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import pytest

from gateway.replies.sentence_buffer import SentenceBuffer
from gateway.retrieval.html_text import extract_html_text
from providers.engines.servers.schema_bounds import refuse_invalid_bounds
from tests.project.long_texts.hostile_texts import COMMON_UNITS, HostileText
from tests.project.long_texts.time_growth import find_superlinear_time
from translation.framing.sse import FrameDecoder
from translation.gemini.client.value_replies import unwrap_value
from translation.gemini.schema.spelling import to_camel_case
from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.citations.cited_text import CitedText
from translation.hygiene.stop_sequences import StopStrings
from translation.messages.client.messages_errors import describe_overflow
from translation.parsers.edges import EdgeTrimmer
from translation.parsers.leading_think_tags import LeadingThinkParser
from translation.parsers.think_tags import ThinkParser
from translation.parsers.thought_reader import ThoughtReader
from translation.parsers.tools.registry import PARSER_FACTORIES
from translation.representation.events import Delta
from translation.representation.streamed_text import StreamedText
from translation.tools.freeform import FreeformUnwrapper

_SIZE: Final = 8_000
_MANY_PIECES: Final = 1_500

FUNCTIONS: Mapping[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "a value": (lambda text: unwrap_value(text, "json"), ('{"value": ', '{"value": 1')),
    "an error about the context": (describe_overflow, ("context length is ", "context length is 1", "tokens ")),
    "a web page": (lambda text: extract_html_text(text, 10_000), ("", "<pre>a", "<p ", "<a href=")),
    "a grammar": (lambda text: refuse_invalid_bounds({"grammar": text}), ("", "{0,", '"', "[")),
    "a key of a request": (to_camel_case, ("", "a")),
}
"""Reader of whole texts, and the beginnings of texts for it."""


class Reader(Protocol):
    def feed(self, text: str, /) -> object: ...


class _Frames:
    def __init__(self) -> None:
        self._decoder = FrameDecoder()

    def feed(self, text: str) -> object:
        return self._decoder.feed(text.encode())


class _Sentences:
    def __init__(self) -> None:
        self._buffer = SentenceBuffer()

    def feed(self, text: str) -> object:
        return self._buffer.feed([Delta(0, 0, text)])


class _Reasoning:
    def __init__(self) -> None:
        self._trimmer = EdgeTrimmer()

    def feed(self, text: str) -> object:
        return self._trimmer.feed("reasoning", text)


class _Streamed:
    def __init__(self) -> None:
        self._text = StreamedText()

    def feed(self, text: str) -> object:
        self._text.add(text)
        return None


_CALL: Final = '{"name":"f","arguments":{"a":"'
READERS: Mapping[str, tuple[Callable[[], Reader], tuple[str, ...]]] = {
    **{f"calls of {name}": (factory, ("", _CALL, "```")) for name, factory in PARSER_FACTORIES.items()},
    "calls between tags": (PARSER_FACTORIES["hermes"], ("<tool_call>", '<tool_call>{"name":"f"}', "<tool_call>x ")),
    "named calls": (PARSER_FACTORIES["llama"], ("<function=f>", "<function=f", "<function=f>{}")),
    "calls after a mark": (PARSER_FACTORIES["mistral"], ("[TOOL_CALLS]", "[TOOL_CALLS]f")),
    "calls of Python": (PARSER_FACTORIES["pythonic"], ("[f(", "[f(a=", '[f(a="')),
    "think tags": (ThinkParser, ("", "<think>")),
    "a leading think tag": (LeadingThinkParser, ("", "<think>")),
    "a thought": (ThoughtReader, ("", "</think>")),
    "the edges of reasoning": (_Reasoning, ("", "a")),
    "input in arguments": (FreeformUnwrapper, ("", '{"input":"', '{"input":"a"')),
    "stop strings": (lambda: StopStrings(["\n\n ", "aab"]), ("",)),
    "events": (_Frames, ("data: ",)),
    "a streamed text": (_Streamed, ("", "<think>")),
    "citations": (lambda: CitedText(CitationTable()), ("", "[a](", "\u3010")),
}
"""Reader of streams, and the beginnings of texts for it."""

SENTENCES: Final = (_Sentences, ("", "a."))
"""It reads up to 2,000 characters again with each piece, which is a limit and not linear below it."""

STREAMS: Final = [
    *(
        pytest.param(*reader, is_cut, id=f"{name}, {is_cut}")
        for name, reader in READERS.items()
        for is_cut in (False, True)
    ),
    pytest.param(*SENTENCES, False, id="sentences, False"),
]
"""Readers with the beginnings of their texts, and whether the texts come in pieces of one character."""

_UNITS: Final = (*COMMON_UNITS, ".", "</", "<think", "[a](", "\u3010", '{"a":', "{0,", "='")


@pytest.mark.parametrize(("read", "beginnings"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_long_text_is_read_in_linear_time(read: Callable[[str], object], beginnings: tuple[str, ...]) -> None:
    def read_hostile(hostile: HostileText, size: int) -> None:
        read(hostile.build(size))

    for hostile in (HostileText(beginning, unit, "!") for beginning in beginnings for unit in _UNITS):
        times = find_superlinear_time(partial(read_hostile, hostile), _SIZE)
        assert not times, hostile


@pytest.mark.parametrize(("factory", "beginnings", "is_cut"), STREAMS)
def test_a_long_stream_is_read_in_linear_time(
    factory: Callable[[], Reader], beginnings: tuple[str, ...], is_cut: bool
) -> None:
    def read(beginning: str, unit: str, size: int) -> None:
        reader = factory()
        text = HostileText("", unit, "").build(size)
        for piece in (beginning, *(text if is_cut else (text,))):
            reader.feed(piece)

    for beginning in beginnings:
        for unit in _UNITS:
            size = _MANY_PIECES if is_cut else _SIZE
            times = find_superlinear_time(partial(read, beginning, unit), size)
            assert not times, (beginning, unit)
