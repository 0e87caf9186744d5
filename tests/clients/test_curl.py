"""curl, with the calls of the README."""

from pathlib import Path

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_text
from tests.upstream.builders import json_reply

SMOKE = Path(__file__).parents[2] / "scripts/smoke.sh"


@pytest.mark.parametrize("model", ["demo", "some-model"])
async def test_the_calls_of_the_readme_work(
    model: str, clients: InstalledClients, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    greeting = chat_text("Good ", "day.")
    answer(greeting, chat_calls(("get_weather", '{"city": "Paris"}')), greeting)
    upstream.on("/models", json_reply({"object": "list", "data": [{"id": "some-model", "object": "model"}]}))
    ran = await clients.run(str(SMOKE), env={"BASE_URL": gateway.v1, "MODEL": model})
    assert ran.code == 0, ran.out + ran.err
