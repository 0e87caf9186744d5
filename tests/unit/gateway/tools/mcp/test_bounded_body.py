"""Event streams of MCP servers lose what the library does not need, and nothing else, however they are cut."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final
from unittest.mock import ANY

import httpx2
import pytest
from httpx2 import EventSource, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from gateway.tools.mcp import bounded_body
from gateway.tools.mcp.bounded_body import BoundedBody, NotificationFilter, ServerTraffic
from gateway.tools.mcp.request_record import ReplyAborted, RequestRecord, current_record
from gateway.tools.mcp.server import MINUTE_S
from translation.hosted.bounds import DEFAULT_ANSWER_LIMITS, AnswerLimits

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
QUESTION = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}
ANSWER = {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": 'the word "method"'}]}}

UNREADABLE: Final = b"data: unreadable\n\n"
"""An event that the library refuses, instead of one with data that it would refuse too."""

LARGE_CHARS: Final = 300_000
"""The length of a text that is weighed in a thread."""

MARK: Final = b"\xef\xbb\xbf"
"""A byte order mark."""


def frame(message: Any, head: str = "", end: str = "\n") -> bytes:
    return f"{head}data: {json.dumps(message)}{end}{end}".encode()


def filter_answer(**named: Any) -> NotificationFilter:
    """Returns the filter of a stream that has an answer, whatever its id."""
    return NotificationFilter(awaits=lambda: None, **named)


def feed(notifications: NotificationFilter, *pieces: bytes) -> bytes:
    async def feed_all() -> bytes:
        passed: list[bytes] = []
        for piece in pieces:
            await notifications.feed(piece, passed.append)
        return b"".join(passed)

    return asyncio.run(feed_all())


def feed_all_of(notifications: NotificationFilter, *pieces: bytes) -> bytes:
    """Returns what passes of a stream that ends behind its pieces."""
    return feed(notifications, *pieces) + notifications.take_rest()


@pytest.mark.parametrize("head", ["", "event: message{}", ": words{}id: 1{}"])
@pytest.mark.parametrize("ends", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\n\r", "\r\r\n"])
def test_notifications_are_left_out_and_requests_are_counted(head: str, ends: str) -> None:
    end = ends[:2] if ends.startswith("\r\n") else ends[0]
    lines = head.replace("{}", end)
    progress, question = (f"{lines}data: {json.dumps(message)}{ends}".encode() for message in (PROGRESS, QUESTION))
    notifications = filter_answer()
    passed = feed(notifications, progress + question + progress)
    messages = [event.data for event in read_as_the_library(passed) if event.data]
    assert messages == [json.dumps(QUESTION)]
    assert (notifications.traffic.requests, notifications.dropped) == (1, 2)


def read_as_the_library(stream: bytes) -> list[ServerSentEvent]:
    headers = {"content-type": "text/event-stream"}
    request = httpx2.Request("POST", "http://mcp.test")
    return list(EventSource(httpx2.Response(200, headers=headers, content=stream, request=request)))


PARTS = ["data", ": ", ":", " ", "id", "event", "\r", "\n", "\r\n", "\n\n", "\ufeff", "é", '{"id":1}', "data: {}\n\n"]
PARTS += ["retry", "100", "message", "event: endpoint\ndata:/a\n\n", "1\0", "a long name", "x" * 9]
PIECES = st.lists(st.sampled_from([*(part.encode() for part in PARTS), b"\xff", b"\xc3", b"\xef\xbb"]), max_size=12)


@given(st.lists(PIECES, max_size=8))
def test_the_library_reads_no_message_that_was_not_weighed(pieces: list[list[bytes]]) -> None:
    weighed: set[bytes] = set()

    def weigh(data: bytes) -> bytes:
        weighed.add(data.replace(b"\n", b" "))
        return data

    passed = feed_all_of(filter_answer(weigh=weigh), *map(b"".join, pieces))
    read = {event.data.encode() for event in read_as_the_library(passed) if event.event == "message" and event.data}
    assert read <= weighed | {b"unreadable"}


@given(st.lists(PIECES, max_size=8))
def test_nothing_but_what_the_library_ignores_is_left_out(pieces: list[list[bytes]]) -> None:
    stream = b"".join(b"".join(piece) for piece in pieces) + b"\n\n"
    passed = feed_all_of(filter_answer(), *map(b"".join, pieces), b"\n\n")
    expected = read_as_the_library(stream.removeprefix(MARK))  # the library reads a mark as a part of the first name
    assert list_effects(read_as_the_library(passed)) == list_effects(expected)


def list_effects(events: Sequence[ServerSentEvent]) -> list[Any]:
    """Returns what the library does with events: the messages, each with the id after which the stream is resumed if it
    ends behind it, and the last id and time of the stream."""
    effects: list[Any] = []
    last_id, retry = "", None
    for event in events:
        last_id = event.id or last_id
        retry = retry if event.retry is None else max(event.retry, 100)
        if event.event in ("message", "endpoint") and event.data.strip():
            effects.append((event.event, read_data(event), last_id, retry))
    return [*effects, last_id, retry]


def read_data(event: ServerSentEvent) -> Any:
    if event.event == "endpoint":
        return event.data.replace("\n", " ")
    try:
        value = from_json(event.data)
    except ValueError:
        return "unreadable"
    return value if isinstance(value, dict) else "unreadable"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_library_gets_one_line_of_data_without_comments_and_unknown_fields(end: str) -> None:
    lines = [": a", "data: {", "id: 7", "odd: 1", 'data:"id": 2,', "data", 'data:  "result": {}', "datum", "data: }"]
    stream = (end.join(lines) + 2 * end).encode()
    for size in (1, 2, 7, len(stream)):
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        passed = feed(filter_answer(), *pieces, b"\n\n")
        assert passed == b'id: 7\ndata: { "id": 2,   "result": {} }\n\n'


def test_a_line_break_in_a_text_of_a_message_does_not_become_a_blank() -> None:
    assert feed(filter_answer(), b'data: {"id": 2, "result": {"a": "b\ndata: c"}}\n\n') == UNREADABLE


@pytest.mark.parametrize("data", [b'{"method"', b"[1]", b'"text"', b"ping", b"{} {}"])
def test_data_that_is_no_message_ends_a_call_and_is_left_out_of_a_lasting_stream(data: bytes) -> None:
    assert feed(filter_answer(), b"data: %s\n\n" % data) == UNREADABLE
    assert feed(NotificationFilter(), b"data: %s\n\n" % data) == b""


def test_a_message_that_only_the_parser_of_the_library_reads_is_none_the_less_counted() -> None:
    notifications = filter_answer()
    question = b'data: {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"b": NaN}}\n\n'
    assert feed(notifications, question) == question
    assert feed(notifications, question.replace(b'"id": 1, ', b"")) == b""
    assert (notifications.traffic.requests, notifications.dropped) == (1, 1)


def test_the_address_of_an_endpoint_passes() -> None:
    endpoint = b"event: endpoint\ndata: /messages?id=1\n\n"
    assert feed(NotificationFilter(), endpoint) == endpoint
    assert feed(NotificationFilter(), b"event: endpoint\ndata: /%s\n\n" % (b"a" * 10_000)) == b""


def test_events_of_other_names_are_left_out() -> None:
    assert feed(filter_answer(), frame(ANSWER, "event: other\n") + frame(ANSWER, "event: message\n")) == frame(ANSWER)


def test_progress_is_reported_and_dropped_all_the_same() -> None:
    reported: list[Any] = []
    notifications = NotificationFilter(report_progress=reported.append)
    assert feed(notifications, frame(PROGRESS) + frame({**PROGRESS, "params": None}) + frame(ANSWER)) == frame(ANSWER)
    assert reported == [{"progress": 1}, None]


@pytest.mark.parametrize(
    "answered", [1, "1", None, True, [2], 10**4000], ids=["number", "text", "null", "true", "list", "long number"]
)
def test_only_the_awaited_answer_passes(answered: Any) -> None:
    notifications = NotificationFilter(awaits=lambda: 2)
    assert feed(notifications, frame({**ANSWER, "id": answered}) + frame(ANSWER)) == frame(ANSWER)


def test_an_error_without_id_is_the_answer_to_the_only_request() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    assert feed(NotificationFilter(awaits=lambda: 2), frame(error)) == frame(error)


@given(st.lists(st.sampled_from([PROGRESS, QUESTION, ANSWER, "text", [1]])), st.data())
def test_pieces_make_no_difference(messages: list[Any], data: st.DataObject) -> None:
    stream = b"".join(frame(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    notifications = filter_answer()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    passed = feed(notifications, *pieces)
    expected = [frame(each) if isinstance(each, dict) else UNREADABLE for each in messages if each is not PROGRESS]
    assert passed == b"".join(expected)
    assert notifications.held_bytes == 0


class TestResumption:
    """Tests of ids and times, with which the library resumes a stream."""

    def test_the_last_id_of_dropped_events_stays(self) -> None:
        notifications = NotificationFilter()
        assert feed(notifications, frame(PROGRESS, "id: 1\n") + frame(PROGRESS, "id: 2\n")) == b""
        assert notifications.take_rest() == b"id: 2\ndata:\n\n"
        assert notifications.take_rest() == b""
        assert feed(notifications, frame(PROGRESS, "id: 3\n") + frame(ANSWER, "id: 4\n")) == frame(ANSWER, "id: 4\n")
        assert notifications.take_rest() == b""

    def test_the_id_of_a_dropped_event_goes_with_the_next_one_that_has_none(self) -> None:
        assert feed(NotificationFilter(), frame(PROGRESS, "id: 3\n"), frame(ANSWER)) == frame(ANSWER, "id: 3\n")

    def test_frames_without_a_message_leave_their_id_and_their_time(self) -> None:
        stream = b": a\n\nretry: 2500\n\n: b\nid: 5\ndata:\n\n: c\n\n"
        assert feed_all_of(NotificationFilter(), stream) == b"id: 5\nretry: 2500\ndata:\n\n"

    @pytest.mark.parametrize(
        ("lines", "passed"),
        [
            ("retry: 0", b"retry: 100\ndata:\n\n"),
            ("retry: -1", b""),
            ("retry: soon", b""),
            ("retry: " + "9" * 4000, b""),
            ("id: a\0b", b""),
            ("id: " + "1" * 10_000, b""),
            ("id", b"id: \ndata:\n\n"),
        ],
    )
    def test_what_the_library_could_not_use_is_left_out(self, lines: str, passed: bytes) -> None:
        assert feed_all_of(NotificationFilter(), f"{lines}\n\n".encode()) == passed

    @pytest.mark.parametrize("breaks_off", [False, True])
    async def test_a_stream_that_ends_or_breaks_off_passes_the_last_id_before(self, breaks_off: bool) -> None:
        stream = Stream(frame(PROGRESS, "id: 1\n"), is_endless=False, breaks_off=breaks_off)
        record = RequestRecord(DEFAULT_ANSWER_LIMITS)
        passed = b""
        with suppress(ReplyAborted):
            async for piece in BoundedBody(stream, record, is_event_stream=True):
                passed += piece
        assert passed == b"id: 1\ndata:\n\n"
        assert (record.fault is None) == (not breaks_off)

    async def test_ids_of_notifications_are_no_part_of_an_answer(self) -> None:
        record = RequestRecord(AnswerLimits(max_bytes=10_000))
        stream = Stream(*[frame(PROGRESS, f"id: {'1' * 100}\n")] * 1_000, frame(ANSWER), is_endless=False)
        passed = await read_body(BoundedBody(stream, record, is_event_stream=True))
        assert passed == frame(ANSWER, f"id: {'1' * 100}\n")


class TestByteOrderMark:
    """Tests of the mark before the first line, which is no part of it."""

    def test_a_leading_mark_is_ignored_however_it_is_cut(self) -> None:
        stream = MARK + frame(ANSWER)
        for size in (1, 2, 3, 4, len(stream)):
            pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
            assert feed(filter_answer(), b"", *pieces) == frame(ANSWER)

    def test_only_one_mark_before_the_first_line_is_ignored(self) -> None:
        assert feed(filter_answer(), MARK + MARK + frame(ANSWER)) == b""
        assert feed(filter_answer(), b"\n" + MARK + frame(ANSWER)) == b""


class TestLinesWithoutField:
    """Tests of lines that are left out as soon as they can be no field."""

    @pytest.mark.parametrize("line", [b": " + b"x" * 100, b"odd: " + b"x" * 100, b"data of: " + b"x" * 100, b"x" * 100])
    def test_they_are_not_held_and_each_byte_of_them_is_counted(self, line: bytes) -> None:
        notifications = filter_answer()
        for end in (b"\n", b"\n\n"):
            before = notifications.traffic.idle_bytes
            assert feed(notifications, line[:30], line[30:60], line[60:]) == b""
            assert notifications.held_bytes == 0
            assert feed(notifications, end + frame(ANSWER)) == frame(ANSWER)
            assert notifications.traffic.idle_bytes - before == len(line + end) + len(b"\n")  # that ends the answer

    def test_they_neither_begin_nor_end_a_frame(self) -> None:
        pieces = [b'data: {"id": 2,\n: ', b"x" * 50, b"x" * 50 + b'\ndata: "result": {}}\n: ', b"x" * 50, b"\n", b"\n"]
        assert feed(filter_answer(), *pieces) == b'data: {"id": 2, "result": {}}\n\n'

    @pytest.mark.parametrize("name", ["data", "event", "id", "retry"])
    def test_fields_are_held_however_they_are_cut(self, name: str) -> None:
        line = f"{name}: {'x' * 100}".encode()
        for cut in range(1, 20):
            notifications = filter_answer()
            assert feed(notifications, line[:cut], line[cut:]) == b""
            assert notifications.held_bytes == len(line)


def test_an_incomplete_event_is_buffered() -> None:
    notifications = NotificationFilter()
    assert feed(notifications, b"data: 12345") == b""
    assert notifications.held_bytes == 11


class Stream(httpx2.AsyncByteStream):
    """A stream of pieces, the last of which is sent again and again."""

    def __init__(self, *pieces: bytes, is_endless: bool = True, breaks_off: bool = False) -> None:
        self._pieces = pieces
        self._is_endless = is_endless
        self._breaks_off = breaks_off

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        while self._is_endless:
            yield self._pieces[-1]
        if self._breaks_off:
            raise httpx2.ReadError("the connection was reset")


async def read_body(body: BoundedBody) -> bytes:
    async with asyncio.timeout(60):
        return b"".join([piece async for piece in body])


NOTHING: Final = b": nothing\n\n"


@pytest.mark.parametrize(
    ("name", "limit", "piece", "words"),
    [
        ("MAX_DROPPED", 3, frame(PROGRESS) + NOTHING, "more than 3 messages"),
        ("MAX_DROPPED_BYTES", 300, frame(PROGRESS), "more than 300 bytes"),
        ("MAX_DROPPED_BYTES", 300, NOTHING, "more than 300 bytes"),
        ("MAX_DROPPED_BYTES", 300, b"odd: 1\n", "more than 300 bytes"),
        ("MAX_DROPPED_BYTES", 300, b"\n", "more than 300 bytes"),
        ("MAX_DROPPED", 3, b"id: 1\n\n", "more than 3 messages"),
        ("MAX_OWN_REQUESTS", 3, frame(QUESTION), "more than 3 requests"),
        ("_MAX_LINES", 30, b"data\n", "more than 30 lines"),
        ("_MAX_PIECES", 30, b":", "more than 30 pieces"),
    ],
)
@pytest.mark.parametrize("is_lasting", [False, True])
async def test_messages_that_nothing_reads_are_counted(
    name: str, limit: int, piece: bytes, words: str, is_lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_body, name, limit)
    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    with nullcontext() if is_lasting else pytest.raises(ReplyAborted):
        await read_body(BoundedBody(Stream(piece), record, is_event_stream=True, is_lasting=is_lasting))
    assert record.fault is not None
    assert (record.fault.kind, record.has_failed) == ("invalid_result", True)
    assert words in str(record.fault)


@pytest.mark.parametrize(
    ("name", "limit", "words"), [("MAX_DROPPED", 3, "more than 3 messages"), ("_MAX_PASSED_BYTES", 300, "300 bytes")]
)
async def test_answers_on_a_lasting_stream_are_counted(
    name: str, limit: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_body, name, limit)
    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    await read_body(BoundedBody(Stream(frame(ANSWER)), record, is_event_stream=True, is_lasting=True))
    assert words in str(record.fault)


async def test_the_pieces_of_a_body_that_is_one_message_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_body, "_MAX_PIECES", 30)
    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    with pytest.raises(ReplyAborted):
        await read_body(BoundedBody(Stream(b"1"), record, is_event_stream=False))
    assert "more than 30 pieces" in str(record.fault)


@pytest.mark.parametrize("is_lasting", [False, True])
async def test_streams_that_are_resumed_are_counted_together(is_lasting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_body, "MAX_DROPPED", 3)
    requester = RequestRecord(DEFAULT_ANSWER_LIMITS, is_of_session=is_lasting)
    current_record.set(requester)
    faults = []
    for _ in range(4):
        record = requester.create_stream_record() if is_lasting else requester
        stream = Stream(frame(PROGRESS), is_endless=False)
        with suppress(ReplyAborted):
            await read_body(BoundedBody(stream, record, is_event_stream=True, is_lasting=is_lasting))
        faults.append(record.fault)
    assert faults[:3] == [None] * 3
    assert "more than 3 messages" in str(faults[3])


def test_each_minute_of_a_lasting_stream_is_counted_apart() -> None:
    counts: dict[str, Any] = dict.fromkeys(
        ("requests", "messages", "idle_bytes", "passed_bytes", "lines", "pieces"), 10**10
    )
    now = time.monotonic()
    recent, old = ServerTraffic(**counts, began=now), ServerTraffic(**counts, began=now - MINUTE_S - 1)
    for traffic in (recent, old):
        traffic.begin_minute()
    assert recent.find_excess() is not None
    assert old == ServerTraffic(began=old.began)


@pytest.mark.parametrize(
    ("is_lasting", "piece", "count"),
    [
        (False, b": ping\n\n", 4 * 60 * 24),
        (True, b": ping\n\n", 4 * 60 * 24),
        (False, b"event: ping\ndata: 1\n\n", 4 * 60 * 24),
        (False, b":\n", 4 * 60 * 24),
        (False, frame(PROGRESS, "event: message\nid: 1\n"), 45_000),
        (True, frame(PROGRESS, "event: message\nid: 1\n"), 45_000),
    ],
    ids=["a day of comments", "a day of comments unasked", "a day of events", "a day of lines", "progress", "unasked"],
)
async def test_signs_of_life_and_much_progress_are_no_fault(is_lasting: bool, piece: bytes, count: int) -> None:
    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    stream = Stream(*[piece] * count, b"\n" + frame(ANSWER), is_endless=False)
    passed = await read_body(BoundedBody(stream, record, is_event_stream=True, is_lasting=is_lasting))
    assert passed.endswith(frame(ANSWER))
    assert record.fault is None


async def test_large_messages_are_examined_in_a_thread_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[bytes, threading.Thread] = {}

    def weigh(data: bytes, limits: Any) -> bytes:
        threads[data] = threading.current_thread()
        return data

    monkeypatch.setattr(bounded_body, "weigh_message", weigh)
    messages = [{**QUESTION, "id": number, "a": "x" * length} for number, length in enumerate([1, LARGE_CHARS, 2])]
    large = {**PROGRESS, "a": "x" * LARGE_CHARS}
    stream = Stream(b"".join(map(frame, [*messages, large])), is_endless=False)
    record = RequestRecord(DEFAULT_ANSWER_LIMITS)
    assert await read_body(BoundedBody(stream, record, is_event_stream=True)) == b"".join(map(frame, messages))
    assert {len(data) > LARGE_CHARS for data, thread in threads.items() if thread is threading.main_thread()} == {False}
    assert len(threads) == 4


def answer_with(text: str, request_id: int = 2) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": text}]}}


class TestSharedStream:
    """Tests of a stream with the answers to several requests: one that is refused ends no other."""

    LIMITS: Final = AnswerLimits(max_bytes=10_000, max_values=2_000)
    HEAVY: Final = {"jsonrpc": "2.0", "id": 7, "result": {"a": [1] * 3_000}}
    DEEP: Final = b'{"jsonrpc": "2.0", "id": 7, "result": {"a": %s1%s}}' % (b"[" * 950, b"]" * 950)

    async def read(self, *pieces: bytes) -> tuple[list[Any], RequestRecord]:
        record = RequestRecord(self.LIMITS)
        stream = Stream(*pieces, is_endless=False)
        passed = await read_body(BoundedBody(stream, record, is_event_stream=True, is_lasting=True))
        return [json.loads(event.data) for event in read_as_the_library(passed) if event.data], record

    @pytest.mark.parametrize(
        ("refused", "words"),
        [
            (frame(HEAVY), "max_result_values"),
            (b"data: %s\n\n" % DEEP, "levels deep"),
            (frame({"jsonrpc": "2.0", "result": HEAVY["result"], "id": 7}), "max_result_values"),
            (frame(answer_with("x" * 30_000, 7)), "max_result_mb"),
            (frame(answer_with("x" * 30_000, 7)).replace(b": {", b":\ndata: {"), "max_result_mb"),
        ],
        ids=["values", "levels", "id at its end", "bytes", "bytes in several lines"],
    )
    @pytest.mark.parametrize("size", [7, 1_000, 100_000])
    async def test_the_answer_is_replaced_by_an_error(self, refused: bytes, words: str, size: int) -> None:
        stream = frame(ANSWER) + refused + frame(answer_with("later", 8))
        messages, record = await self.read(*(stream[start : start + size] for start in range(0, len(stream), size)))
        assert [message["id"] for message in messages] == [2, 7, 8]
        assert words in messages[1]["error"]["message"]
        assert (messages[0], messages[2]) == (ANSWER, answer_with("later", 8))
        assert record.fault is None

    @pytest.mark.parametrize(
        "message",
        [
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"id": 7, "a": [1] * 3_000}},
            {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {"a": [1] * 3_000}},
            {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {"a": "x" * 30_000}},
        ],
    )
    async def test_what_the_server_asks_or_reports_ends_no_request(self, message: Any) -> None:
        stream = frame(message) + frame(ANSWER)
        for size in (1_000, 100_000):
            pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
            assert await self.read(*pieces) == ([ANSWER], ANY)

    @pytest.mark.parametrize(
        "message",
        [
            [1] * 3_000,
            {"jsonrpc": "2.0", "result": {"id": 7, "a": [1] * 3_000}},
            {"result": {"a": "x" * 30_000}, "id": 7},
            {"id": 10**20, "result": {"a": [1] * 3_000}},
            {"result": {"a": [[1] * 3_000, {"id": 7}]}},
        ],
    )
    async def test_the_stream_ends_if_the_request_is_unknown_and_what_came_before_passes(self, message: Any) -> None:
        messages, record = await self.read(frame(ANSWER) + frame(message)[:20_000], frame(ANSWER))
        assert messages == [ANSWER]
        assert record.has_failed

    async def test_refused_answers_are_counted_as_if_they_had_passed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bounded_body, "MAX_DROPPED_BYTES", 1_000)
        monkeypatch.setattr(bounded_body, "_MAX_PASSED_BYTES", 100_000)
        refused = frame(answer_with("x" * 30_000, 7))
        pieces = [refused[start : start + 1_000] for start in range(0, len(refused), 1_000)]
        messages, record = await self.read(*pieces * 5)
        assert [message["id"] for message in messages] == [7] * 3
        assert "more than 100000 bytes in a minute" in str(record.fault)


class TestMinute:
    """Tests of the stream that the library opens again after a server sent too much on the last one."""

    async def test_it_waits_for_the_rest_of_the_minute_and_the_list_may_have_changed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bounded_body, "MINUTE_S", 0.3)
        session = RequestRecord(DEFAULT_ANSWER_LIMITS, is_of_session=True)
        current_record.set(session)
        reported: list[float] = []

        async def read(*pieces: bytes) -> bytes:
            body = BoundedBody(
                Stream(*pieces, is_endless=False),
                session.create_stream_record(),
                is_event_stream=True,
                is_lasting=True,
                report_change=lambda: reported.append(time.monotonic()),
            )
            return await read_body(body)

        began = time.monotonic()
        for _ in range(2):
            assert await read(frame(QUESTION) * 100, frame(ANSWER)) == frame(QUESTION) * 64
        assert await read(frame(ANSWER)) == frame(ANSWER)
        assert time.monotonic() - began >= 0.6
        assert len(reported) == 2
        assert await read(frame(ANSWER)) == frame(ANSWER)
        assert len(reported) == 2

    async def test_the_wait_can_be_cancelled(self) -> None:
        session = RequestRecord(DEFAULT_ANSWER_LIMITS, is_of_session=True)
        current_record.set(session)
        ended: list[bool] = []
        for _ in range(2):
            record = session.create_stream_record()
            stream = Stream(frame(QUESTION))
            body = BoundedBody(stream, record, is_event_stream=True, is_lasting=True, on_end=lambda: ended.append(True))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await read_body(body)
        assert ended == [True, True]
