"""A real embedded llama.cpp: it starts and ends with the gateway, and its death is reported to all clients."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.integration.embedded.embedded_engine import (
    CONFIG,
    ENDLESS,
    ENGINE,
    MODEL,
    PROC,
    children_of,
    copy_of_the_model,
    engine_of,
    is_alive,
    needs_proc,
    ready,
)
from tests.polling import PROMPT_S, block_until
from tests.processes import worker_pids
from tests.serving import Command, command

pytestmark = pytest.mark.timeout(180)  # servers with engines are started and ended


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    folder = tmp_path_factory.mktemp("embedded")
    engine = {**ENGINE, "model": str(copy_of_the_model(folder))}
    with command({**CONFIG, "providers": {"embedded": engine}}, folder, forked=True) as gateway:
        yield gateway


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(verify=False, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def sdk(gateway: Command) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=30) as client:
        yield client


@contextmanager
def suspended(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile: so small a model has answered before anybody can look."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def running(http: httpx.Client, gateway: Command) -> int:
    """Returns the number of requests that the engine works on, by `/readyz`."""
    reply: int = ready(http, gateway).json()["engines"]["embedded"]["running"]
    return reply


def test_the_engine_is_ready_when_the_server_reports_that_it_listens(gateway: Command, http: httpx.Client) -> None:
    reply = ready(http, gateway)
    assert reply.status_code == 200
    state = {"state": "ready", "detail": None, "running": 0}
    assert reply.json() == {"status": "ready", "engines": {"embedded": state}}


def test_both_apis_reply_with_json(sdk: OpenAI) -> None:
    response = sdk.responses.create(model="tiny", input="What is 3 + 4?")
    assert response.output_text == "The answer is 7."
    assert [item.type for item in response.output] == ["reasoning", "message"]
    completion = sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "What is 3 + 4?"}])
    assert (completion.choices[0].message.content or "").strip() == "The answer is 7."


def test_both_apis_reply_with_streams(sdk: OpenAI) -> None:
    with sdk.responses.create(model="tiny", input="Count to 12.", stream=True) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."
    assert len(deltas) > 10
    body: Any = {"model": "tiny", "messages": [{"role": "user", "content": "Count to 12."}], "stream": True}
    with sdk.chat.completions.create(**body) as chunks:
        texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(texts).strip() == "".join(deltas)


def test_a_tool_is_called(sdk: OpenAI) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool: Any = {"type": "function", "name": "get_weather", "parameters": parameters, "strict": None}
    response = sdk.responses.create(model="tiny", input="What is the weather in Paris?", tools=[tool])
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_direct_response_leaves_thinking_in_the_text(sdk: OpenAI, stream: bool) -> None:
    text = "<think>\nThe user asks for 3 + 4. That makes 7.\n</think>\n\nThe answer is 7."
    body: Any = {"model": "raw", "stream": stream}
    response = sdk.responses.create(input="What is 3 + 4?", **body)
    completion = sdk.chat.completions.create(messages=[{"role": "user", "content": "What is 3 + 4?"}], **body)
    if stream:
        [response] = [event.response for event in response if event.type == "response.completed"]
        deltas = [choice.delta for chunk in completion for choice in chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == text
        assert not any(getattr(delta, "reasoning_content", None) for delta in deltas)
    else:
        assert completion.choices[0].message.content == text
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == text


def test_a_budget_for_thinking_holds(sdk: OpenAI) -> None:
    budget: Any = {"max_tokens": 20}
    response = sdk.responses.create(model="thinker", input="Think forever.", reasoning=budget)
    assert response.output_text == "I stopped thinking."
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens == 20


def test_its_tokens_are_counted(sdk: OpenAI) -> None:
    body: Any = {"model": "tiny", "input": "What is the capital of France?"}
    answered = sdk.responses.create(**body)
    assert answered.usage is not None
    assert sdk.responses.input_tokens.count(**body).input_tokens == answered.usage.input_tokens


@needs_proc
def test_a_client_that_leaves_frees_its_slot(gateway: Command, http: httpx.Client, sdk: OpenAI) -> None:
    """There is one slot, so the next request waits until it is free."""
    with http.stream("POST", f"{gateway.v1}/responses", json=ENDLESS) as left:
        lines = left.iter_lines()
        next(line for line in lines if "delta" in line)
        with suspended(engine_of(gateway)):
            block_until(lambda: running(http, gateway) == 1)
            left.close()
            block_until(lambda: running(http, gateway) == 0)
            assert http.get(f"{gateway.url}/healthz").status_code == 200
    assert sdk.responses.create(model="tiny", input="What is 3 + 4?").output_text == "The answer is 7."


@needs_proc
def test_the_engine_answers_only_the_gateway(gateway: Command, http: httpx.Client) -> None:
    (port,) = listening_ports(engine_of(gateway))
    assert http.get(f"http://127.0.0.1:{port}/v1/models").status_code == 401
    body = {"prompt": "Hello", "n_predict": 1}
    assert http.post(f"http://127.0.0.1:{port}/completion", json=body).status_code == 401


def listening_ports(pid: int) -> Iterator[int]:
    """The TCP ports of a process, inherited ones too."""
    sockets = {os.readlink(each) for each in (PROC / f"{pid}/fd").iterdir() if each.is_symlink()}
    for line in (PROC / f"{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in sockets:
            yield int(local.partition(":")[2], 16)


@needs_proc
def test_the_gateway_itself_imports_no_engine(gateway: Command, sdk: OpenAI) -> None:
    assert sdk.responses.create(model="tiny", input="Hi").output_text
    mapped = (PROC / f"{gateway.process.pid}/maps").read_text()
    assert "orjson" in mapped, "libraries that are imported are there to see"
    assert not {name for name in ("xllamacpp", "libtorch", "vllm") if name in mapped}


@needs_proc
@pytest.mark.parametrize("name", ["tiny", "thinker"])
def test_a_killed_engine_fails_its_streams_at_once_and_restarts(
    name: str, gateway: Command, http: httpx.Client, sdk: OpenAI
) -> None:
    block_until(lambda: ready(http, gateway).status_code == 200)
    victim = engine_of(gateway)
    model = gateway.log.with_name(MODEL.name)
    broken = gateway.log.with_name("broken.gguf")
    broken.write_bytes(MODEL.read_bytes()[:2_000_000])
    broken.replace(model)  # so that it does not restart before the checks
    with http.stream("POST", f"{gateway.v1}/responses", json={**ENDLESS, "model": name}) as stream:
        lines = stream.iter_lines()
        next(line for line in lines if "output_text.delta" in line)
        os.kill(victim, signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        *_, last = (line for line in lines if line.startswith("data: {"))
    assert time.monotonic() - killed_at < PROMPT_S
    failed = json.loads(last.removeprefix("data: "))
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["message"] == "the engine died in the middle of its reply"

    # The system closes the connections of a dead process before it reports its death.
    block_until(lambda: ready(http, gateway).status_code == 503, timeout_s=PROMPT_S)
    assert ready(http, gateway).json()["status"] in ("engine_down", "starting")
    block_until(lambda: "killed by SIGKILL" in gateway.read_log())
    refused = http.post(f"{gateway.v1}/responses", json={"model": name, "input": "Hi"})
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_unavailable"
    assert int(refused.headers["retry-after"]) >= 1
    assert http.get(f"{gateway.url}/healthz").status_code == 200

    copy_of_the_model(model.parent)
    block_until(lambda: ready(http, gateway).status_code == 200)
    assert engine_of(gateway) != victim
    assert sdk.responses.create(model="tiny", input="What is 3 + 4?").output_text == "The answer is 7."


@needs_proc
def test_a_json_reply_in_progress_fails_when_the_engine_dies(gateway: Command, http: httpx.Client) -> None:
    block_until(lambda: ready(http, gateway).status_code == 200)
    victim = engine_of(gateway)
    asked = json.dumps({**ENDLESS, "stream": False})
    os.kill(victim, signal.SIGSTOP)
    with subprocess.Popen(
        ["curl", "-s", f"{gateway.v1}/responses", "-H", "Content-Type: application/json", "-d", asked],
        stdout=subprocess.PIPE,
    ) as waiting:
        block_until(lambda: running(http, gateway) == 1)
        os.kill(victim, signal.SIGKILL)
        output, _ = waiting.communicate(timeout=20)
    assert json.loads(output)["error"]["code"] == "engine_unavailable"
    block_until(lambda: ready(http, gateway).status_code == 200)


@needs_proc
@pytest.mark.parametrize(
    ("end", "workers"),
    [(signal.SIGTERM, "1"), (signal.SIGKILL, "1"), (signal.SIGKILL, "2")],
    ids=["told to stop", "killed", "workers killed"],
)
def test_no_engine_outlives_its_gateway(end: signal.Signals, workers: str, tmp_path: Path) -> None:
    with command(CONFIG, tmp_path, "--workers", workers, forked=True) as gateway:
        servers = [gateway.process.pid] if workers == "1" else worker_pids(gateway.process.pid)
        engines = [child for server in servers for child in children_of(server) if "llamacpp" in words_of(child)]
        assert len(engines) == int(workers)
        for server in servers if end is signal.SIGKILL else [gateway.process.pid]:
            os.kill(server, end)
        block_until(lambda: not any(is_alive(engine) for engine in engines))


def words_of(pid: int) -> str:
    return (PROC / f"{pid}/cmdline").read_text()


@needs_proc
def test_streams_of_the_engine_end_well_while_the_server_stops(tmp_path: Path, http: httpx.Client) -> None:
    """Ctrl-C signals all processes of the terminal's group, which does not include the engine."""
    with command(CONFIG, tmp_path, within=["setsid"]) as gateway:
        body = {"model": "tiny", "input": "Think in 20 steps about river.", "stream": True}
        with http.stream("POST", f"{gateway.v1}/responses", json=body) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if "delta" in line)
            os.killpg(gateway.process.pid, signal.SIGINT)
            *_, last = (line for line in lines if line.startswith("data: {"))
        assert json.loads(last.removeprefix("data: "))["type"] == "response.completed"
        assert gateway.process.wait(20) == 0


def test_an_engine_that_cannot_start_is_reported_and_other_models_are_served(
    tmp_path: Path, http: httpx.Client
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL.read_bytes()[:2_000_000])
    providers = {"embedded": {**ENGINE, "model": str(cut)}, "other": {"type": "scripted"}}
    models = {**CONFIG["models"], "other": {"provider": "other"}}
    with command({**CONFIG, "providers": providers, "models": models}, tmp_path, forked=True) as gateway:
        reply = ready(http, gateway)
        assert reply.status_code == 503
        assert "model is corrupted or incomplete" in gateway.read_log()
        body = {"input": "Hi", "stream": False}
        refused = http.post(f"{gateway.v1}/responses", json={"model": "tiny", **body})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert http.post(f"{gateway.v1}/responses", json={"model": "other", **body}).status_code == 200
