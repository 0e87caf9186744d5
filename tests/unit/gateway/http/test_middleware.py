"""Every request has an id and one log line, without private data."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.http.middleware import BODY_SEND, RequestMiddleware
from gateway.logs import begin_fields, bind_fields, read_bound_fields

MADE = "req_"


async def ask(*headers: tuple[bytes, bytes], app: Any = None, kind: str = "http") -> dict[str, Any]:
    """The head of the reply."""
    sent: list[Any] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        bind_fields(model="m", provider="p")
        await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": kind, "method": "POST", "path": "/v1/responses", "headers": list(headers)}
    try:
        await RequestMiddleware(app or answer)(scope, receive, send)
    finally:
        await asyncio.sleep(0)  # its line is written in the next turn of the loop
    return sent[0] if sent else scope


def request_id(head: dict[str, Any]) -> str:
    [value] = [value for name, value in head["headers"] if name == b"x-request-id"]
    return str(value.decode())


async def test_a_plain_id_of_the_client_is_used() -> None:
    head = await ask((b"x-request-id", b"mine-1"))
    assert request_id(head) == "mine-1"
    assert (b"a", b"b") in head["headers"]


@pytest.mark.parametrize(
    "given",
    [b"", b"x" * 129, b"a\tb", "größe".encode(), b"a\r\nb"],
    ids=["empty", "long", "a tab", "not ASCII", "a line break"],
)
async def test_an_invalid_id_of_the_client_is_replaced(given: bytes) -> None:
    assert request_id(await ask((b"x-request-id", given))).startswith(MADE)


async def test_two_requests_get_two_ids() -> None:
    assert request_id(await ask()) != request_id(await ask())


async def test_one_line_has_the_request_and_its_status() -> None:
    with capture_logs(processors=[_merge]) as lines:
        await ask((b"x-request-id", b"mine-1"), (b"authorization", b"Bearer secret"))
    [line] = lines
    assert line.pop("ms") >= 0
    assert line == {
        "event": "request",
        "log_level": "info",
        "method": "POST",
        "path": "/v1/responses",
        "status": 201,
        "request_id": "mine-1",
        "model": "m",
        "provider": "p",
    }
    assert read_bound_fields() == {}


def _merge(_: Any, __: str, line: Any) -> Any:
    return {**read_bound_fields(), **line}


async def test_nothing_of_the_request_it_waited_behind_is_in_its_line() -> None:
    async def refuse_all(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})

    # A server starts the next request on a connection in the context of the last.
    begin_fields(client="another", error="upstream_timeout")
    with capture_logs(processors=[_merge]) as lines:
        await ask(app=refuse_all)
    assert lines[0].keys() == {"event", "log_level", "method", "path", "status", "request_id", "ms"}


async def test_a_request_that_fails_is_logged_too() -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    with capture_logs() as lines, pytest.raises(ZeroDivisionError):
        await ask(app=fail)
    assert [line["status"] for line in lines] == [0]


async def accept(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": "{}"})


async def test_a_websocket_has_an_id_and_a_line_too() -> None:
    with capture_logs() as lines:
        head = await ask((b"x-request-id", b"mine-1"), app=accept, kind="websocket")
    assert request_id(head) == "mine-1"
    assert [(line["event"], line["status"]) for line in lines] == [("request", 101)]


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})


async def test_a_websocket_that_is_refused_has_the_status_it_was_answered() -> None:
    with capture_logs() as lines:
        head = await ask(app=refuse, kind="websocket")
    assert request_id(head).startswith(MADE)
    assert [line["status"] for line in lines] == [401]


async def test_other_scopes_are_passed_through() -> None:
    seen: list[Any] = []

    async def take(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    with capture_logs() as lines:
        scope = await ask(app=take, kind="lifespan")
    assert seen == [scope]
    assert BODY_SEND not in scope
    assert lines == []
