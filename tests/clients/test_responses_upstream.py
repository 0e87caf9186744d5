"""The frameworks and Codex before an upstream that speaks Responses: another gateway with the demo model.

What asks for Responses is relayed, what asks for chat is translated. Only the gateway in front is to keep anything.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.client_processes import AGENT_APIS, ANSWER_KEYS, InstalledClients
from tests.clients.coding_agents.codex import Codex, items, message_texts
from tests.clients.conftest import before, list_stored_objects, store_section
from tests.serving import Gateway, serving


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("state")
    demo = {"providers": {"demo": {"type": "scripted"}}, "models": {"demo": {"provider": "demo"}}}
    with serving({**demo, "store": store_section(folder / "upstream.db")}) as upstream:
        config = before(upstream.v1, dialects=["responses"])
        with serving(
            {**config, "models": {"*": {"provider": "upstream"}}, "store": store_section(folder / "state.db")}
        ) as front:
            yield front
        assert list_stored_objects(upstream) == []


@pytest.mark.parametrize(("program", "api"), AGENT_APIS)
@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_runs_and_its_result_is_sent_back(
    program: str, api: str, case: str, clients: InstalledClients, front: Gateway
) -> None:
    got = await clients.run_program(program, case, BASE_URL=front.v1, MODEL="demo", API=api)
    assert "add returned: " in got[ANSWER_KEYS[program]]


@pytest.mark.parametrize("program", ["frameworks/agents_sdk.py", "frameworks/agents_sdk.mjs"])
@pytest.mark.parametrize(
    ("case", "ran"),
    [
        ("shell", [["string"]]),
        ("patch", [["create_file", "string", "string"]]),
        ("namespace", [[0, 0]]),
        ("conversation", [[0, 0]]),
        ("reasoning", [[0, 0]]),
        ("image", []),
        ("handoff", []),
        ("format", []),
    ],
)
async def test_every_kind_of_tool_and_item_makes_the_round_trip(
    program: str, case: str, ran: list, clients: InstalledClients, front: Gateway
) -> None:
    got = await clients.run_program(program, case, BASE_URL=front.v1, MODEL="demo", API="responses")
    assert got["ran"] == ran
    assert got["text"]


async def test_a_command_of_codex_runs(clients: InstalledClients, front: Gateway, tmp_path: Path) -> None:
    events = await Codex(clients, front.v1, tmp_path).do("Use exec_command.", model="demo")
    (command,) = items(events, "command_execution")
    assert command["exit_code"] == 127, "the demo model makes its commands up"
    assert message_texts(events)[0].startswith("exec_command returned: ")
