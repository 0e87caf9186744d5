"""Traces of real requests at a real collector: their spans, what they tell, and what they never contain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.requests import traffic
from tests.integration.tracing.collector import Collector, Span, collecting
from tests.polling import wait_until
from tests.upstream.builders import chat_text, error_reply
from tests.upstream.script import Exchange, reset
from tests.upstream.server import closed_port

Json = dict[str, Any]

TRACE_ID, CALLER_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{CALLER_ID}-01"
UNSAMPLED_PARENT = f"00-{TRACE_ID}-{CALLER_ID}-00"
COLLECTOR_KEY = "collector-key-0123456789"
SERVER = "POST /v1/responses"


class Traced(NamedTuple):
    site: traffic.Site
    collector: Collector

    async def ask(self, model: str = "one", **more: Any) -> Json:
        headers = more.pop("headers", {})
        reply = await self.site.post("/v1/responses", {"model": model, "input": traffic.PROMPT, **more}, **headers)
        return {"status": reply.status_code}


@asynccontextmanager
async def tracing(folder: Path, **settings: Any) -> AsyncIterator[Traced]:
    """Serves the site with traces. A test waits in the block for those it expects; once the block has ended, the
    collector has all of them."""
    with collecting() as collector:
        section = {"endpoint": collector.url, "sample": 1, "headers": {"x-key": COLLECTOR_KEY}, **settings}
        async with traffic.serving_site(folder, tracing=section) as site:
            yield Traced(site, collector)


def only(spans: list[Span]) -> Span:
    assert len(spans) == 1, spans
    return spans[0]


async def test_a_stream_is_a_server_span_a_turn_and_an_attempt(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        traced.site.first.script(traffic.full_answer())
        more: Json = {"stream": True, "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 50, "frobnicate": 3}
        await traced.ask(**more)
        sent = traced.site.first.requests[-1].headers
        await traced.collector.await_spans(3)
    (line,) = traced.site.read_lines()
    collector = traced.collector
    assert collector.headers[0]["x-key"] == COLLECTOR_KEY
    assert collector.resources[0]["service.name"] == "responses-gateway"
    server = only(collector.named(SERVER))
    turn = only(collector.children(server))
    attempt = only(collector.children(turn))
    assert (server.kind, turn.kind, attempt.kind) == ("server", "client", "client")
    assert (server.parent_id, server.trace_id, line["trace_id"]) == ("", turn.trace_id, server.trace_id)
    assert server.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/responses",
        "url.path": "/v1/responses",
        "http.response.status_code": 200,
        "gateway.request_id": line["request_id"],
        "gateway.key": "team",
    }
    told = dict(turn.attributes)
    assert 0 < told.pop("gen_ai.response.time_to_first_chunk") < 5
    assert told.pop("gen_ai.response.id").startswith("resp_")
    assert turn.name == "chat one"
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "one",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.response.model": "one",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 8,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "gateway.attempts": 1,
        "gateway.losses": 1,
    }
    port = int(traced.site.first.url.split(":")[2].split("/")[0])
    assert attempt.name == "POST"
    assert attempt.attributes == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": port,
        "url.full": f"{traced.site.first.url}/chat/completions",
        "http.response.status_code": 200,
        "gateway.upstream": "first",
        "gateway.attempt.result": "ok",
    }
    assert server.began <= turn.began <= attempt.began <= attempt.ended <= turn.ended <= server.ended
    assert sent["traceparent"] == f"00-{server.trace_id}-{attempt.span_id}-01"
    assert "tracestate" not in sent
    assert not any(span.is_error for span in collector.spans)


async def test_the_context_of_the_caller_goes_on(tmp_path: Path) -> None:
    async with tracing(tmp_path, sample=0) as traced:
        for parent in (
            PARENT,
            UNSAMPLED_PARENT,
            "00-nothing-at-all-01",
            f"{PARENT}-more",
            f"00-{'0' * 32}-{CALLER_ID}-01",
        ):
            traced.site.first.script(chat_text("Hi"))
            headers = {"traceparent": parent, "tracestate": "vendor=abc", "baggage": "user=anna"}
            await traced.ask(headers=headers)
        sent = [request.headers for request in traced.site.first.requests]
        await traced.collector.await_spans(3)
    lines = traced.site.read_lines()
    server = only(traced.collector.named(SERVER))
    assert (server.trace_id, server.parent_id, server.state) == (TRACE_ID, CALLER_ID, "vendor=abc")
    assert [line["trace_id"] == TRACE_ID for line in lines] == [True, True, False, False, False]
    assert [each["traceparent"][:35] == PARENT[:35] for each in sent] == [True, True, False, False, False]
    assert [each["traceparent"][-2:] for each in sent] == ["01", "00", "00", "00", "00"]
    assert [each.get("tracestate") for each in sent] == ["vendor=abc", "vendor=abc", None, None, None]
    assert not [each for each in sent if "baggage" in each]
    assert CALLER_ID not in sent[0]["traceparent"], "the upstream's parent is the attempt"


async def test_what_fails_or_is_slow_is_kept(tmp_path: Path) -> None:
    async with tracing(tmp_path, sample=0) as traced:
        first = traced.site.first
        first.script(chat_text("Hi"))
        await traced.ask()
        first.script(error_reply(500, "no"))
        await traced.ask(model="one")
        await traced.ask(temperature="hot")
        await traced.ask(model="gone", stream=True)
        await traced.ask(model="gone", headers={"traceparent": UNSAMPLED_PARENT})
        await traced.collector.await_spans(6)
    kept = traced.collector.named(SERVER)
    assert [span.attributes["http.response.status_code"] for span in kept] == [502, 502]
    assert [span.attributes["error.type"] for span in kept] == ["upstream_error", "upstream_unreachable"]
    assert all(span.is_error for span in traced.collector.spans)
    failed = [traced.collector.children(only(traced.collector.children(span)))[0] for span in kept]
    assert [span.attributes["error.type"] for span in failed] == ["500", "unreachable"]
    assert [span.attributes["gateway.attempt.result"] for span in failed] == ["server_error", "unreachable"]


async def test_a_request_that_takes_longer_is_kept(tmp_path: Path) -> None:
    async with tracing(tmp_path, sample=0, slow_s=0.000001) as traced:
        traced.site.first.script(chat_text("Hi"))
        await traced.ask()
        await traced.collector.await_spans(3)
    assert only(traced.collector.named(SERVER))


async def test_a_fallback_is_a_second_attempt_of_the_turn(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        traced.site.second.script(chat_text("Hi"))
        await traced.ask(model="both", prompt_cache_key=traffic.CACHE_KEY, stream=True)
        await traced.collector.await_spans(4)
    turn = only(traced.collector.children(only(traced.collector.named(SERVER))))
    first, second = traced.collector.children(turn)
    assert (turn.attributes["gateway.attempts"], turn.attributes["gateway.affinity"]) == (2, "prompt_cache_key")
    assert [span.attributes["gateway.upstream"] for span in (first, second)] == ["gone", "second"]
    assert [span.attributes["gateway.attempt.result"] for span in (first, second)] == ["unreachable", "ok"]
    assert [span.attributes.get("http.request.resend_count") for span in (first, second)] == [None, 1]
    assert [span.is_error for span in (turn, first, second)] == [False, True, False]


@pytest.mark.parametrize("model", ["one", "both"])
async def test_each_round_of_tools_is_a_turn_with_its_calls_beside_it(tmp_path: Path, model: str) -> None:
    async with tracing(tmp_path) as traced:
        await traffic.ask_with_tools(traced.site)
        await traced.collector.await_spans(17)
    server = next(span for span in traced.collector.named(SERVER) if _model_of(traced.collector, span) == model)
    parts = traced.collector.children(server)
    turns = [span for span in parts if span.name == f"chat {model}"]
    call = only([span for span in parts if span.name.startswith("execute_tool")])
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in turns] == [["tool_calls"], ["stop"]]
    assert call.name == "execute_tool look_up"
    assert (call.kind, call.attributes["gen_ai.tool.name"]) == ("internal", "look_up")
    assert turns[0].ended <= call.began <= call.ended <= turns[1].began
    assert [len(traced.collector.children(turn)) >= 1 for turn in turns] == [True, True]


def _model_of(collector: Collector, server: Span) -> str:
    turns = [span for span in collector.children(server) if span.name.startswith("chat ")]
    return turns[0].name.removeprefix("chat ") if len(turns) > 1 else ""


async def test_jobs_are_part_of_the_trace_of_their_request(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        await traffic.run_jobs(traced.site)
        await traced.collector.await_spans(12)
    lines = traced.site.read_lines()
    jobs = traced.collector.named("background /v1/responses")
    submissions = {span.span_id: span for span in traced.collector.named(SERVER)}
    assert len(jobs) == 3
    for job in jobs:
        assert job.parent_id in submissions
        assert job.kind == "internal"
        assert only(traced.collector.children(job)).name == "chat one"
    assert {line["trace_id"] for line in lines if line["message"] == "job"} == {job.trace_id for job in jobs}


async def test_a_job_that_ends_while_the_server_stops_has_its_spans(tmp_path: Path) -> None:
    async def answer_late(exchange: Exchange) -> None:
        await wait_until(lambda: "server_stopping" in traced.site.gateway.read_log())
        await traffic.full_answer()(exchange)

    async with tracing(tmp_path) as traced:
        traced.site.first.script(answer_late)
        await traced.ask(background=True)
        await wait_until(lambda: len(traced.site.first.requests) == 1)
        traced.site.gateway.process.terminate()
        await traced.collector.await_spans(1, "background /v1/responses")
    (job,) = traced.collector.named("background /v1/responses")
    assert only(traced.collector.children(job)).name == "chat one"


async def test_turns_over_a_websocket_have_traces(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        await traffic.talk(traced.site, traceparent=PARENT)
        await traced.collector.await_spans(3)
    good, refused = traced.collector.named("WEBSOCKET /v1/responses")
    assert (good.trace_id, good.parent_id, good.kind) == (TRACE_ID, CALLER_ID, "server")
    assert only(traced.collector.children(good)).name == "chat one"
    assert refused.attributes["http.response.status_code"] == 404


async def test_paths_that_are_only_relayed_have_their_operations(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        await traffic.ask_other_paths(traced.site)
        await traced.collector.await_spans(6)
    turn = only(traced.collector.named("embeddings one"))
    assert turn.attributes["gen_ai.operation.name"] == "embeddings"
    assert turn.attributes["gen_ai.usage.input_tokens"] == 3
    assert only(traced.collector.children(turn)).attributes["url.full"].endswith("/embeddings")
    assert not [span for span in traced.collector.spans if "/models" in span.name]


async def test_no_span_has_content_a_key_or_a_header(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        traced.site.client.headers["x-marker"] = "header-marker"
        for ask in traffic.ALL:
            await ask(traced.site)
        await traced.collector.await_spans(120)
    assert len(traced.collector.spans) > 50
    markers = (traffic.PROMPT, traffic.TEXT, traffic.RESULT, traffic.ARGUMENT, traffic.CACHE_KEY)
    secrets = (traffic.KEY, traffic.UNKNOWN_KEY, "openrouter-secret-1", "header-marker", COLLECTOR_KEY)
    assert [each for each in (*markers, *secrets) if each.encode() in traced.collector.raw] == []
    assert {span.attributes.get("gen_ai.provider.name") for span in traced.collector.spans} == {
        None,
        "openai_compatible",
        "openrouter",
    }


async def test_only_upstreams_of_the_operator_are_told_the_trace(tmp_path: Path) -> None:
    async with tracing(tmp_path) as traced:
        traced.site.second.script(chat_text("Hi"))
        await traced.ask(model="routed")
        traced.site.first.script(chat_text("Hi"))
        await traced.ask()
    assert "traceparent" not in traced.site.second.requests[-1].headers
    assert "traceparent" in traced.site.first.requests[-1].headers


async def test_a_dead_collector_costs_nothing_but_drops(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{closed_port()}"
    async with traffic.serving_site(tmp_path, tracing={"endpoint": dead, "sample": 1}) as site:
        for _ in range(20):
            site.first.script(chat_text("Hi"))
            reply = await site.post("/v1/responses", {"model": "one", "input": "Hello", "store": False})
            assert reply.status_code == 200
        site.first.script(reset)
        assert (await site.post("/v1/responses", {"model": "one", "input": "Hello"})).status_code == 502
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 10
    assert all(line["level"] != "error" for line in site.gateway.read_log_lines())


async def test_without_the_section_no_context_is_sent(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path) as site:
        site.first.script(chat_text("Hi"))
        reply = await site.post("/v1/responses", {"model": "one", "input": "Hello"}, traceparent=PARENT)
        assert reply.status_code == 200
        assert not {"traceparent", "tracestate", "baggage"} & site.first.requests[-1].headers.keys()
