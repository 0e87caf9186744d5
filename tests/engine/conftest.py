"""Fixtures: one gateway with an embedded vLLM for all tests of this folder that do not break it."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.engine.engine_gateway import Hosted, Json, hosted
from tests.integration.both_apis import Api, ChatApi, ResponsesApi

MODELS: dict[str, Json] = {
    "tiny": {"provider": "local"},
    "two": {
        "provider": "local",
        "two_pass": True,
        "max_thinking_tokens": 64,
        "bridge": "Now I answer.",
        "effort_budgets": {"minimal": 0, "low": 5},
    },
    "within": {"provider": "local", "two_pass": "engine", "max_thinking_tokens": 64},
    "one block": {"provider": "local", "two_pass": True, "single_tool_block": True},
    "short": {"provider": "local", "two_pass": True, "max_response_tokens": 6},
    "qwen": {"provider": "local", "tool_parser": "vllm:hermes"},
    "llama": {"provider": "local", "tool_parser": "vllm:llama3_json"},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(MODELS, tmp_path_factory.mktemp("gateway"), egress={"allow": ["127.0.0.1"]}) as found:
        yield found


@pytest.fixture(scope="session")
def client(engine: Hosted) -> Iterator[OpenAI]:
    with OpenAI(base_url=engine.v1, api_key="none", max_retries=0, timeout=60) as found:
        yield found


@pytest.fixture(
    params=[(ResponsesApi, False), (ResponsesApi, True), (ChatApi, False), (ChatApi, True)],
    ids=["responses", "responses streamed", "chat", "chat streamed"],
)
def api(request: pytest.FixtureRequest, client: OpenAI) -> Api:
    kind, streaming = request.param
    found: Api = kind(client, streaming=streaming)
    return found
