"""Clients that request no storage, and a server without a store."""

from pathlib import Path

import pytest

from tests.clients.client_processes import ANSWER_KEYS, InstalledClients
from tests.clients.coding_agents.codex import Codex, items, message_texts
from tests.clients.coding_agents.test_opencode import PACKAGES, Opencode, titled
from tests.clients.conftest import Answer, list_stored_objects
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_text

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.mark.parametrize("built_in", [False, True], ids=["HTTP", "WebSocket"])
async def test_codex_stores_nothing(built_in: bool, codex: Codex, gateway: Gateway, answer: Answer) -> None:
    answer(chat_calls(("exec_command", '{"cmd":"true"}')), chat_text("Done."))
    chosen = ("--config", "model_provider=openai", "--config", f"openai_base_url={gateway.v1}") if built_in else ()
    assert message_texts(await codex.do(*chosen, "Do nothing.")) == ["Done."]
    assert list_stored_objects(gateway) == []


async def test_opencode_stores_nothing(
    clients: InstalledClients, gateway: Gateway, answer: Answer, tmp_path: Path
) -> None:
    answer(titled(chat_text("Good day."), chat_text("never")))
    await Opencode(clients, gateway, PACKAGES["responses"], tmp_path).do("Say good day.")
    assert list_stored_objects(gateway) == []


async def test_the_ai_sdk_stores_only_what_it_is_configured_to(
    clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(ADDS, chat_text("It is 42."))
    env = {"BASE_URL": gateway.v1, "MODEL": "some-model", "API": "responses"}
    await clients.run_program("frameworks/ai_sdk.mjs", "tools", STORE="false", **env)
    assert list_stored_objects(gateway) == []
    await clients.run_program("frameworks/ai_sdk.mjs", "text", **env)
    assert len(list_stored_objects(gateway)) == 1


@pytest.mark.parametrize("program", ANSWER_KEYS)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_without_a_store_a_tool_runs_and_its_result_is_sent_back(
    program: str, api: str, clients: InstalledClients, stateless: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("It is 42."))
    env = {"BASE_URL": stateless.v1, "MODEL": "some-model", "API": api, "STORE": "false"}
    assert (await clients.run_program(program, "tools_streamed", **env))[ANSWER_KEYS[program]] == "It is 42."
    assert [message["role"] for message in upstream.requests[1].json["messages"]] == ["user", "assistant", "tool"]


async def test_without_a_store_codex_runs_a_command(
    clients: InstalledClients, stateless: Gateway, answer: Answer, tmp_path: Path
) -> None:
    answer(chat_calls(("exec_command", '{"cmd":"echo forty-$((1+1))"}')), chat_text("It says forty-2."))
    events = await Codex(clients, stateless.v1, tmp_path).do("Run it.")
    assert items(events, "command_execution")[0]["aggregated_output"] == "forty-2\n"
    assert message_texts(events) == ["It says forty-2."]


@pytest.mark.parametrize("program", ["sdks/openai_sdk.py", "sdks/openai_sdk.mjs"])
async def test_without_a_store_the_official_sdks_are_answered(
    program: str, clients: InstalledClients, stateless: Gateway, answer: Answer
) -> None:
    answer(chat_text("Good ", "day."))
    got = await clients.run_program(program, "response_streamed", BASE_URL=stateless.v1, MODEL="some-model")
    assert got["text"] == "Good day."


async def test_without_a_store_state_is_refused_by_name(clients: InstalledClients, stateless: Gateway) -> None:
    previous, conversation, background, *readings = await clients.run_program(
        "sdks/openai_state.py", "refused", BASE_URL=stateless.v1, MODEL="demo"
    )
    assert previous == ["BadRequestError", "previous_response_not_found", "previous_response_id"]
    assert (conversation[0], conversation[2]) == ("BadRequestError", "conversation")
    assert (background[0], background[2]) == ("BadRequestError", "background")
    assert [reading[0] for reading in readings] == ["NotFoundError", "NotFoundError"]


async def test_without_a_store_the_ai_sdk_must_send_its_items(clients: InstalledClients, stateless: Gateway) -> None:
    got = await clients.run_program(
        "frameworks/ai_sdk.mjs", "conversation_failure", BASE_URL=stateless.v1, MODEL="demo", API="responses"
    )
    assert (got["name"], got["status"]) == ("AI_APICallError", 400)
    assert "send the item itself" in got["message"]
