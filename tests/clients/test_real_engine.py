"""A tool round trip of the frameworks on a real model."""

from collections.abc import Iterator
from itertools import product

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import kept_in
from tests.integration.engines import llama
from tests.serving import Gateway, serving

ANSWERS = {"agents_sdk.py": "text", "agents_sdk.mjs": "text", "ai_sdk.mjs": "text", "pydantic_ai_agent.py": "output"}
"""Program -> its word for the answer."""

WAYS = [*product(ANSWERS, ("responses", "chat")), ("pydantic_ai_agent.py", "messages")]
"""Programs and the APIs that they use."""


@pytest.fixture(scope="module")
def engine_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("llama")
    with llama(folder / "server.log") as engine:
        config = {
            "store": kept_in(folder / "state.db"),
            "providers": {"engine": {"type": engine.kind, "base_url": f"{engine.url}/v1"}},
            "models": {"tiny": {"provider": "engine", "request_defaults": {"temperature": 0}}},
        }
        with serving(config) as gateway:
            yield gateway


@pytest.mark.parametrize(("program", "api"), WAYS)
@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_the_model_calls_runs_and_its_result_is_used(
    program: str, api: str, case: str, clients: InstalledClients, engine_gateway: Gateway
) -> None:
    got = await clients.run_program(
        program, case, BASE_URL=engine_gateway.v1, MODEL="tiny", API=api, PROMPT="Use add for 2 and 40."
    )
    assert got[ANSWERS[program]] == "The answer is 42."
