"""LangChain's own standard tests of a chat model, on ChatVllm; `pytest` of the clients' environment runs them.

API is `generate` or `responses`, SPLIT is `yes` where thinking is apart; BASE_URL and MODEL say what is asked.
"""

import base64
import os
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from responses_gateway_clients.langchain import ChatVllm

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

PARAMS = {
    "api": os.environ["API"],
    "model": os.environ["MODEL"],
    "base_url": os.environ["BASE_URL"],
    "split_thinking": os.environ["SPLIT"] == "yes",
    "max_retries": 0,
}


@pytest.fixture(autouse=True)
def _pictures_without_the_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests get a picture from a public address; only what becomes of it matters."""
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, content=DOT))


class TestModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatVllm

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {name: PARAMS[name] for name in ("api", "model", "base_url")}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"RESPONSES_GATEWAY_API_KEY": "secret"}, {"model": "tiny"}, {"api_key": "secret"}


class TestGateway(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatVllm

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMS

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        # Chat's tool messages hold no pictures.
        return os.environ["API"] == "responses"

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "another-model"
