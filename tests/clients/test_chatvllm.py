"""The gateway's own LangChain model, judged by LangChain's own standard tests."""

import re

import pytest

from tests.clients.conftest import Answer
from tests.clients.knowing import knowing
from tests.clients.running import PROGRAMS, ROOT, Installed
from tests.serving import Gateway


@pytest.mark.parametrize("split", ["yes", "no"], ids=["split", "raw"])
@pytest.mark.parametrize("api", ["generate", "responses"])
async def test_the_standard_tests_of_langchain_pass(
    api: str, split: str, clients: Installed, gateway: Gateway, answer: Answer
) -> None:
    answer(knowing)
    ran = await clients.run(
        str(clients.python),
        *("-m", "pytest", "-q", "-rf", "--tb=short", "--noconftest", "-c", "/dev/null", "--rootdir", str(PROGRAMS)),
        *("-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "chatvllm_standard.py"),
        env={"API": api, "SPLIT": split, "MODEL": "some-model", "BASE_URL": gateway.url, "PYTHONPATH": str(ROOT)},
    )
    assert ran.code == 0, ran.out[-8000:]
    assert re.search(r"\b(4|5)\d passed", ran.out), ran.out[-2000:]
