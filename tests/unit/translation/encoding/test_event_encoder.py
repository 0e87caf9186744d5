"""The order of a reply, which all encoders share, in a dialect of lines."""

import pytest

from translation.chat.delta_run import ChatDeltaRun
from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.encoding.turn_reply import TurnReplyCollector
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json

MESSAGE: Item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
TEXT: Json = {"type": "output_text", "text": ""}


class LineEncoder(EventEncoder):
    """Writes each text as a line, and the names of the events that have frames."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def _write_text(self, index: int, part_index: int | None, text: str, frames: list[bytes], /) -> None:
        self._texts[index, part_index] = TextFrames(b"%b\n", self.texts.append)
        self.texts.append(text)
        frames.append(b'first "%b"\n' % text.encode())

    def _end_part(self, _event: PartEnded, frames: list[bytes], /) -> None:
        frames.append(b"part ended\n")

    def _encode_end(self, finished: Finished, /) -> bytes:
        return f"{finished.reason} {self._usage and self._usage.output} {self._facts}\n".encode()

    def _encode_failure(self, failed: Failed, /) -> bytes:
        return f"failed: {failed.message}\n".encode()


class LineCollector(TurnReplyCollector):
    def _build_reply(self, finished: Finished, /) -> Json:
        return {"reason": finished.reason, "items": len(self._collector.items)}


def test_events_with_a_method_are_written_and_others_are_not() -> None:
    encoder = LineEncoder()
    assert encoder.feed([Started("m"), ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT)]) == b""
    assert encoder.feed([Delta(0, 0, "a"), Delta(0, 0, 'b"'), PartEnded(0, 0)]) == b'first "a"\n"b\\""\npart ended\n'
    assert encoder.texts == ["a", 'b"']
    others: list[Event] = [
        Annotated(0, 0, {}),
        Progressed(0, "searching"),
        Opaque("chat", {}),
        Noted(facts={"f": 1}),
        ItemEnded(0),
    ]
    assert encoder.feed(others) == b""


def test_the_end_is_written_once_and_a_failure_replaces_it() -> None:
    encoder = LineEncoder()
    assert encoder.conclude() == b""
    encoder.feed([Noted(usage=Usage(1, 2), facts={"f": 1}), Noted(), Finished("stop")])
    assert encoder.ended
    assert encoder.conclude() == b"stop 2 {'f': 1}\n"
    assert encoder.conclude() == b""
    failing = LineEncoder()
    failing.feed([Finished("stop", usage=Usage(1, 3))])
    failing.feed([Failed("upstream_error", "broken")])
    assert (failing.conclude(), failing.failed and failing.failed.code) == (b"failed: broken\n", "upstream_error")


def test_runs_are_forwarded_once_their_text_has_a_template() -> None:
    encoder = LineEncoder()
    run = ChatDeltaRun(b'{"c":"', b'"}', Delta(0, 0, "a"))
    assert encoder.build_delta_template(run) is None
    encoder.feed([ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT), Delta(0, 0, "a")])
    seen: list[str] = []
    template = encoder.build_delta_template(run, [seen.append])
    assert template is not None
    assert template.encode_read(b'data: {"c":"b"}\n\ndata: {"c":"c"}\n\n') == b'"b"\n"c"\n'
    assert (template.encode_read(b"data: [DONE]\n\n"), seen, encoder.texts) == (None, ["b", "c"], ["a", "b", "c"])


def test_a_collector_has_a_reply_only_after_the_turn_has_finished() -> None:
    collector = LineCollector()
    collector.feed([Started("m"), ItemStarted(0, MESSAGE)])
    with pytest.raises(ValueError, match="has not finished"):
        collector.result()
    collector.feed([ItemEnded(0), Finished("stop", usage=Usage(1, 2))])
    assert collector.result() == {"reason": "stop", "items": 1}
    assert (collector.failed, collector.usage) == (None, Usage(1, 2))
    failing = LineCollector()
    failing.feed([Failed("upstream_error", "broken")])
    assert failing.failed is not None
