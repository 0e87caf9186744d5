"""A tool round trip of the frameworks on a real model."""

import pytest

from tests.clients.client_processes import AGENT_APIS, ANSWER_KEYS, InstalledClients
from tests.serving import Gateway


@pytest.mark.parametrize(("program", "api"), AGENT_APIS)
@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_the_model_calls_runs_and_its_result_is_used(
    program: str, api: str, case: str, clients: InstalledClients, engine_gateway: Gateway
) -> None:
    got = await clients.run_program(
        program, case, BASE_URL=engine_gateway.v1, MODEL="tiny", API=api, PROMPT="Use add for 2 and 40."
    )
    assert got[ANSWER_KEYS[program]] == "The answer is 42."
