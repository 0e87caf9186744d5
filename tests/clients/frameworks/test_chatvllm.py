"""The gateway's own LangChain model, by LangChain's own standard tests and by what it promises beyond them."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.client_processes import PROGRAMS, ROOT, EndedProcess, InstalledClients
from tests.clients.conftest import Answer
from tests.clients.frameworks.langchain_model import answer_langchain_tests
from tests.integration.engines import llama
from tests.serving import Gateway, serving


async def run_tests(clients: InstalledClients, program: str, env: Mapping[str, str]) -> EndedProcess:
    return await clients.run(
        str(clients.python),
        *("-m", "pytest", "-q", "-rf", "--tb=short", "--noconftest", "-c", "/dev/null", "--rootdir", str(PROGRAMS)),
        *("-o", "asyncio_mode=auto", "-p", "no:cacheprovider", program),
        env={**env, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("split", ["yes", "no"], ids=["split", "raw"])
@pytest.mark.parametrize("api", ["generate", "responses"])
async def test_the_standard_tests_of_langchain_pass(
    api: str, split: str, clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(answer_langchain_tests)
    env = {"API": api, "SPLIT": split, "MODEL": "some-model", "BASE_URL": gateway.url}
    ran = await run_tests(clients, "frameworks/chatvllm_standard.py", env)
    assert ran.code == 0, ran.out[-8000:]
    assert re.search(r"\b(4|5)\d passed", ran.out), "most of them were skipped"


async def test_thinking_calls_and_failures_are_reported_as_documented(
    clients: InstalledClients, gateway: Gateway
) -> None:
    ran = await run_tests(clients, "frameworks/chatvllm_own.py", {"BASE_URL": gateway.url})
    assert ran.code == 0, ran.out[-8000:]


async def test_a_real_engine_thinks_in_two_passes_for_it(clients: InstalledClients, tmp_path: Path) -> None:
    with llama(tmp_path / "server.log") as engine:
        config = {
            "providers": {"engine": {"type": "llama_server", "base_url": f"{engine.url}/v1"}},
            "models": {"tiny": {"provider": "engine", "two_pass": True, "tool_parser": "hermes"}},
        }
        with serving(config) as running:
            ran = await run_tests(clients, "frameworks/chatvllm_two_pass.py", {"BASE_URL": running.url})
    assert ran.code == 0, ran.out[-8000:]
