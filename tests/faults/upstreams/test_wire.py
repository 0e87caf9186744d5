"""After any fault of an upstream on the wire, the client gets a correct reply or one failure with a code, and the next
request gets its answer.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import NamedTuple

import orjson
import pytest

from tests.faults.client_view import CHAT, RESPONSES, Seen, ask, ask_with, client, question
from tests.faults.config import KEY, LONG_S, SILENCE_S, StartGateway, config
from tests.faults.routes import GEMINI_ROUTES, MESSAGES_ROUTES, NATIVE_ROUTES, OLLAMA_ROUTES, ROUTES
from tests.polling import PROMPT_S
from tests.upstream import Reply, ScriptedUpstream, closed_port, error_reply, reset
from tests.upstream.builders import DONE, chat_chunk, data_frame, sse_reply, text_chunks
from tests.upstream.faults import ANSWERS, TEXT, WIRE_FAULTS, sound
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.script import Hang, Pause

WHOLE_TEXT = "".join(TEXT)
WAYS = ROUTES | NATIVE_ROUTES | MESSAGES_ROUTES | OLLAMA_ROUTES | GEMINI_ROUTES
DIALECTS = sorted({dialect for _, dialect in WAYS.values()})


class Expected(NamedTuple):
    """Expected results by the form of the reply. A stream that fails after its text began must have sent that text."""

    streamed: Seen
    whole: Seen


def completes(text: str = WHOLE_TEXT) -> Seen:
    return Seen(200, "completed", None, text)


def refused(status: int, code: str) -> Seen:
    return Seen(status, "refused", code)


def fails(code: str, text: str = WHOLE_TEXT) -> Seen:
    return Seen(200, "failed", code, text)


DISCONNECTED = refused(502, "upstream_disconnected")
UNREACHABLE = refused(502, "upstream_unreachable")
GARBLED = refused(502, "upstream_garbled")
TRUNCATED = refused(502, "upstream_truncated")
TIMED_OUT = refused(504, "upstream_timeout")
LIMITED = refused(429, "rate_limit_exceeded")
FINE = completes()


def always(seen: Seen) -> Expected:
    return Expected(seen, seen)


def answers(upstream: int, ours: int, code: str) -> tuple[str, Expected]:
    return f"answers {upstream}", always(refused(ours, code))


OUTCOMES: dict[str, Expected] = {
    "accepts and sends nothing": always(TIMED_OUT),
    "resets before the headers": always(UNREACHABLE),
    "resets after the headers": always(DISCONNECTED),
    "resets between two frames": Expected(fails("upstream_disconnected"), DISCONNECTED),
    "resets in the middle of JSON": Expected(fails("upstream_disconnected"), DISCONNECTED),
    "resets inside a UTF-8 character": Expected(DISCONNECTED, FINE),
    "resets inside an HTTP chunk": always(DISCONNECTED),
    "falls silent in the middle": Expected(fails("upstream_timeout"), TIMED_OUT),
    "drips slower than it may": always(TIMED_OUT),
    "ends the body in the middle of JSON": Expected(fails("upstream_truncated"), GARBLED),
    "closes without ending the body": Expected(fails("upstream_disconnected"), DISCONNECTED),
    "ends without a finish reason": Expected(fails("upstream_truncated"), FINE),
    "ends without saying done": always(FINE),
    "says done without a finish reason": Expected(fails("upstream_truncated"), FINE),
    "says done twice": always(FINE),
    "goes on after done": always(FINE),
    "stays open after done": always(FINE),
    "ends lines with CRLF": always(FINE),
    "ends lines with CR": always(FINE),
    "mixes line ends": always(FINE),
    "sends single bytes with CRLF": always(FINE),
    "starts with a byte order mark": always(FINE),
    "sends comments and other fields": always(FINE),
    "puts JSON on several data lines": always(FINE),
    "leaves no space after the colon": always(FINE),
    "sends a line without an end": Expected(GARBLED, FINE),
    "sends many empty deltas": always(FINE),
    "sends bytes that are not UTF-8": Expected(GARBLED, FINE),
    "sends something that is not JSON": always(GARBLED),
    "compresses unasked": always(FINE),
    "sends a gzip bomb": always(GARBLED),
    "sends a page of HTML": Expected(TRUNCATED, GARBLED),
    "sends an empty body": Expected(TRUNCATED, GARBLED),
    "puts an error inside a 200": Expected(fails("rate_limit_exceeded"), LIMITED),
    "redirects": always(refused(502, "upstream_error")),
    "confuses JSON and a stream": always(FINE),
    "labels the body wrongly": Expected(GARBLED, TRUNCATED),
    "lies about the size of a chunk": Expected(fails("upstream_disconnected"), DISCONNECTED),
    "promises more than it sends": Expected(fails("upstream_disconnected"), DISCONNECTED),
    "promises less than it sends": Expected(fails("upstream_truncated", "".join(TEXT[:2])), GARBLED),
    **dict(
        [
            answers(400, 400, "upstream_rejected"),
            answers(401, 502, "upstream_unauthorized"),
            answers(403, 502, "upstream_unauthorized"),
            answers(404, 404, "model_not_found"),
            answers(408, 504, "upstream_timeout"),
            answers(409, 409, "conflict"),
            answers(413, 413, "request_too_large"),
            answers(422, 400, "upstream_rejected"),
            answers(500, 502, "upstream_error"),
            answers(502, 502, "upstream_error"),
            answers(503, 503, "upstream_overloaded"),
            answers(504, 504, "upstream_timeout"),
            answers(529, 503, "upstream_overloaded"),
        ]
    ),
    "answers 429 with seconds to wait": always(LIMITED),
    "answers 429 with a date to wait for": always(LIMITED),
}

# Cases in which a relay differs: it parses fewer frames than a translation, and relays a JSON reply unchanged.
ON_RELAYS: dict[tuple[str, str], Expected] = {
    ("Responses relayed", "resets inside a UTF-8 character"): Expected(fails("upstream_disconnected", ""), FINE),
    ("Responses relayed", "sends bytes that are not UTF-8"): Expected(fails("upstream_garbled", ""), FINE),
    ("chat relayed", "labels the body wrongly"): Expected(GARBLED, FINE),
    ("Responses relayed", "labels the body wrongly"): Expected(GARBLED, FINE),
    ("Messages relayed", "labels the body wrongly"): Expected(GARBLED, FINE),
}

# Where a stream is lines of JSON and no events: a line ends in LF or CRLF, and holds nothing else.
ON_LINES: dict[str, Expected] = {
    "says done without a finish reason": Expected(fails("upstream_garbled"), FINE),
    "ends lines with CR": Expected(TRUNCATED, FINE),
    "sends comments and other fields": Expected(GARBLED, FINE),
    "puts JSON on several data lines": Expected(GARBLED, FINE),
    "labels the body wrongly": Expected(GARBLED, FINE),
}


# If only the end of the body ends a stream, all of it is the answer.
ON_BODIES: dict[str, Expected] = {"goes on after done": Expected(completes(WHOLE_TEXT + TEXT[2]), FINE)}


ERROR_TYPES = {
    "conflict": "invalid_request_error",
    "model_not_found": "not_found_error",
    "rate_limit_exceeded": "rate_limit_error",
    "request_too_large": "request_too_large",
    "upstream_overloaded": "overloaded_error",
    "upstream_rejected": "invalid_request_error",
    "upstream_timeout": "timeout_error",
}
"""Types of the Messages API by code. It has no codes, and the server's own failures have the type `api_error`."""


def in_messages(seen: Seen) -> Seen:
    """An outcome as a client of the Messages API sees it."""
    code = None if seen.code is None else ERROR_TYPES.get(seen.code, "api_error")
    return replace(seen, code=code, status=529 if seen.status == 503 else seen.status)


def in_ollama(seen: Seen) -> Seen:
    """An outcome as a client of Ollama's API sees it, whose failures are messages without a code."""
    return replace(seen, code=None)


def expected_of(route: str, fault: str) -> Expected:
    if route in OLLAMA_ROUTES:
        return Expected(*map(in_ollama, expected_in_order(route, fault)))
    if route not in MESSAGES_ROUTES:
        return expected_in_order(route, fault)
    return Expected(*map(in_messages, expected_in_order(route, fault)))


CROWD_SILENCE_S = 8.0
"""In which all requests that are sent at once have been answered, on a busy machine too."""


def expected_in_order(route: str, fault: str) -> Expected:
    if WAYS[route][1] == "gemini" and fault in ON_BODIES:
        return ON_BODIES[fault]
    if WAYS[route][1] == "ollama" and fault in ON_LINES:
        return ON_LINES[fault]
    return ON_RELAYS.get((route, fault), OUTCOMES[fault])


def test_every_wire_fault_has_an_outcome() -> None:
    assert OUTCOMES.keys() == WIRE_FAULTS.keys()


@pytest.mark.parametrize("fault", WIRE_FAULTS)
async def test_an_upstream_that(fault: str, gateway: StartGateway) -> None:
    expected = {
        f"{route}, {form}": seen for route in WAYS for form, seen in expected_of(route, fault)._asdict().items()
    }
    async with AsyncExitStack() as open_upstreams:
        upstreams = {dialect: await open_upstreams.enter_async_context(ScriptedUpstream()) for dialect in DIALECTS}
        for dialect, upstream in upstreams.items():
            upstream.script(WIRE_FAULTS[fault](ANSWERS[dialect]))
        has_timed_out = any(seen.code in ("upstream_timeout", "timeout_error") for seen in expected.values())
        is_silent = has_timed_out and not fault.startswith("answers ")
        serving = gateway(every_dialect(upstreams, CROWD_SILENCE_S if is_silent else LONG_S))
        assert await ask_every_way(serving.v1) == expected
        for dialect, upstream in upstreams.items():
            upstream.script(sound(ANSWERS[dialect]))
        assert await ask_every_way(serving.v1) == dict.fromkeys(expected, completes()), (
            "the next requests are unaffected"
        )


def every_dialect(upstreams: Mapping[str, ScriptedUpstream], silence_s: float) -> dict:
    """Each upstream, by the name of its dialect."""
    configs = {
        dialect: config(upstream.url, dialect, silence_s=silence_s, answer_s=silence_s)
        for dialect, upstream in upstreams.items()
    }
    return {
        **configs["chat"],
        "providers": {dialect: each["providers"]["upstream"] for dialect, each in configs.items()},
        "models": {dialect: {"provider": dialect} for dialect in configs},
    }


async def ask_every_way(base_url: str) -> dict[str, Seen]:
    """Sends a request to every route, streaming and not, all at once."""
    async with client() as asking:
        ways = {
            f"{route}, {form}": ask_with(asking, base_url, path, stream=form == "streamed", model=dialect)
            for route, (path, dialect) in WAYS.items()
            for form in ("streamed", "whole")
        }
        return dict(zip(ways, await asyncio.gather(*ways.values()), strict=True))


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize(("retries", "expected"), [(0, UNREACHABLE), (1, FINE)], ids=["once", "twice"])
async def test_a_connection_that_breaks_before_the_reply_is_retried_as_configured(
    path: str, stream: bool, retries: int, expected: Seen, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(reset, sound(CHAT_ANSWER))
        serving = gateway(config(upstream.url, "chat", retries=retries))
        assert await ask(serving.v1, path, stream=stream) == expected
        assert len(upstream.requests) == 1 + retries


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_an_upstream_that_does_not_listen_is_unreachable(path: str, stream: bool, gateway: StartGateway) -> None:
    serving = gateway(config(f"http://127.0.0.1:{closed_port()}/v1", "chat"))
    assert await ask(serving.v1, path, stream=stream) == UNREACHABLE


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
async def test_an_upstream_without_tls_is_unreachable(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(config(upstream.url.replace("http://", "https://"), "chat"))
        assert await ask(serving.v1, path, stream=True) == UNREACHABLE


@pytest.mark.parametrize("wait", ["7", "Fri, 31 Dec 2100 23:59:59 GMT"], ids=["seconds", "a date"])
async def test_the_retry_delay_is_forwarded(wait: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(error_reply(429, "slow down", headers={"retry-after": wait}))
        serving = gateway(config(upstream.url, "chat"))
        async with client() as asking:
            reply = await asking.post(serving.v1 + CHAT, json=question(CHAT, stream=True))
        assert reply.headers["retry-after"] == wait


async def test_a_redirect_is_not_followed_and_the_key_is_sent_nowhere_else(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, ScriptedUpstream() as elsewhere:
        upstream.script(Reply(307, {"location": elsewhere.url + "/chat/completions"}, framing="length"))
        elsewhere.script(sound(CHAT_ANSWER))
        serving = gateway(config(upstream.url, "chat"))
        await ask(serving.v1, CHAT, stream=True)
        assert not elsewhere.requests


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_neither_the_key_nor_the_address_of_the_upstream_reaches_a_client(
    status: int, path: str, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(error_reply(status, f"Incorrect API key provided: {KEY} at {upstream.url}/chat/completions"))
        serving = gateway(config(upstream.url, "chat"))
        async with client() as asking:
            reply = await asking.post(serving.v1 + path, json=question(path, stream=True))
        assert reply.status_code != 401
        assert KEY not in reply.text
        assert str(upstream.port) not in reply.text


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
@pytest.mark.parametrize("fault", ["accepts and sends nothing", "falls silent in the middle", "stays open after done"])
async def test_an_abandoned_connection_is_closed(fault: str, path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(WIRE_FAULTS[fault](CHAT_ANSWER))
        serving = gateway(config(upstream.url, "chat", silence_s=SILENCE_S))
        await ask(serving.v1, path, stream=True)
        async with asyncio.timeout(PROMPT_S):
            await upstream.requests[0].closed


async def test_a_stream_whose_end_has_no_usage_waits_a_moment_for_it_and_no_longer(gateway: StartGateway) -> None:
    heard = asyncio.Event()
    *said, end = [data_frame(chunk) for chunk in text_chunks(*TEXT) if chunk["choices"] and not chunk.get("usage")]
    async with ScriptedUpstream() as upstream:
        upstream.script(sse_reply(*said, Pause(heard), end, DONE, Hang()))
        serving = gateway(config(upstream.url, "chat", silence_s=LONG_S))
        body = bytearray()
        async with (
            asyncio.timeout(LONG_S / 5),
            client() as asking,
            asking.stream("POST", serving.v1 + RESPONSES, json=question(RESPONSES, stream=True)) as reply,
        ):
            async for read in reply.aiter_bytes():
                body += read
                if b"output_text.delta" in body:
                    heard.set()
        assert b"response.completed" in body


async def test_interleaved_texts_keep_their_places_however_they_are_split(gateway: StartGateway) -> None:
    turns = ["content"] * 3 + ["reasoning_content"] * 3 + ["content"] * 3 + ["reasoning_content"] * 3
    deltas = [chat_chunk({field: f"{at} "}) for at, field in enumerate(turns)]
    opening, end = (
        data_frame(chat_chunk({"role": "assistant", "content": ""})),
        data_frame(chat_chunk(finish_reason="stop")),
    )
    heard = [asyncio.Event() for _ in deltas]
    one_by_one = [step for delta, told in zip(deltas, heard, strict=True) for step in (data_frame(delta), Pause(told))]
    async with ScriptedUpstream() as upstream:
        upstream.script(sse_reply(opening, *one_by_one, end, DONE))
        serving = gateway(config(upstream.url, "chat", silence_s=LONG_S))
        told: list[tuple[str, int, str]] = []
        async with (
            asyncio.timeout(LONG_S / 5),
            client() as asking,
            asking.stream("POST", serving.v1 + RESPONSES, json=question(RESPONSES, stream=True)) as reply,
        ):
            async for line in reply.aiter_lines():
                event = orjson.loads(line[6:]) if line.startswith("data: {") else {}
                if event.get("type", "").endswith(".delta"):
                    heard[len(told)].set()
                    told.append((event["type"].split(".")[1], event["output_index"], event["delta"]))
                elif event.get("type") == "response.completed":
                    output = event["response"]["output"]
    assert told == [
        ("reasoning_text" if field == "reasoning_content" else "output_text", at // 3, f"{at} ")
        for at, field in enumerate(turns)
    ]
    texts = ["".join(part["text"] for part in item.get("content") or item["summary"]) for item in output]
    assert texts == ["0 1 2 ", "3 4 5 ", "6 7 8 ", "9 10 11 "]
