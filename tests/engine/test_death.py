"""An engine that is killed, and a server that is told to stop. Each has a gateway of its own."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from openai import InternalServerError, OpenAI

from tests.engine.hosting import Hosted, Json, hosted

SOON_S = 10.0
REBUILT_S = 240.0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Hosted]:
    models: dict[str, Json] = {"tiny": {"provider": "local"}, "two": {"provider": "local", "two_pass": True}}
    with hosted(models, tmp_path) as found:
        yield found


def is_at_work(pid: int) -> bool:
    """Whether it is there, and not only because nobody asked how it ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.02)


def test_a_killed_engine_ends_its_streams_at_once_and_comes_back(own: Hosted) -> None:
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
        wait_for(lambda: not own.is_ready(), SOON_S, "readiness outlived the engine")
        with pytest.raises(InternalServerError) as refused:
            client.responses.create(model="tiny", input="Hi")
        assert (refused.value.status_code, refused.value.code) == (503, "engine_unavailable")
        assert int(refused.value.response.headers["retry-after"]) >= 1
        assert httpx.get(f"{own.url}/healthz").status_code == 200
        wait_for(own.is_ready, REBUILT_S, "the engine did not come back")
        reply = client.responses.create(model="tiny", input="What is 3 + 4?", temperature=0)
        assert reply.output_text == "The answer is 7."
    pids = own.children()
    assert own.stop() == 0
    wait_for(lambda: not any(map(is_at_work, pids)), SOON_S, "a process of the engine was left behind")


def test_a_server_that_is_told_to_stop_finishes_what_it_says_and_ends_all_its_processes(own: Hosted) -> None:
    with OpenAI(base_url=own.v1, api_key="none", max_retries=0, timeout=60) as client:
        events = client.responses.create(
            model="tiny", input="Never stop.", temperature=0, stream=True, max_output_tokens=120
        )
        assert next(event for event in events if event.type.endswith(".delta"))
        pids = own.children()
        own.process.send_signal(signal.SIGTERM)
        assert [event.type for event in events][-1] == "response.incomplete"
    assert own.process.wait(60) == 0
    wait_for(lambda: not any(map(is_at_work, pids)), SOON_S, "a process of the engine was left behind")
