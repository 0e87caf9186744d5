"""Event streams of MCP servers lose their notifications, and nothing else, however they are cut into pieces."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from httpx2 import EventSource, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.mcp import bounded_body
from gateway.tools.mcp.bounded_body import BoundedBody, NotificationFilter
from gateway.tools.mcp.request_record import ReplyAborted, RequestRecord
from translation.hosted.bounds import DEFAULT_ANSWER_LIMITS

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
QUESTION = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}
ANSWER = {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": 'the word "method"'}]}}


def frame(message: Any, head: str = "", end: str = "\n") -> bytes:
    return f"{head}data: {json.dumps(message)}{end}{end}".encode()


@pytest.mark.parametrize("head", ["", "event: message{}", ": words{}id: 1{}"])
@pytest.mark.parametrize("ends", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\n\r", "\r\r\n"])
def test_notifications_are_left_out_and_requests_are_counted(head: str, ends: str) -> None:
    end = ends[:2] if ends.startswith("\r\n") else ends[0]
    lines = head.replace("{}", end)
    progress, question = (f"{lines}data: {json.dumps(message)}{ends}".encode() for message in (PROGRESS, QUESTION))
    notifications = NotificationFilter()
    passed = notifications.feed(progress + question + progress)
    messages = [event.data for event in read_as_the_library(passed) if event.data]
    assert messages == [json.dumps(QUESTION)]
    assert (notifications.requests, notifications.dropped) == (1, 2)


def read_as_the_library(stream: bytes) -> list[ServerSentEvent]:
    headers = {"content-type": "text/event-stream"}
    request = httpx2.Request("POST", "http://mcp.test")
    return list(EventSource(httpx2.Response(200, headers=headers, content=stream, request=request)))


PARTS = ["data", ": ", ":", " ", "id", "event", "\r", "\n", "\r\n", "\n\n", "\ufeff", "é", '{"id":1}', "data: 1\n\n"]
PIECES = st.lists(st.sampled_from([*(part.encode() for part in PARTS), b"\xff", b"\xc3"]), max_size=12)


@given(st.lists(PIECES, max_size=8))
def test_the_library_reads_no_message_that_was_not_weighed(pieces: list[list[bytes]]) -> None:
    weighed: list[bytes] = [b""]

    def weigh(data: bytes) -> bytes:
        weighed.append(data)
        return data

    notifications = NotificationFilter(weigh=weigh)
    passed = b"".join(notifications.feed(b"".join(piece)) for piece in pieces)
    assert {event.data.encode() for event in read_as_the_library(passed)} <= set(weighed)


@given(st.lists(PIECES, max_size=8))
def test_nothing_but_notifications_is_left_out(pieces: list[list[bytes]]) -> None:
    stream = b"".join(b"".join(piece) for piece in pieces) + b"\n\n"
    notifications = NotificationFilter()
    passed = b"".join(notifications.feed(piece) for piece in [*map(b"".join, pieces), b"\n\n"])
    assert read_as_the_library(passed) == read_as_the_library(stream)


def test_progress_is_reported_and_dropped_all_the_same() -> None:
    reported: list[Any] = []
    notifications = NotificationFilter(report_progress=reported.append)
    assert notifications.feed(frame(PROGRESS) + frame({**PROGRESS, "params": None}) + frame(ANSWER)) == frame(ANSWER)
    assert reported == [{"progress": 1}, None]


@given(st.lists(st.sampled_from([PROGRESS, QUESTION, ANSWER, "text", [1]])), st.data())
def test_pieces_make_no_difference(messages: list[Any], data: st.DataObject) -> None:
    stream = b"".join(frame(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    notifications = NotificationFilter()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    passed = b"".join(map(notifications.feed, pieces))
    assert passed == b"".join(frame(message) for message in messages if message is not PROGRESS)
    assert notifications.held_bytes == 0


def test_the_last_id_of_dropped_events_stays_so_that_the_stream_can_be_resumed() -> None:
    notifications = NotificationFilter()
    passed = notifications.feed(frame(PROGRESS, "id: 1\n") + frame(PROGRESS, "id: 2\n"))
    assert passed == b"id: 2\ndata:\n\n"
    assert notifications.feed(frame(PROGRESS, "id: 3\n") + frame(ANSWER, "id: 4\n")) == frame(ANSWER, "id: 4\n")


def test_other_events_are_forwarded() -> None:
    notifications = NotificationFilter()
    for other in (b": a comment\n\n", b'data: {"method"\n\n', b"\n\n"):
        assert notifications.feed(other) == other


def test_a_message_over_several_lines_is_one() -> None:
    notifications = NotificationFilter()
    assert notifications.feed(b'data: {"method":\ndata: "notifications/progress"}\n\n') == b""


def test_an_incomplete_event_is_buffered() -> None:
    notifications = NotificationFilter()
    assert notifications.feed(b"data: 12345") == b""
    assert notifications.held_bytes == 11


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [("MAX_DROPPED", 3, "more than 3 messages"), ("MAX_DROPPED_BYTES", 300, "more than 300 bytes")],
)
async def test_messages_that_nothing_reads_are_counted(
    name: str, limit: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_body, name, limit)

    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield frame(PROGRESS) + b": nothing\n\n"

    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    with pytest.raises(ReplyAborted):
        async for _ in BoundedBody(Stream(), record, is_event_stream=True):
            pass
    assert words in str(record.fault)
