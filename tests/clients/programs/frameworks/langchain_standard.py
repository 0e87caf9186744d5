"""LangChain's own standard tests of a chat model; `pytest` of the clients' environment runs them.

API is `responses`, `chat`, `messages` or `state`, which is `responses` with what was said before left to the server;
BASE_URL and MODEL say what is asked, and MAX_TOKENS limits the answers of `messages`.
"""

import base64
import os
from typing import Any

import httpx
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def _pictures_without_the_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests get a picture from a public address; only what becomes of it matters."""
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, content=DOT))


class TestGateway(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatAnthropic if os.environ["API"] == "messages" else ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        if os.environ["API"] == "messages":
            return {
                "model": os.environ["MODEL"],
                "base_url": os.environ["BASE_URL"].removesuffix("/v1"),
                "api_key": "none",
                "max_retries": 0,
                "max_tokens": int(os.environ.get("MAX_TOKENS", "1024")),
            }
        return {
            "model": os.environ["MODEL"],
            "base_url": os.environ["BASE_URL"],
            "use_responses_api": os.environ["API"] != "chat",
            "use_previous_response_id": os.environ["API"] == "state",
            "max_retries": 0,
            "stream_usage": True,
        }

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        # Chat Completions has no images in tool messages.
        return os.environ["API"] != "chat"

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_json_mode(self) -> bool:
        return True
