"""A job of a name with several upstreams whose server was killed: the next server begins a new count of attempts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import wait_until
from tests.state.processes.killed_servers import background, has_ended
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream, silence
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy


@pytest.fixture
async def upstreams() -> AsyncIterator[tuple[ScriptedUpstream, ScriptedUpstream]]:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        yield first, second


def configure(first: ScriptedUpstream, second: ScriptedUpstream, store_url: str) -> Json:
    config = shared(first.url, second.url, attempts=2)
    for provider in config["providers"].values():
        provider |= {"dialects": ["chat"], "answer_s": 30, "silence_s": 30}
    first_row, second_row = config["models"]["*"]["upstreams"]
    first_row |= {"request_defaults": {"temperature": 0.1}, "capabilities": {"streaming": False}}
    second_row["request_defaults"] = {"temperature": 0.9}
    return config | {"background": background(store_url)}


async def test_a_job_that_another_server_takes_over_has_all_its_attempts_there(
    upstreams: tuple[ScriptedUpstream, ScriptedUpstream], store_url: str, tmp_path: Path
) -> None:
    first, second = upstreams
    first.script(rejected(503))
    second.script(silence)
    settings = configure(first, second, store_url)
    with replica(tmp_path / "first", store_url, "", **settings) as server:
        async with client(server) as asking:
            job = await asking.create(input="Hello", background=True)
            await second.received(1)
            kill(server)
    second.script(chat_text("Hi", " there"))
    with replica(tmp_path / "second", store_url, "", **settings) as server:
        async with client(server) as asking:
            await wait_until(has_ended, asking, job["id"])
            response = await asking.read(job["id"])
            reply = await asking.http.get(f"/responses/{job['id']}")
    assert (response["status"], text(response), response["temperature"]) == ("completed", "Hi there", 0.9)
    assert reply.headers["x-gateway-upstream"] == "second"
    assert (len(first.requests), len(second.requests)) == (2, 2)
    sent = [request.json for request in (*first.requests, *second.requests)]
    assert [body["temperature"] for body in sent] == [0.1, 0.1, 0.9, 0.9]
    assert [bool(body.get("stream")) for body in sent] == [False, False, True, True]
