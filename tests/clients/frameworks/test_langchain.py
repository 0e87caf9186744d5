"""LangChain's ChatOpenAI and ChatAnthropic, judged by LangChain's own standard tests."""

import re
from collections.abc import Iterable, Mapping

import pytest

from tests.clients.client_processes import PROGRAMS, InstalledClients
from tests.clients.conftest import Answer
from tests.clients.frameworks.langchain_model import answer_langchain_tests
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_text

STANDARD_TESTS = "frameworks/langchain_standard.py"

BEYOND_TINY = {
    "test_tool_calling": "It calls only the tools that docs/demo.md lists.",
    "test_bind_runnables_as_tools": "It writes the texts of unknown arguments without an end.",
    "test_tool_choice": "It calls only the tools that docs/demo.md lists.",
    "test_structured_output[pydantic]": "It writes the texts of unknown arguments without an end.",
    "test_structured_output[typeddict]": "It writes the texts of unknown arguments without an end.",
    "test_structured_output_async[pydantic]": "It writes the texts of unknown arguments without an end.",
    "test_structured_output_async[typeddict]": "It writes the texts of unknown arguments without an end.",
    "test_structured_output_pydantic_2_v1": "It writes the texts of unknown arguments without an end.",
    "test_structured_output_optional_param": "It writes the texts of unknown arguments without an end.",
    "test_json_mode": "It writes the texts of unknown keys without an end.",
    "test_image_inputs": "It reads no images.",
    "test_image_tool_message": "It reads no images.",
    "test_agent_loop": "It calls only the tools that docs/demo.md lists.",
    "test_unicode_tool_call_integration": "It writes the texts of unknown arguments without an end.",
}
"""Standard tests that the tiny model cannot pass, with the reason. A name stands for all that begin with it."""


async def run_standard_tests(
    clients: InstalledClients, gateway: Gateway, left_out: Iterable[str] = (), **env: str
) -> str:
    """Returns the output of LangChain's standard tests. All except the listed ones must pass."""
    options = [option for name in left_out for option in ("--deselect", f"{STANDARD_TESTS}::TestGateway::{name}")]
    ran = await clients.run(
        str(clients.python),
        *("-m", "pytest", "-q", "-rf", "--tb=short", "--noconftest", "-c", "/dev/null", "--rootdir", str(PROGRAMS)),
        # One event loop for all: langchain keeps its connections for the whole process.
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"),
        *("-p", "no:cacheprovider", *options, STANDARD_TESTS),
        env={"BASE_URL": gateway.v1, **env},
    )
    assert ran.code == 0, ran.out[-8000:]
    return ran.out


@pytest.mark.parametrize("api", ["responses", "chat", "state"])
async def test_the_standard_tests_of_langchain_pass(
    api: str, clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(answer_langchain_tests)
    printed = await run_standard_tests(clients, gateway, API=api, MODEL="some-model")
    assert re.search(r"\b4\d passed", printed), "most of them were skipped"


@pytest.mark.parametrize(("front", "left_out"), [("chat", {}), ("responses", {})], indirect=["front"])
async def test_the_standard_tests_of_langchain_pass_over_messages(
    left_out: Mapping[str, str], clients: InstalledClients, front: Gateway, answer: Answer
) -> None:
    answer(answer_langchain_tests)
    printed = await run_standard_tests(clients, front, left_out, API="messages", MODEL="some-model")
    assert re.search(r"\b4\d passed", printed), "most of them were skipped"


async def test_the_standard_tests_that_a_tiny_model_can_pass_do_over_messages(
    clients: InstalledClients, engine_gateway: Gateway
) -> None:
    env = {"API": "messages", "MODEL": "tiny", "MAX_TOKENS": "100"}
    printed = await run_standard_tests(clients, engine_gateway, BEYOND_TINY, **env)
    assert re.search(r"\b2\d passed", printed), "most of them were left out"


@pytest.mark.parametrize("case", ["whole", "streamed"])
async def test_only_new_items_are_sent_and_the_model_reads_all_items(
    case: str, clients: InstalledClients, stateful_gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("add", '{"a":2,"b":40}')), chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    got = await clients.run_program(
        "frameworks/langchain_state.py", case, BASE_URL=stateful_gateway.v1, MODEL="some-model"
    )
    assert got == {"text": "Ada.", "new": 1}
    roles = [message["role"] for message in upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
