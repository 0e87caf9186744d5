"""A fallback is a new plan: what its upstream is sent, and what its reply echoes, are those of the row that answers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from tests.agui_client import run_input, user
from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import read_until, wait_until
from tests.serving import Gateway, serving
from tests.upstream.builders import data_frame, either, json_reply, sse_reply
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply, Script
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]

DIALECTS = {"Responses": "responses", "Chat": "chat"}
"""The dialects of the second upstream: a Responses request is relayed to the first, and translated for the other."""


def configure(first: str, second: str, tmp_path: Path, dialect: str = "chat") -> Json:
    config = shared(first, second)
    config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
    config["providers"]["second"]["dialects"] = [dialect]
    first_row, second_row = config["models"]["*"]["upstreams"]
    first_row |= {"request_defaults": {"temperature": 0.1, "top_p": 0.2}, "parallel_tool_calls": True}
    second_row |= {"request_defaults": {"temperature": 0.9}, "parallel_tool_calls": False}
    return config


class Asked(NamedTuple):
    """The last body that the second upstream was sent, and the whole response that the client got in the end."""

    sent: Json
    response: Json


async def post(running: Gateway, path: str, **body: Any) -> httpx.Response:
    stream = bool(body.pop("stream", False))
    async with client() as asking:
        return await asking.post(f"{running.v1}{path}", json=question(path, stream=stream, **body))


async def fetch_ended(running: Gateway, response_id: str) -> Json:
    async def read() -> Json:
        async with client() as asking:
            return (await asking.get(f"{running.v1}{RESPONSES}/{response_id}")).json()

    return await read_until(read, lambda found: found["status"] not in ("queued", "in_progress"))


async def ask(config: Json, second: ScriptedUpstream, params: Mapping[str, Any]) -> Asked:
    with serving(config) as running:
        reply = await post(running, RESPONSES, **params)
        assert reply.status_code == 200, reply.text
        if reply.headers["content-type"].startswith("text/event-stream"):
            events = [orjson.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
            response = events[-1]["response"]
        else:
            response = reply.json()
        stored = await fetch_ended(running, response["id"])
    if response["status"] == "completed":
        assert stored == response
    return Asked(second.requests[-1].json, stored)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(
    "params",
    [{}, {"stream": True}, {"stream": True, "resumable": True}, {"background": True}],
    ids=["JSON", "stream", "resumable", "background"],
)
async def test_a_response_echoes_the_defaults_of_the_row_that_answered(
    params: Json, dialect: str, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS[dialect]))
        asked = await ask(configure(first.url, second.url, tmp_path, dialect), second, params)
        sent_to_first = first.requests[-1].json
    assert (sent_to_first["temperature"], sent_to_first["top_p"]) == (0.1, 0.2)
    assert (asked.sent["temperature"], asked.sent.get("top_p")) == (0.9, None)
    if dialect == "chat":  # a relayed response echoes what its upstream echoed
        echoed = asked.response
        assert (echoed["temperature"], echoed["top_p"], echoed["parallel_tool_calls"]) == (0.9, 1.0, False)


ECHOED = ("temperature", "top_p", "parallel_tool_calls")


@pytest.mark.parametrize("params", [{"resumable": True}, {"background": True}], ids=["resumable", "background"])
@pytest.mark.parametrize("is_failure", [False, True], ids=["completed", "failed"])
async def test_every_event_of_a_log_echoes_the_row_that_answered(
    is_failure: bool, params: Json, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(rejected(400) if is_failure else sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            own = await post(running, RESPONSES, stream=True, **params)
            whole = [orjson.loads(line[6:]) for line in own.text.splitlines() if line.startswith("data: {")]
            async with client() as asking:
                url = f"{running.v1}{RESPONSES}/{whole[0]['response']['id']}"
                replayed = await asking.get(url, params={"stream": "true"})
    assert replayed.text == own.text
    echoes = [tuple(event["response"][name] for name in ECHOED) for event in whole if "response" in event]
    assert [event["type"] for event in whole][:2] == ["response.created", "response.in_progress"]
    assert set(echoes) == {(0.9, 1.0, False)}


async def test_a_response_that_runs_echoes_the_row_that_answers(tmp_path: Path) -> None:
    go_on, answer = asyncio.Event(), ANSWERS["chat"]
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        rest = [*answer.frames[answer.cut :], answer.done]
        second.script(Reply(headers=answer.headers, body=[answer.opening, Pause(go_on), *rest]))
        config = configure(first.url, second.url, tmp_path)
        with serving(config) as running:
            created = asyncio.ensure_future(post(running, RESPONSES, stream=True, background=True))
            found: list[Json] = []

            async def echoes_second() -> bool:
                async with client() as asking:
                    found[:] = (await asking.get(f"{running.v1}{RESPONSES}")).json()["data"]
                return bool(found) and found[0]["temperature"] == 0.9

            await wait_until(echoes_second)
            go_on.set()
            await created
    assert found[0]["status"] == "in_progress"


async def test_the_first_row_is_echoed_if_it_answers(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            echoed = (await post(running, RESPONSES)).json()
    assert (echoed["temperature"], echoed["top_p"], echoed["parallel_tool_calls"]) == (0.1, 0.2, True)


async def test_parameters_of_the_client_win_over_those_of_any_row(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["chat"]))
        mine = {"temperature": 0.5, "parallel_tool_calls": True}
        asked = await ask(configure(first.url, second.url, tmp_path), second, mine)
    assert asked.sent["temperature"] == 0.5
    assert (asked.response["temperature"], asked.response["parallel_tool_calls"]) == (0.5, True)


@pytest.mark.parametrize("asks_second", [True, False], ids=["next", "first"])
async def test_a_chat_client_gets_what_a_default_of_the_row_requests(asks_second: bool, tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503) if asks_second else sound(ANSWERS["chat"]))
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url, tmp_path, "responses")
        second_row = config["models"]["*"]["upstreams"][1]
        second_row["request_defaults"] = {"stream_options": {"include_usage": True}}
        with serving(config) as running:
            text = (await post(running, CHAT, stream=True)).text
    chunks = [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert any(chunk.get("usage") for chunk in chunks) is asks_second


def thinking_chat() -> Script:
    """A chat upstream that thinks before it answers."""
    message = {"role": "assistant", "reasoning_content": "Hm.", "content": "Hi"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [
        {"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None},
        {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    ]
    frames = [data_frame({**chunk, "choices": [delta]}) for delta in deltas]
    return either(sse_reply(*frames, b"data: [DONE]\n\n"), json_reply({**whole, "choices": [choice]}))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
async def test_thinking_that_only_the_row_requests_is_not_shown_to_clients_of_messages(
    stream: bool, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(thinking_chat())
        config = configure(first.url, second.url, tmp_path)
        config["models"]["*"]["upstreams"][1]["request_defaults"] = {"reasoning_effort": "low"}
        with serving(config) as running:
            hidden = await post(running, MESSAGES, stream=stream)
            asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
            shown = await post(running, MESSAGES, stream=stream, **asked)
    assert ("Hi" in hidden.text, "Hm." in hidden.text) == (True, False)
    assert "Hm." in shown.text


ADAPTED: dict[str, tuple[str, Json]] = {
    "AG-UI": ("/v1/agui", run_input(user("Hi"))),
    "generate": ("/generate", {"messages": [{"role": "user", "content": "Hi"}]}),
}


@pytest.mark.parametrize(("path", "body"), ADAPTED.values(), ids=ADAPTED)
async def test_a_request_that_is_adapted_gets_the_defaults_of_its_upstream(
    path: str, body: Json, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(sound(ANSWERS["chat"]))
        second.script(sound(ANSWERS["chat"]))
        config = configure(first.url, second.url, tmp_path)
        config["providers"]["first"]["dialects"] = ["chat"]
        with serving(config) as running:
            async with client() as asking:
                reply = await asking.post(f"{running.url}{path}", json={"model": "scripted-model", **body})
        sent = {"first": first.requests, "second": second.requests}
    assert reply.status_code == 200, reply.text
    temperatures = {name: requests[-1].json["temperature"] for name, requests in sent.items() if requests}
    assert temperatures in ({"first": 0.1}, {"second": 0.9})
