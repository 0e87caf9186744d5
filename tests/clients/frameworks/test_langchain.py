"""LangChain's ChatOpenAI and ChatAnthropic, judged by LangChain's own standard tests."""

import re

import pytest

from tests.clients.client_processes import PROGRAMS, InstalledClients
from tests.clients.conftest import Answer
from tests.clients.frameworks.langchain_model import answer_langchain_tests
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_text


@pytest.mark.parametrize("api", ["responses", "chat", "messages", "state"])
async def test_the_standard_tests_of_langchain_pass(
    api: str, clients: InstalledClients, gateway: Gateway, answer: Answer
) -> None:
    answer(answer_langchain_tests)
    ran = await clients.run(
        str(clients.python),
        *("-m", "pytest", "-q", "-rf", "--tb=short", "--noconftest", "-c", "/dev/null", "--rootdir", str(PROGRAMS)),
        # One event loop for all: langchain keeps its connections for the whole process.
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"),
        *("-p", "no:cacheprovider", "frameworks/langchain_standard.py"),
        env={"API": api, "MODEL": "some-model", "BASE_URL": gateway.v1},
    )
    assert ran.code == 0, ran.out[-8000:]
    assert re.search(r"\b4\d passed", ran.out), "most of them were skipped"


@pytest.mark.parametrize("case", ["whole", "streamed"])
async def test_only_what_is_new_is_sent_and_the_model_reads_it_all(
    case: str, clients: InstalledClients, keeper: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("add", '{"a":2,"b":40}')), chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    got = await clients.run_program("frameworks/langchain_state.py", case, BASE_URL=keeper.v1, MODEL="some-model")
    assert got == {"text": "Ada.", "new": 1}
    roles = [message["role"] for message in upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
