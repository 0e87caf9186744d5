"""The gateway, started as its users start it, before real engines."""

import os
from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.integration.both_apis import Api, ChatApi, ResponsesApi
from tests.integration.engines import Engine, llama, vllm
from tests.serving import command
from tests.shared.parser_servers import forked_parser_servers


@pytest.fixture(scope="module", autouse=True)
def parser_servers() -> Iterator[None]:
    with forked_parser_servers():
        yield


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with llama(tmp_path_factory.mktemp("llama") / "server.log") as engine:
        yield engine


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    python = os.environ.get("ENGINE_PYTHON")
    if python is None:
        raise pytest.UsageError("ENGINE_PYTHON must name a Python that has vLLM; `make test-engine` sets one up")
    with vllm(python, tmp_path_factory.mktemp("vllm") / "server.log") as engine:
        yield engine


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("llama_server", id="llama.cpp"),
        pytest.param("vllm_server", id="vLLM", marks=[pytest.mark.engine, pytest.mark.timeout(400)]),
    ],
)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def client(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """The official SDK, pointed at a gateway that knows the engine as the model `tiny`."""
    config = {
        "providers": {"engine": {"type": engine.kind, "base_url": f"{engine.url}/v1"}},
        "models": {"tiny": {"provider": "engine", "thinking_switch": "chat_template_kwargs"}},
    }
    with (
        command(config, tmp_path_factory.mktemp("gateway"), forked=True) as gateway,
        OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


@pytest.fixture(
    params=[(ResponsesApi, False), (ResponsesApi, True), (ChatApi, False), (ChatApi, True)],
    ids=["responses", "responses streamed", "chat", "chat streamed"],
)
def api(request: pytest.FixtureRequest, client: OpenAI) -> Api:
    kind, streaming = request.param
    found: Api = kind(client, streaming=streaming)
    return found
