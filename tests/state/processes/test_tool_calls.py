"""Background responses that call tools, and their calls when a server is killed."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from sqlalchemy import select

from gateway.state.database.tables import jobs, tool_calls
from tests import databases
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.mcp_server import CountingServer, mcp_server
from tests.polling import wait_until
from tests.serving import Command
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import Paused, background, check_interrupted, has_ended
from tests.state.replicas import Client, Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text
from tests.upstream.script import Exchange
from translation.hosted.interruptions.interruption import OUTCOME_UNKNOWN

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

ADD = ("calc_add", '{"a": 1, "b": 2}')
ADD_MORE = ("calc_add", '{"a": 3, "b": 4}')
HANG = ("calc_hang", "{}")


def hosted(calc: CountingServer) -> Json:
    return {"type": "mcp", "server_label": "calc", "server_url": calc.url, "require_approval": "never"}


def settings(store_url: str) -> Json:
    egress = {"allow": ["127.0.0.1"]}
    return {"background": background(store_url), "egress": egress, "tools": {"mcp": {"parallel_calls": 2}}}


@asynccontextmanager
async def taken_over(
    folder: Path, store_url: str, upstream: ScriptedUpstream, response_id: str
) -> AsyncIterator[Client]:
    """A client of the server that takes over, once the response has ended there."""
    with replica(folder, store_url, upstream.url, **settings(store_url)) as server:
        async with client(server) as asking:
            await wait_until(has_ended, asking, response_id)
            yield asking


async def has_run(calc: CountingServer, name: str, times: int = 1) -> bool:
    return calc.runs[name] >= times


async def has_finished(store_url: str, response_id: str) -> bool:
    """Whether the result of one of a response's calls is in the journal."""
    states = select(tool_calls.c.state).where(tool_calls.c.response_id == response_id)
    return ("finished",) in await database_observer.rows(store_url, states)


async def read_events(asking: Client, response_id: str, after: int | None = None) -> list[Json]:
    path = f"/responses/{response_id}?stream=true" + ("" if after is None else f"&starting_after={after}")
    async with asking.stream("GET", path) as stream:
        await stream.read_all()
    return stream.events


def check_stream(events: list[Json], sent: list[Json]) -> None:
    """Checks that a stream continues the sent events: no gaps in its numbers, one end, no change of ended items."""
    assert events[: len(sent)] == sent
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event for event in events if event["type"] == "response.output_item.done"]
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(len(added)))
    assert [event["output_index"] for event in done] == list(range(len(added)))
    assert [event["item"] for event in done] == events[-1]["response"]["output"]


def outputs_read(upstream: ScriptedUpstream) -> list[str]:
    """Returns the outputs of calls in the last request to the model."""
    messages = upstream.requests[-1].json["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


async def test_fault_47_each_call_of_a_killed_server_is_run_once_at_most(store_url: str, tmp_path: Path) -> None:
    """The first call is started, the second finished, the third started, the fourth intended."""
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            calls = chat_calls(HANG, ADD, HANG, ADD_MORE)
            upstream.on("/chat/completions", calls, chat_text("done"))
            with replica(tmp_path / "first", store_url, upstream.url, **settings(store_url)) as server:
                async with client(server) as asking:
                    tools = [hosted(calc)]
                    async with asking.stream(input="Go.", background=True, tools=tools) as stream:
                        await stream.read_to("response.mcp_call_arguments.done")
                        response_id = stream.response_id
                        await wait_until(has_run, calc, "hang", 2)
                        kill(server)
            async with taken_over(tmp_path / "second", store_url, upstream, response_id) as asking:
                response = await asking.read(response_id)
                events = await read_events(asking, response_id)
                check_stream(events, stream.events)
                last = stream.events[-1]["sequence_number"]
                assert await read_events(asking, response_id, last) == events[last + 1 :]
            assert (response["status"], text(response)) == ("completed", "done")
            items = response["output"][1:-1]
            assert [item["status"] for item in items] == ["failed", "completed", "failed", "completed"]
            assert [item["output"] for item in items] == [None, "3", None, "7"]
            assert OUTCOME_UNKNOWN in json.dumps(items[0]["error"])
            first, second, third, fourth = outputs_read(upstream)
            assert (first, second, fourth) == (OUTCOME_UNKNOWN, "3", "7")
            assert third.startswith(OUTCOME_UNKNOWN)
            assert response["usage"]["total_tokens"] == 24  # of both rounds
        assert calc.runs == {"hang": 2, "add": 2}


async def test_another_replica_continues_a_response_that_clients_follow(store_url: str, tmp_path: Path) -> None:
    lease = {"background": {"lease_s": 3.0}}
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(HANG), chat_text("done"))
            with replica(tmp_path / "first", store_url, upstream.url, **(settings(store_url) | lease)) as server:
                async with client(server) as asking:
                    job = await asking.create(input="Hang.", background=True, tools=[hosted(calc)], tool_events=True)
                    await wait_until(has_run, calc, "hang")
                with replica(tmp_path / "second", store_url, upstream.url, **(settings(store_url) | lease)) as other:
                    async with client(other) as watching:
                        path = f"/responses/{job['id']}?stream=true"
                        async with watching.stream("GET", path) as stream:
                            await stream.read_to("response.mcp_call_arguments.done")
                            kill(server)
                            end = await stream.read_all()
            assert text(end["response"]) == "done"
            check_stream(stream.events, [])
            # The second server sends no call, and asks the model once.
            kinds = [kind for kind in stream.kinds if kind.startswith("gateway.")]
            assert [kind for kind in kinds if kind != "gateway.tool.progress"] == [
                "gateway.request.started",
                "gateway.tool.started",
                "gateway.request.started",
            ]
        assert calc.runs["hang"] == 1


async def test_a_server_that_stops_leaves_its_calls_to_the_next(tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(HANG), chat_text("done"))
            with replica(tmp_path / "first", store_url, upstream.url, **settings(store_url)) as server:
                async with client(server) as asking:
                    job = await asking.create(input="Hang.", background=True, tools=[hosted(calc)])
                    await wait_until(has_run, calc, "hang")
                    server.process.send_signal(signal.SIGTERM)
                server.process.wait(60)
            async with taken_over(tmp_path / "second", store_url, upstream, job["id"]) as asking:
                assert text(await asking.read(job["id"])) == "done"
        assert calc.runs["hang"] == 1


@pytest.mark.parametrize("says_something", [False, True], ids=["nothing was said", "the answer had begun"])
async def test_a_round_is_sampled_again_unless_its_answer_was_delivered(says_something: bool, tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            cut = Paused(*(["It"] if says_something else []))
            upstream.on("/chat/completions", chat_calls(ADD), cut, chat_text("3"))
            with replica(tmp_path / "first", store_url, upstream.url, **settings(store_url)) as server:
                request: Json = {"input": "1 + 2?", "background": True, "tools": [hosted(calc)]}
                async with client(server) as asking, asking.stream(**request) as stream:
                    await stream.read_to("response.output_item.done")
                    await stream.read_to("response.output_item.done")
                    if says_something:
                        await stream.read_to("response.output_text.delta")
                    else:
                        await upstream.received(2)
                    kill(server)
            response_id = stream.response_id
            async with taken_over(tmp_path / "second", store_url, upstream, response_id) as asking:
                response = await asking.read(response_id)
                if says_something:
                    check_interrupted(response)
                    assert text(response) == "It"
                else:
                    assert (response["status"], text(response)) == ("completed", "3")
                    check_stream(await read_events(asking, response_id), stream.events)
                assert response["output"][1]["output"] == "3"
        assert calc.runs["add"] == 1


async def test_an_unwatched_background_response_with_tools_is_stored_whole(store_url: str, tmp_path: Path) -> None:
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
            with replica(tmp_path / "only", store_url, upstream.url, **settings(store_url)) as server:
                async with client(server) as asking:
                    job = await asking.create(input="2 + 3?", background=True, tools=[hosted(calc)])
                    await wait_until(has_ended, asking, job["id"])
                    response = await asking.read(job["id"])
                    assert (response["status"], text(response)) == ("completed", "5")
                    assert response["output"][1]["output"] == "5"
        assert calc.runs["add"] == 1


async def test_a_foreground_response_of_a_killed_server_keeps_the_calls_that_had_ended(
    store_url: str, tmp_path: Path
) -> None:
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(ADD, HANG))
            with replica(tmp_path / "first", store_url, upstream.url, **settings(store_url)) as server:
                async with client(server) as asking, asking.stream(input="Go.", tools=[hosted(calc)]) as stream:
                    await stream.read_to("response.mcp_call.completed")
                    await wait_until(has_run, calc, "hang")
                    kill(server)
            async with taken_over(tmp_path / "second", store_url, upstream, stream.response_id) as asking:
                response = await asking.read(stream.response_id)
                check_interrupted(response)
                assert [(item["status"], item["output"]) for item in response["output"]] == [
                    ("completed", "3"),
                    ("incomplete", None),
                ]
        assert calc.runs == {"add": 1, "hang": 1}


async def test_the_calls_of_unstored_replies_of_a_killed_server_are_found(tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", *[chat_calls(HANG)] * 3)
            server_of_all = {"url": calc.url, "approval": "never"}
            sections = {
                **settings(store_url),
                "tools": {"mcp": {"servers": {"calc": server_of_all}}},
                "models": {"m": {"provider": "chat", "tools": {"mcp": ["calc"]}}},
            }
            messages = [{"role": "user", "content": "Hi"}]
            bodies: dict[str, Json] = {
                "/chat/completions": {"messages": messages},
                "/messages": {"messages": messages, "max_tokens": 100},
                "/responses": {"input": "Hi", "store": False},
            }
            with replica(tmp_path / "first", store_url, upstream.url, **sections) as server:
                async with client(server) as asking:
                    tasks = [
                        asyncio.create_task(asking.http.post(path, json={"model": "m", **body}))
                        for path, body in bodies.items()
                    ]
                    await wait_until(has_run, calc, "hang", 3)
                    kill(server)
                    await asyncio.gather(*tasks, return_exceptions=True)
            with replica(tmp_path / "second", store_url, upstream.url, **sections) as server:
                found = await database_observer.rows(store_url, select(tool_calls))
                assert [row.state for row in found] == ["unknown"] * 3
                assert {row.response_id.partition("_")[0] for row in found} == {"chatcmpl", "msg", "resp"}
                lines = [line for line in server.read_log().splitlines() if "tool_call_outcome_unknown" in line]
                assert all(any(row.response_id in line for line in lines) for row in found)
        assert calc.runs == {"hang": 3}


KEYS = ["first-key-of-the-tests-0123456789", "other-key-of-the-tests-0123456789"]


@pytest.mark.parametrize("has_key", [True, False], ids=["with the key", "without the key"])
async def test_credentials_of_a_request_are_opened_by_a_replica_with_the_key(has_key: bool, tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(HANG), chat_calls(ADD), chat_text("done"))
            first = settings(store_url) | {"sealing": {"keys": KEYS[:1]}}
            second = settings(store_url) | {"sealing": {"keys": KEYS[not has_key :]}}
            with replica(tmp_path / "first", store_url, upstream.url, **first) as server:
                async with client(server) as asking:
                    tool = hosted(calc) | {"authorization": "token-of-the-request"}
                    job = await asking.create(input="Hang.", background=True, tools=[tool])
                    await wait_until(has_run, calc, "hang")
                    assert "token-of-the-request" not in str(await database_observer.rows(store_url, select(jobs)))
                    kill(server)
            calc.headers.clear()
            with replica(tmp_path / "second", store_url, upstream.url, **second) as server:
                async with client(server) as asking:
                    await wait_until(has_ended, asking, job["id"])
                    response = await asking.read(job["id"])
            assert (response["status"], text(response)) == ("completed", "done")
            if has_key:
                assert calc.headers["authorization"] == "Bearer token-of-the-request"
                assert response["output"][-2]["output"] == "3"
            else:
                assert calc.headers == {}
                assert "credentials_unavailable" in json.dumps(response["output"][-2]["error"])
            assert await database_observer.rows(store_url, select(jobs)) == []
        assert calc.runs == ({"hang": 1, "add": 1} if has_key else {"hang": 1})


def stop_between_writes(server: Command, store_url: str) -> bool:
    """Stops a server. Returns False, and lets it go on, if it holds the lock of an SQLite file, which nobody else could
    write to then."""
    server.process.send_signal(signal.SIGSTOP)
    _, is_sqlite, path = store_url.partition("sqlite+aiosqlite:///")
    if not is_sqlite:
        return True
    try:
        with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        server.process.send_signal(signal.SIGCONT)
        return False
    return True


async def test_fault_48_the_result_of_a_server_that_lost_its_lease_is_refused(store_url: str, tmp_path: Path) -> None:
    """The first server is stopped in the middle of a call, and goes on when the second has ended the response."""
    lease = settings(store_url) | {"background": {"lease_s": 3.0}}
    gate = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await gate.wait()
        await answer(text_result("late"))(exchange)

    async with scripted_mcp(slow) as mcp, ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_calls(("lookup_look_up", "{}")), chat_text("done"))
        tool = {"type": "mcp", "server_label": "lookup", "server_url": mcp.url, "require_approval": "never"}
        with replica(tmp_path / "first", store_url, upstream.url, **lease) as stopped:
            async with client(stopped) as asking:
                job = await asking.create(input="Look up.", background=True, tools=[tool])
                await wait_until(lambda: len(mcp.calls) == 1)
                await wait_until(stop_between_writes, stopped, store_url)
            with replica(tmp_path / "second", store_url, upstream.url, **lease) as server:
                async with client(server) as asking:
                    await wait_until(has_ended, asking, job["id"])
                    response = await asking.read(job["id"])
                    stopped.process.send_signal(signal.SIGCONT)
                    gate.set()
                    await wait_until(lambda: mcp.calls[0].closed.done() or "tool_ended" in stopped.read_log())
                    stopped.process.send_signal(signal.SIGTERM)
                    stopped.process.wait(60)
                    assert await asking.read(job["id"]) == response
        call = response["output"][1]
        assert (response["status"], call["status"], call["output"]) == ("completed", "failed", None)
        assert OUTCOME_UNKNOWN in json.dumps(call["error"])
        assert len(mcp.calls) == 1


async def test_an_approved_call_of_a_killed_server_is_not_repeated(tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    with mcp_server() as calc:
        tools = [{"type": "mcp", "server_label": "calc", "server_url": calc.url}]
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(HANG, ADD), chat_text("done"))
            with replica(tmp_path / "first", store_url, upstream.url, **settings(store_url)) as server:
                async with client(server) as asking:
                    asked = await asking.create(input="Go.", tools=tools)
                    requests = [item for item in asked["output"] if item["type"] == "mcp_approval_request"]
                    answers = [
                        {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
                        for request in requests
                    ]
                    body: Json = {"input": answers, "previous_response_id": asked["id"], "tools": tools}
                    job = await asking.create(**body, background=True)
                    await wait_until(has_run, calc, "hang")
                    await wait_until(has_finished, store_url, job["id"])
                    kill(server)
            async with taken_over(tmp_path / "second", store_url, upstream, job["id"]) as asking:
                response = await asking.read(job["id"])
                check_stream(await read_events(asking, job["id"]), [])
            assert (response["status"], text(response)) == ("completed", "done")
            calls = [item for item in response["output"] if item["type"] == "mcp_call"]
            assert [call["approval_request_id"] for call in calls] == [request["id"] for request in requests]
            assert sorted(outputs_read(upstream)) == ["3", OUTCOME_UNKNOWN]
        assert calc.runs == {"hang": 1, "add": 1}
