"""A provider reads a reply by its content type, not by the requested form."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from providers import errors
from providers.base import Capabilities, Dialect
from providers.capabilities import CAPABILITIES
from providers.config import ProviderConfig
from providers.http.exchange import HttpProvider
from providers.http.upstream import Upstream
from tests.unit.support.translator_drivers import collect
from tests.upstream.builders import CHAT_USAGE, DONE, chat_chunk, data_frame, dump, text_chunks, whole_chat
from tests.upstream.faults import CHAT, RESPONSES, TEXT
from translation.errors import InvalidRequest
from translation.representation.events import Delta, Event, Failed, Finished
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

SSE, JSON = "text/event-stream; charset=utf-8", "application/json"
URL = "http://engine.internal:8000/v1"


class Body(httpx.AsyncByteStream):
    """A body in pieces; an exception breaks it off."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def provider(body: Body, content_type: str, dialect: Dialect = "chat", **config: Any) -> HttpProvider:
    settings = ProviderConfig.model_validate({"type": "vllm", "base_url": URL, **config})
    headers = {"content-type": content_type} if content_type else {}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=body))
    return HttpProvider(Upstream("engine", settings, URL, transport), CAPABILITIES["vllm"], dialect)


async def events(asked: HttpProvider, *, stream: bool = True) -> list[Event]:
    exchange = asked.prepare(Turn(model="m", items=[], instructions="Hi", stream=stream), DEFAULT_PROFILE)
    return [event async for batch in exchange.batches() for event in batch]


def text_of(told: list[Event]) -> str:
    return "".join(event.text for event in told if isinstance(event, Delta))


@pytest.mark.parametrize(("dialect", "answer"), [("chat", CHAT), ("responses", RESPONSES)])
@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for an answer"])
@pytest.mark.parametrize("content_type", [SSE, JSON, ""], ids=["a stream", "an answer", "what was asked for"])
async def test_either_form_is_understood(dialect: Dialect, answer: Any, stream: bool, content_type: str) -> None:
    streams = content_type == SSE or (not content_type and stream)
    body = Body(answer.stream if streams else answer.whole)
    told = await events(provider(body, content_type, dialect), stream=stream)
    assert text_of(told) == "".join(TEXT)
    assert isinstance(told[-1], Finished)
    assert body.closed


USAGE = data_frame(chat_chunk({}, usage=CHAT_USAGE) | {"choices": []})
PLAIN = b"".join(data_frame(chunk) for chunk in text_chunks("Hello") if not chunk.get("usage"))

LATE: dict[str, tuple[list[bytes | Exception], int | None]] = {
    "usage after it": ([PLAIN, DONE, USAGE], 9),
    "usage in the same read": ([PLAIN + DONE + USAGE], 9),
    "more text after it": ([PLAIN, DONE, data_frame(chat_chunk({"content": "more"}))], None),
    "a break after it": ([PLAIN, DONE, httpx.ReadError("no")], None),
    "nonsense after it": ([PLAIN, DONE, b"data: " + b"0" * 2_000_000], None),
}


@pytest.mark.parametrize(("pieces", "input_tokens"), LATE.values(), ids=LATE)
async def test_after_done_only_usage_counts(pieces: list[bytes | Exception], input_tokens: int | None) -> None:
    told = await events(provider(Body(*pieces), SSE, max_line_mb=1))
    assert text_of(told) == "Hello"
    assert isinstance(told[-1], Finished)
    if input_tokens is not None:
        assert told[-1].usage is not None
        assert told[-1].usage.input == input_tokens


GARBLED = {
    "a frame that is not JSON": b"data: {not json}\n\n",
    "a frame that is a number": b"data: 7\n\n",
    "choices that are no list": data_frame({"id": "x", "object": "chat.completion.chunk", "choices": 7}),
    "an error nested too deep": b'data: {"error":{"code":' + b"[" * 990 + b"]" * 990 + b"}}\n\n",
    "a detail nested too deep": b'data: {"detail":' + b"[" * 990 + b"]" * 990 + b"}\n\n",
    "a frame without an end": b"data: " + b"0" * 2_000_000,
}


@pytest.mark.parametrize("content", GARBLED.values(), ids=GARBLED)
async def test_data_outside_the_protocol_is_garbled(content: bytes) -> None:
    with pytest.raises(errors.UpstreamGarbled) as failure:
        await events(provider(Body(content), SSE, max_line_mb=1))
    assert failure.value.provider == "engine"


async def test_a_reply_outside_the_protocol_is_garbled() -> None:
    with pytest.raises(errors.UpstreamGarbled):
        await events(provider(Body(dump({"choices": 7})), JSON), stream=False)
    deep = b'{"choices":[{"message":{"content":' + b"[" * 990 + b"]" * 990 + b"}}]}"
    with pytest.raises(errors.UpstreamGarbled):
        await events(provider(Body(deep), JSON), stream=False)


async def test_a_failure_in_the_stream_ends_it_and_reveals_no_secret() -> None:
    broken = data_frame({"error": {"message": f"boom at {URL} with key-of-upstream"}})
    body = Body(PLAIN[:-1], b"\n" + broken, data_frame(chat_chunk({"content": "more"})))
    *_, last = await events(provider(body, SSE, api_key="key-of-upstream"))
    assert isinstance(last, Failed)
    assert last.message == "boom at [hidden] with [hidden]"
    assert body.closed


async def test_a_last_frame_without_its_blank_line_counts() -> None:
    told = await events(provider(Body(PLAIN.rstrip(b"\n")), SSE))
    assert text_of(told) == "Hello"
    assert isinstance(told[-1], Finished)


async def test_a_last_frame_that_is_cut_is_a_truncation() -> None:
    *_, last = await events(provider(Body(PLAIN[: len(PLAIN) // 2]), SSE))
    assert isinstance(last, Failed)
    assert last.code == "upstream_truncated"


async def test_a_relay_stops_reading_after_done() -> None:
    body = Body(PLAIN, DONE, b": more\n\n")
    relay = provider(body, SSE).prepare_relay("chat", {})
    assert b"".join([read async for read in relay.reads()]) == PLAIN + DONE
    assert body.closed


async def test_a_relay_converts_a_json_reply_to_the_requested_stream() -> None:
    relay = provider(Body(CHAT.whole), JSON).prepare_relay("chat", {})
    [stream] = [read async for read in relay.reads()]
    assert stream.endswith(DONE)
    assert "".join(TEXT).encode() in stream


@pytest.mark.parametrize(
    ("content", "content_type", "is_stream"),
    [(CHAT.whole, JSON, False), (CHAT.whole, SSE, False), (CHAT.stream, SSE, True)],
    ids=["an answer", "an answer that says it is a stream", "a stream"],
)
async def test_a_relay_returns_the_form_that_the_upstream_sent(
    content: bytes, content_type: str, is_stream: bool
) -> None:
    answer = await provider(Body(content), content_type).prepare_relay("chat", {}).fetch_body()
    assert isinstance(answer, bytes) == is_stream


@pytest.mark.parametrize("stream", [True, False], ids=["asked for a stream", "asked for an answer"])
async def test_an_error_in_a_good_status_is_raised_by_a_relay(stream: bool) -> None:
    body = Body(dump({"error": {"message": "slow", "code": "rate_limit_exceeded"}}))
    relay = provider(body, JSON).prepare_relay("chat", {})
    with pytest.raises(errors.UpstreamRateLimited):
        _ = [read async for read in relay.reads()] if stream else await relay.fetch_body()


async def test_an_upstream_without_a_model_list_is_not_queried() -> None:
    settings = ProviderConfig.model_validate({"type": "vllm", "base_url": URL})
    upstream = Upstream("engine", settings, URL, httpx.MockTransport(lambda _: httpx.Response(500)))
    assert await HttpProvider(upstream, Capabilities(), "chat").list_models() == []


SWITCHED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "by our switch": ({"thinking_switch": "chat_template_kwargs"}, {"thinking": False}),
    "by OpenRouter's": ({"thinking_switch": "reasoning_enabled"}, {"thinking": False}),
    "by a type": ({"thinking_switch": "thinking_type"}, {"thinking": False}),
    "by an effort": ({}, {"reasoning": {"effort": "none"}}),
    "by an effort in an object": ({"effort_field": "reasoning"}, {"reasoning": {"effort": "none"}}),
    "by the template's own": (
        {"extra_params": frozenset({"chat_template_kwargs"})},
        {"extra": {"chat_template_kwargs": {"enable_thinking": False}}},
    ),
}


@pytest.mark.parametrize(("habits", "params"), SWITCHED.values(), ids=SWITCHED)
async def test_a_reply_with_thinking_disabled_is_all_answer(habits: Any, params: Any) -> None:
    profile = Profile(parsing_format="think_tags", think_open=True, **habits)
    turn = Turn(model="m", items=[], instructions="Hi", stream=False, **params)
    exchange = provider(Body(dump(whole_chat("yes"))), JSON).prepare(turn, profile)
    (item,) = collect([event async for batch in exchange.batches() for event in batch])
    assert item["type"] == "message"


def test_arguments_of_the_template_that_are_no_object_are_refused() -> None:
    profile = Profile(extra_params=frozenset({"chat_template_kwargs"}))
    turn = Turn(model="m", items=[], instructions="Hi", extra={"chat_template_kwargs": "x"})
    with pytest.raises(InvalidRequest) as refused:
        provider(Body(), JSON).prepare(turn, profile)
    assert refused.value.param == "chat_template_kwargs"


WORDS = data_frame(chat_chunk({"content": "a stream ends with data: [DONE] on a line"}))


@pytest.mark.parametrize("cut", range(0, len(WORDS), 7))
async def test_an_answer_may_contain_done_on_a_relay(cut: int) -> None:
    rest = data_frame(chat_chunk({"content": "!"})) + data_frame(chat_chunk({}, finish_reason="stop")) + DONE
    body = Body(WORDS[:cut], WORDS[cut:], rest[:-10], rest[-10:], b"never read on")
    relay = provider(body, SSE).prepare_relay("chat", {"model": "m"})
    reads = b"".join([read async for read in relay.reads()])
    assert reads == WORDS + rest
