"""Two passes on a real embedded llama.cpp: many at once, and one directly after the other."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.embedded.embedded_engine import CONFIG, ENGINE
from tests.serving import Command, command

pytestmark = pytest.mark.timeout(180)  # a server with an engine is started and ended

TURNS = 300
AT_ONCE = 16

MAX_GAP_S = 0.05
"""The pause is 2 ms on an idle machine, and any pause may be longer on a busy one. A connection that the server closed
once delayed each by 100 ms."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    engine = {**ENGINE, "engine": {"n_ctx": 8192, "n_parallel": 4, "cpuparams.n_threads": 1}}
    thinker = {**CONFIG["models"]["thinker"], "max_thinking_tokens": 64, "max_response_tokens": 64}
    config = {**CONFIG, "providers": {"embedded": engine}, "models": {"thinker": thinker}}
    with command(config, tmp_path_factory.mktemp("two_passes"), forked=True) as gateway:
        yield gateway


async def test_no_turn_of_many_at_once_fails(gateway: Command) -> None:
    outcomes: Counter[str] = Counter()
    numbers = iter(range(TURNS))
    async with httpx.AsyncClient(base_url=gateway.v1, timeout=60, trust_env=False) as client:

        async def send_turns() -> None:
            for number in numbers:
                body: dict[str, Any] = {"model": "thinker", "input": f"What is {number % 9} + {number % 7}?"}
                reply = await client.post("/responses", json=body)
                outcomes[reply.json().get("status") if reply.status_code == 200 else reply.text] += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(send_turns())
    assert set(outcomes) <= {"completed", "incomplete"}, outcomes
    assert outcomes.total() == TURNS


def test_the_answer_follows_the_thinking_at_once(gateway: Command) -> None:
    with httpx.Client(base_url=gateway.v1, timeout=60, trust_env=False) as client:
        gaps = [_gap_between_passes(client, f"What is {number} + 4?") for number in range(9)]
    assert min(gaps) < MAX_GAP_S, gaps


def _gap_between_passes(client: httpx.Client, question: str) -> float:
    """Returns the seconds between the last delta of the thinking and the first of the answer."""
    thought_at = 0.0
    with client.stream("POST", "/responses", json={"model": "thinker", "input": question, "stream": True}) as reply:
        for line in reply.iter_lines():
            if '"response.output_text.delta"' in line:
                return time.perf_counter() - thought_at
            if '"response.reasoning_text.delta"' in line:
                thought_at = time.perf_counter()
    raise AssertionError("there was no answer")
