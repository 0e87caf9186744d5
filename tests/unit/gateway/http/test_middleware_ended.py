"""Requests are counted and logged when they have ended, those of one turn of the loop together."""

import asyncio
import json
from collections.abc import Coroutine
from contextvars import copy_context
from io import BytesIO

import pytest

from gateway import logs
from gateway.http.middleware import EndedRequests
from gateway.log_writer import LogWriter
from gateway.logs import begin_fields, bind_fields, read_bound_fields


class Meter:
    """Adds its name to the fields of a request, or fails."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.is_over = False

    def leave(self) -> None:
        self.is_over = True

    def end(self, status: int, elapsed_ns: int, fields: dict[str, object]) -> None:
        assert self.is_over
        if not self.name:
            raise ValueError("a fault of a meter")
        fields["meter"] = self.name


class Written(BytesIO):
    """A stream that knows how often it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.writes += 1
        return super().write(data)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    stream = Written()
    monkeypatch.setattr(logs, "_access_stream", LogWriter(stream))
    return stream


def add(ended: EndedRequests, path: str, meter: Meter | None) -> None:
    begin_fields(request_id=path)
    bind_fields(model="m")
    ended.add("POST", path, 200, 1_450_000, meter)


async def test_all_requests_of_one_turn_of_the_loop_are_one_write(written: Written) -> None:
    ended = EndedRequests()
    for path in ("/a", "/b"):
        add(ended, path, Meter(path))
    assert read_bound_fields() == {}
    assert written.getvalue() == b"", "no client waits for it"
    await asyncio.sleep(0)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["request_id"], line["path"], line["meter"], line["ms"]) for line in lines] == [
        ("/a", "/a", "/a", 1.5),
        ("/b", "/b", "/b", 1.5),
    ]
    assert written.writes == 1
    add(ended, "/c", None)
    await asyncio.sleep(0)
    assert json.loads(written.getvalue().splitlines()[-1])["path"] == "/c"


async def test_a_request_that_cannot_be_counted_is_logged_and_hinders_no_other(written: Written) -> None:
    ended = EndedRequests()
    for path, name in (("/a", ""), ("/b", "second")):
        add(ended, path, Meter(name))
    await asyncio.sleep(0)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["path"], line.get("meter")) for line in lines] == [("/a", None), ("/b", "second")]


async def test_a_line_that_cannot_be_encoded_hinders_no_other(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = logs._encode_fields

    def encode_but_one(line: dict[str, object]) -> bytes:
        if line["path"] == "/a":
            raise ValueError("a fault of the encoder")
        return encode(line)

    monkeypatch.setattr(logs, "_encode_fields", encode_but_one)
    ended = EndedRequests()
    for path in ("/a", "/b"):
        add(ended, path, None)
    await asyncio.sleep(0)
    assert [json.loads(line)["path"] for line in written.getvalue().splitlines()] == ["/b"]


def test_a_loop_that_ended_before_it_wrote_lines_leaves_them_to_the_next(written: Written) -> None:
    ended = EndedRequests()

    async def end(path: str, turns: int) -> None:
        add(ended, path, None)
        for _ in range(turns):
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    adding = end("/a", 0)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupt(adding))
    loop.close()
    asyncio.run(end("/b", 1))
    assert [json.loads(line)["path"] for line in written.getvalue().splitlines()] == ["/a", "/b"]


async def interrupt(work: Coroutine[None, None, None]) -> None:
    await work
    raise KeyboardInterrupt


async def test_a_task_that_outlives_its_request_has_only_what_the_request_had_bound(written: Written) -> None:
    ended = EndedRequests()
    begin_fields(request_id="/a")
    left_behind = copy_context()
    ended.add("POST", "/a", 200, 1_450_000, Meter("a"))
    left_behind.run(bind_fields, model="late")
    await asyncio.sleep(0)
    (line,) = map(json.loads, written.getvalue().splitlines())
    assert (line["meter"], line.get("model")) == ("a", None)
    assert left_behind.run(read_bound_fields) == {"request_id": "/a", "model": "late"}
