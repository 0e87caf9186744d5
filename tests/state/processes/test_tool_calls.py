"""Background responses that call tools: whatever ends their server, no call is made a second time."""

import signal
from pathlib import Path

import pytest

from tests.mcp_server import CountingServer, mcp_server
from tests.state.processes.killing import background, check_interrupted, has_ended, until
from tests.state.replicas import Json, client, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy


def hosted(calc: CountingServer) -> Json:
    return {"type": "mcp", "server_label": "calc", "server_url": calc.url, "require_approval": "never"}


async def has_run(calc: CountingServer, name: str) -> bool:
    return calc.runs[name] > 0


@pytest.mark.parametrize(
    ("how", "streams"),
    [(signal.SIGKILL, False), (signal.SIGTERM, False), (signal.SIGKILL, True)],
    ids=["killed", "stopped", "killed while watched"],
)
async def test_a_call_of_a_server_that_ended_is_not_repeated(
    how: signal.Signals, streams: bool, store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(("calc_hang", "{}")), chat_text("never"))
            with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
                async with client(server) as asking:
                    request: Json = {"input": "Hang.", "background": True, "tools": [hosted(calc)]}
                    if streams:
                        async with asking.stream(**request) as stream:
                            await stream.read_to("response.mcp_call_arguments.done")
                            response_id = stream.response_id
                            await until(has_run, calc, "hang")
                            server.process.send_signal(how)
                    else:
                        response_id = (await asking.create(**request))["id"]
                        await until(has_run, calc, "hang")
                        server.process.send_signal(how)
                server.process.wait(60)
            with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
                async with client(server) as asking:
                    await until(has_ended, asking, response_id)
                    response = await asking.read(response_id)
                    check_interrupted(response)
                    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call"]
                    assert response["output"][1]["status"] == "incomplete"
        assert calc.runs["hang"] == 1


async def test_a_background_response_with_tools_that_nobody_watches_is_stored_whole(
    store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
            with replica(tmp_path / "only", store_url, upstream.url, **settings) as server:
                async with client(server) as asking:
                    job = await asking.create(input="2 + 3?", background=True, tools=[hosted(calc)])
                    await until(has_ended, asking, job["id"])
                    response = await asking.read(job["id"])
                    assert (response["status"], text(response)) == ("completed", "5")
                    assert response["output"][1]["output"] == "5"
        assert calc.runs["add"] == 1
