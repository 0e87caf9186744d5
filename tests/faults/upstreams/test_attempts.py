"""What becomes of a turn whose first upstream fails: every outcome of an attempt, on three APIs, streamed or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, Seen, client, question, read
from tests.faults.config import LONG_S, SILENCE_S, StartGateway
from tests.upstream.builders import dump, either, json_reply
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Close, Hang, Reply, Script, no_http, reset, silence
from tests.upstream.server import ScriptedUpstream, closed_port

Json = dict[str, Any]

ANSWER = ANSWERS["chat"]
TEXT = "Grüße from upstream"


@dataclass(frozen=True)
class Row:
    """One outcome. `script` is None for an upstream that does not listen."""

    script: Script | None
    moves_on: bool
    """Whether the next upstream is asked."""
    status: int
    """What the client gets if all upstreams do so."""
    code: str
    attempts: int = 2
    """The attempts until the client gets that, with two upstreams."""
    headers: Mapping[str, str] | None = None
    """Headers that the client then gets."""
    stream_code: str | None = None
    """The code for streams, if it is another one."""
    is_silent: bool = False
    """Whether a deadline ends the attempt."""


def rejected(status: int, **error: str) -> Script:
    headers = {name: error.pop(name.replace("-", "_")) for name in ("retry-after",) if name.replace("-", "_") in error}
    body = dump({"error": {"message": f"the upstream says {status}", **error}})
    return Reply(status, {"content-type": "application/json", **headers}, body, framing="length")


def in_stream(code: str) -> Script:
    """An error event before any content, and an error object in place of a JSON reply."""
    error = dump({"error": {"message": "no", "code": code}})
    return either(
        Reply(headers=ANSWER.headers, body=[ANSWER.frames[0], b"data: " + error + b"\n\n"]),
        json_reply({"error": {"message": "no", "code": code}}),
    )


ENDED = either(
    Reply(headers=ANSWER.headers, body=[ANSWER.frames[0], Close()]),
    Reply(headers={"content-type": "application/json"}, body=[ANSWER.whole[:20], Close()]),
)
STALLED = either(
    Reply(headers=ANSWER.headers, body=[ANSWER.frames[0], Hang()]),
    Reply(headers={"content-type": "application/json"}, body=[ANSWER.whole[:20], Hang()]),
)

ROWS: dict[str, Row] = {
    "connection refused": Row(None, True, 502, "upstream_unreachable", attempts=3),
    "reset before a head": Row(reset, True, 502, "upstream_unreachable"),
    "status 408": Row(rejected(408), True, 504, "upstream_timeout"),
    "status 500": Row(rejected(500), True, 502, "upstream_error"),
    "status 502": Row(rejected(502), True, 502, "upstream_error"),
    "status 504": Row(rejected(504), True, 504, "upstream_timeout"),
    "status 520": Row(rejected(520), True, 502, "upstream_error"),
    "status 503": Row(rejected(503), True, 503, "upstream_overloaded", headers={"retry-after": "1"}),
    "status 503 with a delay": Row(
        rejected(503, retry_after="7"), True, 503, "upstream_overloaded", headers={"retry-after": "7"}
    ),
    "status 529": Row(rejected(529), True, 503, "upstream_overloaded", headers={"retry-after": "1"}),
    "status 425": Row(rejected(425), True, 503, "upstream_overloaded"),
    "status 429": Row(rejected(429, retry_after="9"), True, 429, "rate_limit_exceeded", headers={"retry-after": "9"}),
    "status 429 of a quota": Row(rejected(429, code="insufficient_quota"), True, 429, "insufficient_quota"),
    "status 402": Row(rejected(402), True, 429, "insufficient_quota"),
    "status 401": Row(rejected(401), True, 502, "upstream_unauthorized"),
    "status 403": Row(rejected(403), True, 502, "upstream_unauthorized"),
    "status 404": Row(rejected(404), True, 404, "model_not_found"),
    "status 400": Row(rejected(400), False, 400, "upstream_rejected", attempts=1),
    "status 409": Row(rejected(409), False, 409, "conflict", attempts=1),
    "status 413": Row(rejected(413), False, 413, "request_too_large", attempts=1),
    "status 422": Row(rejected(422), False, 400, "upstream_rejected", attempts=1),
    "status 451": Row(rejected(451), False, 400, "upstream_rejected", attempts=1),
    "too long a prompt": Row(
        rejected(400, code="context_length_exceeded"), False, 400, "context_length_exceeded", attempts=1
    ),
    "a content filter": Row(rejected(400, code="content_filter"), False, 400, "upstream_rejected", attempts=1),
    "a page of HTML": Row(
        Reply(headers={"content-type": "text/html"}, body=b"<html>"),
        True,
        502,
        "upstream_garbled",
        stream_code="upstream_truncated",
    ),
    "no HTTP": Row(no_http, True, 502, "upstream_garbled"),
    "an overload within a reply": Row(in_stream("overloaded_error"), True, 503, "upstream_overloaded"),
    "an end before content": Row(ENDED, True, 502, "upstream_disconnected"),
    "silence before a head": Row(silence, True, 504, "upstream_timeout", is_silent=True),
    "silence before content": Row(STALLED, True, 504, "upstream_timeout", is_silent=True),
}

APIS = {"Responses": RESPONSES, "Chat": CHAT, "Messages": MESSAGES}


def shared(first: str, second: str, **routing: Any) -> Json:
    """Returns a configuration with two upstreams: the first has the chat API, the second the Responses API.

    Their deadlines end no test. `limit_silence` sets those of a test that is about silence.
    """

    def upstream(url: str, dialect: str) -> Json:
        return {
            "type": "openai_compatible",
            "base_url": url,
            "dialects": [dialect],
            "silence_s": LONG_S,
            "answer_s": LONG_S,
            "connect_s": LONG_S,
            "max_line_mb": 1,
        }

    return {
        "server": {"drain_s": 0.2},
        "providers": {"first": upstream(first, "chat"), "second": upstream(second, "responses")},
        "models": {"*": {"upstreams": [{"provider": "first"}, {"provider": "second", "tier": 1}]}},
        "routing": {"eject_s": 60, "eject_max_s": 60, **routing},
    }


def limit_silence(config: Json, *names: str, seconds: float = SILENCE_S) -> None:
    """Gives upstreams deadlines that a test waits for."""
    for name in names:
        config["providers"][name] |= {"silence_s": seconds, "answer_s": seconds}


def expect_failure(row: Row, path: str, *, stream: bool) -> tuple[int, str | None]:
    """Returns the status and code of a failure. The Messages API has other codes, and another status for overload."""
    if path != MESSAGES:
        return row.status, (row.stream_code or row.code) if stream else row.code
    return 529 if row.status == 503 else row.status, None


async def ask(url: str, path: str, *, stream: bool) -> tuple[Seen, httpx.Headers]:
    asked = question(path, stream=stream)
    async with client() as asking:
        reply = await asking.post(f"{url}{path}", json=asked)
    if reply.status_code != 200 and path != MESSAGES:  # the upstream's own code may be beside ours
        error = reply.json()["error"]
        return Seen(reply.status_code, "failed", error["code"]), reply.headers
    return read(path, reply, stream=stream), reply.headers


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_the_next_upstream_serves_what_another_may_serve(
    row: Row, path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        if row.script is not None:
            first.script(row.script)
        second.script(sound(ANSWERS["responses"]))
        first_url = first.url if row.script is not None else f"http://127.0.0.1:{closed_port()}/v1"
        config = shared(first_url, second.url)
        if row.is_silent:
            limit_silence(config, "first")
        seen, headers = await ask(gateway(config).v1, path, stream=stream)
    if row.moves_on:
        assert (seen.status, seen.text) == (200, TEXT)
        assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("second", "2")
    else:
        assert (seen.status, None if path == MESSAGES else seen.code) == expect_failure(row, path, stream=stream)
        assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("first", "1")
        assert not second.requests


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_if_all_upstreams_fail_alike_the_client_gets_that_failure(
    row: Row, path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        if row.script is not None:
            upstream.script(row.script)
        url = upstream.url if row.script is not None else f"http://127.0.0.1:{closed_port()}/v1"
        config = shared(url, url)
        config["providers"]["second"]["dialects"] = ["chat"]
        if row.is_silent:
            limit_silence(config, "first", "second")
        seen, headers = await ask(gateway(config).v1, path, stream=stream)
    assert (seen.status, None if path == MESSAGES else seen.code) == expect_failure(row, path, stream=stream)
    assert headers["x-gateway-attempts"] == str(row.attempts)
    for name, value in (row.headers or {}).items():
        assert headers[name] == value
