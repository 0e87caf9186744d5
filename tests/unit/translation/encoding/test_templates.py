"""Delta templates: reads of a run become frames without decoding, with or without sequence numbers."""

import orjson

from tests.unit.support.chat_chunks import text_chunk
from translation.chat.delta_run import ChatDeltaRun
from translation.encoding.templates import DeltaTemplate, RelayTemplate
from translation.framing import sse
from translation.representation.events import Delta
from translation.representation.streamed_text import FinalRest, StreamedText


class Numbering:
    sequence = 8


def run() -> ChatDeltaRun:
    run = ChatDeltaRun.from_delta(orjson.dumps(text_chunk("one")), "content", Delta(0, 0, "one"))
    assert run is not None
    return run


def read_of(*texts: str) -> bytes:
    return b"".join(sse.encode_data(orjson.dumps(text_chunk(text))) for text in texts)


def test_frames_have_the_next_numbers_of_their_encoder() -> None:
    texts: list[str] = []
    observed: list[str] = []
    encoder = Numbering()
    template = DeltaTemplate(run(), texts.append, b"%d:%b\n", [observed.append], encoder)
    assert template.encode_read(read_of("two", 'dr"ei')) == b'9:"two"\n10:"dr\\"ei"\n'
    assert (encoder.sequence, texts, observed) == (10, ["two", 'dr"ei'], ["two", 'dr"ei'])
    assert template.encode_read(b"data: [DONE]\n\n") is None
    assert (encoder.sequence, texts) == (10, observed)


def test_frames_without_numbers_have_the_text_alone() -> None:
    texts: list[str] = []
    template = DeltaTemplate(run(), texts.append, b"100%%:%b\n")
    assert template.encode_read(read_of("two", "drei")) == b'100%:"two"\n100%:"drei"\n'
    assert texts == ["two", "drei"]


def test_a_relay_template_renames_members_and_notes_the_texts_if_they_are_compared() -> None:
    payload = orjson.dumps(text_chunk("one"))
    for streamed_text in (None, StreamedText()):
        noting = ChatDeltaRun.from_delta(payload, "content", Delta(0, 0, "one"), streamed_text=streamed_text)
        assert noting is not None
        template = RelayTemplate(noting, [(b'"model":"m"', b'"model":"own"')])
        assert template.encode_read(read_of("two")) == read_of("two").replace(b'"m"', b'"own"')
        assert template.encode_read(b"data: [DONE]\n\n") is None
    assert streamed_text is not None
    assert streamed_text.find_rest("two three") == FinalRest(" three")
