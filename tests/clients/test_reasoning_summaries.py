"""Thoughts of an open model in clients that request a summary of them, without a setting of the gateway."""

from pathlib import Path

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.codex import Codex, items, message_texts
from tests.clients.coding_agents.test_opencode import PACKAGES, Opencode, titled
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import Script, chat_chunk, chat_sse, chat_text, json_reply
from tests.upstream.builders import CHAT_USAGE, either, whole_chat

THOUGHT = "They want a greeting."
ANSWER = "Good day."


def thinking() -> Script:
    """An answer with thoughts before it, as servers of open models send them."""
    chunks = [
        chat_chunk({"role": "assistant", "reasoning_content": "They want "}),
        chat_chunk({"reasoning_content": "a "}),
        chat_chunk({"reasoning_content": "greeting."}),
        chat_chunk({"content": ANSWER}),
        chat_chunk({}, "stop"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    return either(chat_sse(chunks), json_reply(whole_chat(ANSWER, reasoning_content=THOUGHT)))


async def test_codex_displays_thoughts(codex: Codex, answer: Answer) -> None:
    answer(thinking())
    events = await codex.do("Say good day.")
    assert [item["text"] for item in items(events, "reasoning")] == [THOUGHT]
    assert message_texts(events) == [ANSWER]


async def test_the_ai_sdk_displays_thoughts(clients: InstalledClients, gateway: Gateway, answer: Answer) -> None:
    answer(thinking())
    environment = {"BASE_URL": gateway.v1, "MODEL": "some-model", "API": "responses", "SUMMARY": "auto"}
    got = await clients.run_program("frameworks/ai_sdk.mjs", "reasoning_streamed", **environment)
    assert (got["reasoning"], got["text"], got["errors"]) == (THOUGHT, ANSWER, [])


@pytest.mark.parametrize("case", ["whole", "streamed"])
async def test_langchain_displays_thoughts(
    case: str, clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(thinking())
    got = await clients.run_program("frameworks/langchain_reasoning.py", case, BASE_URL=gateway.v1, MODEL="some-model")
    assert got == {"text": ANSWER, "thinking": [THOUGHT]}


@pytest.mark.parametrize("case", ["summary", "summary_streamed"])
async def test_pydantic_ai_displays_thoughts(
    case: str, clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(thinking())
    environment = {"BASE_URL": gateway.v1, "MODEL": "some-model", "API": "responses"}
    assert (await clients.run_program("frameworks/pydantic_ai_agent.py", case, **environment))["thinking"] == [THOUGHT]


async def test_the_agents_sdk_displays_thoughts(clients: InstalledClients, gateway: Gateway, answer: Answer) -> None:
    answer(thinking())
    environment = {"BASE_URL": gateway.v1, "MODEL": "some-model", "API": "responses"}
    got = await clients.run_program("frameworks/agents_sdk.py", "summary", **environment)
    assert got == {"deltas": THOUGHT, "items": [THOUGHT]}


async def test_opencode_displays_thoughts(
    clients: InstalledClients, gateway: Gateway, answer: Answer, tmp_path: Path
) -> None:
    options = {"forceReasoning": True, "reasoningSummary": "auto"}
    opencode = Opencode(clients, gateway, PACKAGES["responses"], tmp_path, options)
    answer(titled(thinking(), chat_text("never")))
    parts = await opencode.do("Say good day.", "--thinking")
    assert [part["text"] for part in parts if part["type"] == "reasoning"] == [THOUGHT]
    assert [part["text"] for part in parts if part["type"] == "text"] == [ANSWER]
