"""An engine that is killed, and a server that is stopped. Each test has a gateway of its own."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import InternalServerError, OpenAI

from tests.engine.engine_gateway import PROVIDER, Hosted, Json, hosted
from tests.polling import block_until
from tests.serving import read_whole_lines

SOON_S = 10.0
REBUILT_S = 240.0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Hosted]:
    models: dict[str, Json] = {"tiny": {"provider": "local"}, "two": {"provider": "local", "two_pass": True}}
    with hosted(models, tmp_path) as found:
        yield found


def is_at_work(pid: int) -> bool:
    """Whether the process runs, and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_killed_engine_ends_its_streams_at_once_and_restarts(own: Hosted) -> None:
    with OpenAI(base_url=own.v1, api_key="none", max_retries=0, timeout=60) as client:
        last: dict[str, str] = {}
        began = threading.Barrier(3)

        def follow(model: str) -> None:
            waited = False
            for event in client.responses.create(model=model, input="Never stop.", temperature=0, stream=True):
                last[model] = event.type
                if not waited and event.type.endswith(".delta"):
                    waited = True
                    began.wait(SOON_S)

        streams = [threading.Thread(target=follow, args=(model,)) for model in ("tiny", "two")]
        for stream in streams:
            stream.start()
        began.wait(60)
        os.kill(own.engine_process(), signal.SIGKILL)
        for stream in streams:
            stream.join(SOON_S)
        assert last == {"tiny": "response.failed", "two": "response.failed"}
        block_until(lambda: not own.is_ready(), "readiness outlived the engine", timeout_s=SOON_S)
        with pytest.raises(InternalServerError) as refused:
            client.responses.create(model="tiny", input="Hi")
        assert (refused.value.status_code, refused.value.code) == (503, "engine_unavailable")
        assert int(refused.value.response.headers["retry-after"]) >= 1
        assert httpx.get(f"{own.url}/healthz", timeout=60).status_code == 200
        block_until(own.is_ready, "the engine did not come back", timeout_s=REBUILT_S)
        reply = client.responses.create(model="tiny", input="What is 3 + 4?", temperature=0)
        assert reply.output_text == "The answer is 7."
    pids = own.children()
    assert own.stop() == 0
    block_until(lambda: not any(map(is_at_work, pids)), "a process of the engine was left behind", timeout_s=SOON_S)


def test_a_stopping_server_finishes_its_replies_and_ends_all_its_processes(own: Hosted) -> None:
    with OpenAI(base_url=own.v1, api_key="none", max_retries=0, timeout=60) as client:
        events = client.responses.create(
            model="tiny", input="Never stop.", temperature=0, stream=True, max_output_tokens=120
        )
        assert next(event for event in events if event.type.endswith(".delta"))
        pids = own.children()
        own.process.send_signal(signal.SIGTERM)
        assert [event.type for event in events][-1] == "response.incomplete"
    assert own.process.wait(60) == 0
    block_until(lambda: not any(map(is_at_work, pids)), "a process of the engine was left behind", timeout_s=SOON_S)


def test_a_hanging_engine_is_killed_and_restarted(tmp_path: Path) -> None:
    watched = {"local": {**PROVIDER, "hang_s": 4}}
    with (
        hosted({"tiny": {"provider": "local"}}, tmp_path, providers=watched) as own,
        OpenAI(base_url=own.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        victim, last = own.engine_process(), ""
        for event in client.responses.create(model="tiny", input="Never stop.", temperature=0, stream=True):
            if not last and event.type.endswith(".delta"):
                os.kill(victim, signal.SIGSTOP)
                last = event.type
            elif last:
                last = event.type
        assert last == "response.failed"
        block_until(lambda: not is_at_work(victim), "the engine that hangs is still there", timeout_s=SOON_S)
        assert "it gave no sign of life for 4 s" in read_whole_lines(own.log)
        block_until(own.is_ready, "no other engine was started", timeout_s=REBUILT_S)
        assert own.engine_process() != victim


def test_answers_are_finished_after_an_interrupt_from_the_terminal(tmp_path: Path) -> None:
    """Ctrl-C signals all processes of the terminal's group, including the engine."""
    with (
        hosted({"tiny": {"provider": "local"}}, tmp_path, within=["setsid"]) as own,
        OpenAI(base_url=own.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        events = client.responses.create(
            model="tiny", input="Never stop.", temperature=0, stream=True, max_output_tokens=120
        )
        assert next(event for event in events if event.type.endswith(".delta"))
        pids = own.children()
        os.killpg(own.process.pid, signal.SIGINT)
        assert [event.type for event in events][-1] == "response.incomplete"
        assert own.process.wait(60) == 0
    block_until(lambda: not any(map(is_at_work, pids)), "a process of the engine was left behind", timeout_s=SOON_S)


def test_no_engine_outlives_a_gateway_that_is_killed(own: Hosted) -> None:
    pids = own.children()
    own.process.kill()
    own.process.wait(SOON_S)
    block_until(lambda: not any(map(is_at_work, pids)), "a process of the engine was left behind", timeout_s=30)
