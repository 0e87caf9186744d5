"""The engine inside calls tools that the gateway runs, with one pass and with two."""

import pytest
from openai import OpenAI

from tests.integration.real_engines.test_hosted_tools import check_weather
from tests.mcp_server import mcp_server


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["tiny", "two"])
def test_a_thinking_model_has_its_tool_run_in_one_response(client: OpenAI, model: str, streams: bool) -> None:
    with mcp_server() as calc:
        check_weather(client, calc, model, streams=streams)
