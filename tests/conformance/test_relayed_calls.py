"""Calls on relays, over sockets: their ids, arguments, outputs and halves, as on routes that are translated."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.databases import ready_sqlite
from tests.serving import command, serving
from tests.unit.support.stream_checks.responses_order import check_stream, read_stream
from tests.unit.translation.responses.relaying.test_calls import call_events, items_of
from tests.upstream import Script, ScriptedUpstream, chat_chunk, chat_json, chat_sse, chat_text
from tests.upstream.builders import either, json_reply, response_snapshot, responses_sse, responses_text, text_events

Json = dict[str, Any]

FUNCTION: Json = {"name": "f0", "parameters": {"type": "object"}}
CHAT_ASKED: Json = {"model": "m", "tools": [{"type": "function", "function": FUNCTION}]}
RESPONSES_ASKED: Json = {"model": "m", "tools": [{"type": "function", **FUNCTION}]}
USER: Json = {"role": "user", "content": "Hi"}
BROKEN = "the arguments are not valid JSON"
FORMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
RELAYS = pytest.mark.parametrize("dialect", ["chat", "responses"])


def config(url: str, dialect: str, store: str | None = None, **model: Any) -> Json:
    provider = {"type": "openai_compatible", "base_url": url, "api_key": "k", "retries": 0, "dialects": [dialect]}
    return {
        "providers": {"up": provider},
        "models": {"m": {"provider": "up", **model}},
        "store": {"url": store},
    }


@asynccontextmanager
async def gateway(
    dialect: str, store: str | None = None, **model: Any
) -> AsyncIterator[tuple[ScriptedUpstream, httpx.AsyncClient]]:
    async with ScriptedUpstream() as upstream:
        with serving(config(upstream.url, dialect, store, **model)) as served:
            async with httpx.AsyncClient(base_url=served.v1, timeout=60, verify=False, trust_env=False) as client:
                yield upstream, client


def chat_calls(*calls: tuple[str, str]) -> Script:
    """Calls as (id, arguments), the arguments in two pieces where they are streamed."""
    chunks: list[Json] = []
    whole: list[Json] = []
    for index, (call_id, text) in enumerate(calls):
        begun = {"id": call_id, "type": "function", "function": {"name": "f0", "arguments": text[:2]}}
        chunks.append(chat_chunk({"tool_calls": [{"index": index, **begun}]}))
        chunks.append(chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": text[2:]}}]}))
        whole.append({**begun, "function": {"name": "f0", "arguments": text}})
    return either(
        chat_sse([*chunks, chat_chunk({}, "tool_calls")]), chat_json(finish_reason="tool_calls", tool_calls=whole)
    )


def responses_calls(*calls: tuple[str, str]) -> Script:
    made = [
        each for index, (call_id, text) in enumerate(calls) for each in call_events(index, call_id, text[:2], text[2:])
    ]
    whole = response_snapshot("completed", items_of(made))
    beginning = text_events()[:2]
    return either(
        responses_sse([*beginning, *made, {"type": "response.completed", "response": whole}]), json_reply(whole)
    )


CALLS = {"chat": chat_calls, "responses": responses_calls}
TEXT = {"chat": chat_text("3"), "responses": responses_text("3")}
PATHS = {"chat": "/chat/completions", "responses": "/responses"}


async def ask(client: httpx.AsyncClient, dialect: str, items: list[Json], *, stream: bool, **more: Any) -> Json:
    """The answer as one object: a stream is added up, as official clients do it."""
    body = {**CHAT_ASKED, "messages": items} if dialect == "chat" else {**RESPONSES_ASKED, "input": items}
    reply = await client.post(PATHS[dialect], json={**body, "stream": stream, **more})
    assert reply.status_code == 200, reply.text
    if not stream:
        return {**reply.json(), "loss": reply.headers.get("x-gateway-loss")}
    if dialect == "responses":
        return dict(check_stream(reply.content)[-1]["response"])
    return _added_up(reply.text)


def _added_up(stream: str) -> Json:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    calls: dict[int, Json] = {}
    told: Json = {}
    for chunk in map(orjson.loads, lines):
        told |= {key: value for key, value in chunk.items() if key == "tool_warnings"}
        for entry in chunk["choices"][0]["delta"].get("tool_calls") or ():
            begun = calls.setdefault(entry["index"], {**entry, "function": {**entry["function"], "arguments": ""}})
            begun["function"]["arguments"] += entry["function"].get("arguments") or ""
    return {**told, "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [*calls.values()]}}]}


def calls_in(dialect: str, answer: Json) -> list[tuple[str, str]]:
    if dialect == "chat":
        calls = answer["choices"][0]["message"]["tool_calls"]
        return [(call["id"], call["function"]["arguments"]) for call in calls]
    return [(item["call_id"], item["arguments"]) for item in answer["output"]]


def answered(dialect: str, answer: Json) -> list[Json]:
    """An answer and the outputs of its calls, as its client sends them back."""
    ids = [call_id for call_id, _ in calls_in(dialect, answer)]
    if dialect == "chat":
        return [
            answer["choices"][0]["message"],
            *({"role": "tool", "tool_call_id": call_id, "content": "ok"} for call_id in ids),
        ]
    return [
        *answer["output"],
        *({"type": "function_call_output", "call_id": call_id, "output": "ok"} for call_id in ids),
    ]


def ids_sent(dialect: str, body: Json) -> list[str]:
    """The ids of calls and of outputs, in order."""
    if dialect == "responses":
        return [item["call_id"] for item in body["input"] if "call_id" in item]
    found: list[str] = []
    for message in body["messages"]:
        found += [call["id"] for call in message.get("tool_calls") or ()]
        found += [message["tool_call_id"]] if "tool_call_id" in message else []
    return found


@FORMS
@RELAYS
async def test_calls_have_distinct_ids_over_a_conversation(dialect: str, stream: bool) -> None:
    async with gateway(dialect) as (upstream, client):
        upstream.script(
            CALLS[dialect](("x", "{}"), ("", "{}"), ("x", "{}")), CALLS[dialect](("x", "{}")), TEXT[dialect]
        )
        more = {"store": False} if dialect == "responses" else {}
        answer = await ask(client, dialect, [USER], stream=stream, **more)
        assert calls_in(dialect, answer) == [("x", "{}"), ("tc_1", "{}"), ("x__2", "{}")]
        history = [USER, *answered(dialect, answer)]
        answer = await ask(client, dialect, history, stream=stream, **more)
        assert ids_sent(dialect, upstream.requests[-1].json) == ["x", "tc_1", "x__2"] * 2
        assert calls_in(dialect, answer) == [("x__3", "{}")]


@FORMS
async def test_a_stored_response_is_continued_with_the_ids_that_its_client_received(
    stream: bool, tmp_path: Path
) -> None:
    async with gateway("responses", ready_sqlite(tmp_path / "kept.db")) as (upstream, client):
        upstream.script(responses_calls(("x", "```{}```"), ("x", "?")), TEXT["responses"])
        answer = await ask(client, "responses", [USER], stream=stream)
        assert calls_in("responses", answer) == [("x", "{}"), ("x__2", "?")]
        stored = (await client.get(f"/responses/{answer['id']}")).json()
        assert calls_in("responses", stored) == calls_in("responses", answer)
        assert stored["tool_warnings"] == answer["tool_warnings"] == [{"name": "f1", "why": BROKEN}]
        outputs = answered("responses", answer)[2:]
        await ask(client, "responses", outputs, stream=False, previous_response_id=answer["id"])
        assert ids_sent("responses", upstream.requests[-1].json) == ["x", "x__2"] * 2


@FORMS
async def test_an_upstream_that_continues_its_own_responses_keeps_its_ids(stream: bool) -> None:
    async with gateway("responses") as (upstream, client):
        upstream.script(responses_calls(("x", "{}"), ("x", "{}")), TEXT["responses"])
        reply = await client.post("/responses", json={**RESPONSES_ASKED, "input": "Hi", "stream": stream})
        # Not added up: official clients stop at an id that is used twice.
        answer = read_stream(reply.content)[-1]["response"] if stream else reply.json()
        assert calls_in("responses", answer) == [("x", "{}"), ("x", "{}")]
        outputs = answered("responses", answer)[2:]
        await ask(client, "responses", outputs, stream=False, previous_response_id="resp_1")
        assert upstream.requests[-1].json["input"] == outputs, "nobody here knows whose outputs they are"


def pair(dialect: str, call_id: str, arguments: str = "{}", said: str = "ok") -> list[Json]:
    """A call of the client's history and its output."""
    called: Json = {"name": "f0", "arguments": arguments}
    if dialect == "chat":
        call = {"id": call_id, "type": "function", "function": called}
        return [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": said},
        ]
    output = {"type": "function_call_output", "call_id": call_id, "output": said}
    return [{"type": "function_call", "call_id": call_id, **called}, output]


@RELAYS
async def test_ids_of_the_client_are_sent_one_for_each_call(dialect: str) -> None:
    async with gateway(dialect) as (upstream, client):
        upstream.script(TEXT[dialect])
        await ask(client, dialect, [USER, *pair(dialect, "x"), *pair(dialect, "x"), *pair(dialect, "x")], stream=False)
        assert ids_sent(dialect, upstream.requests[-1].json) == ["x", "x", "x__2", "x__2", "x__3", "x__3"]


@FORMS
@RELAYS
async def test_arguments_are_unfenced_or_left_and_reported(dialect: str, stream: bool) -> None:
    said = [("a", '```json\n{"a":1}\n```'), ("b", '{"a":'), ("c", "[1]"), ("d", '{"a":"' + "y" * 40 + '"}')]
    async with gateway(dialect, max_tool_args_bytes=40) as (upstream, client):
        upstream.script(CALLS[dialect](*said))
        answer = await ask(client, dialect, [USER], stream=stream)
        assert calls_in(dialect, answer) == [("a", '{"a":1}'), *said[1:]]
        whys = [BROKEN, "the arguments are not an object", "the arguments are longer than 40 bytes"]
        assert [warning["why"] for warning in answer["tool_warnings"]] == whys
        if not stream:
            names = [warning["name"] for warning in answer["tool_warnings"]]
            assert answer["loss"] == ", ".join(dict.fromkeys(f"tool_calls={name} has a warning" for name in names))


@RELAYS
async def test_arguments_of_earlier_calls_are_sent_unchanged(dialect: str) -> None:
    items = pair(dialect, "x", arguments="?")
    async with gateway(dialect) as (upstream, client):
        upstream.script(TEXT[dialect])
        await ask(client, dialect, items, stream=False)
        assert upstream.requests[-1].json["messages" if dialect == "chat" else "input"] == items


@FORMS
async def test_translated_chat_reports_calls_that_do_not_fit(stream: bool) -> None:
    async with gateway("responses") as (upstream, client):
        upstream.script(responses_calls(("a", "?")))
        answer = await ask(client, "chat", [USER], stream=stream)
        assert calls_in("chat", answer) == [("a", "?")]
        assert answer["tool_warnings"] == [{"name": "f0", "why": BROKEN}]


@FORMS
async def test_a_stored_completion_has_the_warnings_about_its_calls(stream: bool, tmp_path: Path) -> None:
    async with gateway("chat", ready_sqlite(tmp_path / "kept.db")) as (upstream, client):
        upstream.script(chat_calls(("a", "?")))
        await ask(client, "chat", [USER], stream=stream, store=True)
        [kept] = (await client.get("/chat/completions")).json()["data"]
        assert kept["tool_warnings"] == [{"name": "f0", "why": BROKEN}]


@pytest.mark.parametrize("half", [0, 1], ids=["a call", "an output"])
@RELAYS
async def test_a_call_or_output_without_its_counterpart_is_refused_by_id(dialect: str, half: int) -> None:
    key = "messages" if dialect == "chat" else "input"
    async with gateway(dialect) as (upstream, client):
        items = [USER, pair(dialect, "lost")[half], USER]
        reply = await client.post(PATHS[dialect], json={"model": "m", key: items})
        assert reply.status_code == 400
        assert "'lost'" in reply.json()["error"]["message"]
        assert upstream.requests == []


@pytest.mark.parametrize(
    "params", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}], ids=["one", "many"]
)
async def test_a_call_may_have_its_output_upstream(params: Json) -> None:
    items = pair("responses", "theirs")[1:]
    async with gateway("responses") as (upstream, client):
        upstream.script(TEXT["responses"])
        await ask(client, "responses", items, stream=False, **params)
        assert upstream.requests[-1].json["input"] == items


@FORMS
@RELAYS
async def test_long_outputs_are_cut(dialect: str, stream: bool) -> None:
    async with gateway(dialect, max_tool_output_bytes=20) as (upstream, client):
        upstream.script(TEXT[dialect])
        items = [USER, *pair(dialect, "a", said="x" * 99)]
        body = {**CHAT_ASKED, "messages": items} if dialect == "chat" else {**RESPONSES_ASKED, "input": items}
        reply = await client.post(PATHS[dialect], json={**body, "stream": stream})
        place = "messages[2].content" if dialect == "chat" else "input[2].output"
        assert reply.headers["x-gateway-loss"] == f"{place}=truncated"
        sent = upstream.requests[-1].json
        last = sent["messages"][-1]["content"] if dialect == "chat" else sent["input"][-1]["output"]
        assert last == "x" * 9 + "[truncated]"


@RELAYS
async def test_the_log_counts_warnings_of_a_relay(dialect: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(CALLS[dialect](("a", "secret"), ("b", "{}")))
        with command(config(upstream.url, dialect), tmp_path, forked=True) as served:
            async with httpx.AsyncClient(base_url=served.v1, timeout=60, verify=False, trust_env=False) as client:
                for stream in (True, False):
                    await ask(client, dialect, [USER], stream=stream)
        text = served.read_log()
    assert "secret" not in text
    lines = [line for line in map(orjson.loads, text.splitlines()) if line["message"] == "request"]
    assert [line["tool_warnings"] for line in lines] == [1, 1]
