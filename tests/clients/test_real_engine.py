"""A tool round trip of the frameworks on a real model."""

from itertools import product

import pytest

from tests.clients.client_processes import InstalledClients
from tests.serving import Gateway

ANSWERS = {"agents_sdk.py": "text", "agents_sdk.mjs": "text", "ai_sdk.mjs": "text", "pydantic_ai_agent.py": "output"}
"""Program -> its word for the answer."""

WAYS = [*product(ANSWERS, ("responses", "chat")), ("pydantic_ai_agent.py", "messages")]
"""Programs and the APIs that they use."""


@pytest.mark.parametrize(("program", "api"), WAYS)
@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_the_model_calls_runs_and_its_result_is_used(
    program: str, api: str, case: str, clients: InstalledClients, engine_gateway: Gateway
) -> None:
    got = await clients.run_program(
        program, case, BASE_URL=engine_gateway.v1, MODEL="tiny", API=api, PROMPT="Use add for 2 and 40."
    )
    assert got[ANSWERS[program]] == "The answer is 42."
