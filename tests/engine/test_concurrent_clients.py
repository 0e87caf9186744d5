"""Concurrent clients of the embedded engine, and clients that leave."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.engine.engine_gateway import Hosted
from tests.polling import block_until

CLIENTS = 16
SOON_S = 5.0


@pytest.mark.parametrize("model", ["tiny", "two"])
def test_many_at_once_get_the_answers_they_would_get_alone(model: str, client: OpenAI) -> None:
    def ask(number: int) -> tuple[str, str]:
        response = client.responses.create(
            model=model, input=f"What is {number % 8} + {number // 8}?", temperature=0, stream=False
        )
        thought = [part.text for item in response.output if item.type == "reasoning" for part in item.content or ()]
        return "".join(thought), response.output_text

    with ThreadPoolExecutor(CLIENTS) as pool:
        together = list(pool.map(ask, range(CLIENTS)))
    assert together == [
        (f"The user asks for {n % 8} + {n // 8}. That makes {n % 8 + n // 8}.", f"The answer is {n % 8 + n // 8}.")
        for n in range(CLIENTS)
    ]


def stream(client: OpenAI, text: str, **options: Any) -> Any:
    return client.responses.create(model="two", input=text, temperature=0, stream=True, **options)


@pytest.mark.parametrize(
    ("text", "wanted", "budget"),
    [("Think forever.", "response.reasoning_text.delta", 3000), ("Never stop.", "response.output_text.delta", 30)],
    ids=["in the first pass", "in the second"],
)
def test_a_client_that_leaves_frees_the_engine(
    text: str, wanted: str, budget: int, client: OpenAI, engine: Hosted
) -> None:
    with closing(stream(client, text, reasoning={"max_tokens": budget})) as events:
        assert any(event.type == wanted for event in events)
        assert engine.load().running == 1
    block_until(lambda: engine.load().running == 0, "the engine is still at work for nobody", timeout_s=SOON_S)
    assert client.responses.create(model="two", input="Hi", temperature=0).output_text


def test_the_process_answers_others_while_the_engine_is_at_work(client: OpenAI, engine: Hosted) -> None:
    events = stream(client, "Never stop.", max_output_tokens=300)
    with closing(events):
        assert next(event for event in events if event.type == "response.output_text.delta")
        assert httpx.get(f"{engine.url}/healthz", timeout=60).status_code == 200
        assert engine.load().running == 1
