"""providers/demo: a real llama.cpp for what the model was trained for, and a sentence for the rest."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from providers.base import EngineHost, Provider
from providers.config import ProviderConfig
from providers.demo.provider import BEYOND_DEMO
from providers.profiles import build_profile
from providers.registry import build_provider
from tests.contract.conftest import text_of
from translation.hosted.past_hosted_calls import OUTPUTS_WITHOUT_RESULT
from translation.representation.events import Event, Finished
from translation.representation.turn import Turn
from translation.responses.compaction import SUMMARY_PROMPT

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]  # an engine is started

Json = dict[str, Any]


def message(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def demo(anyio_backend: str) -> AsyncIterator[Provider]:
    provider = build_provider("demo", ProviderConfig(type="demo"))
    assert isinstance(provider, EngineHost)
    async with provider.run_engine():
        async with asyncio.timeout(60):
            await provider.wait_until_settled()
        yield provider


async def run(demo: Provider, *items: Json, **fields: Any) -> list[Event]:
    exchange = demo.prepare(Turn(model="demo", items=items, **fields), build_profile("demo", {}))
    return [event async for batch in exchange.batches() for event in batch]


async def test_a_trained_prompt_is_answered_by_the_model(demo: Provider) -> None:
    events = await run(demo, message("user", "What is 3 + 4?"))
    assert text_of(events) == "The user asks for 3 + 4. That makes 7.The answer is 7."


@pytest.mark.parametrize(
    ("prompt", "quote"),
    [("Why is the sky blue?", "Why is the sky blue?"), ("hey!", "hey!"), ("word " * 20_000, "word " * 40 + "…")],
    ids=["other", "near", "long"],
)
async def test_any_other_prompt_gets_the_same_sentence_and_is_quoted(demo: Provider, prompt: str, quote: str) -> None:
    events = await run(demo, message("user", prompt), tools=[{"type": "function", "name": "shell", "parameters": {}}])
    assert text_of(events) == f"{BEYOND_DEMO} You wrote: {quote}"
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


async def test_the_sentence_obeys_the_limits_of_a_turn(demo: Provider) -> None:
    events = await run(demo, message("user", "Why?"), max_output_tokens=3)
    assert BEYOND_DEMO.startswith(text_of(events))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"
    assert text_of(await run(demo, message("user", "Why?"), sampling={"stop": ["demo"]})) == "I am the "


async def test_the_quote_is_what_the_user_wrote_last(demo: Provider) -> None:
    asked = message("user", "<reminder>Be brief.</reminder>")
    asked["content"].append({"type": "input_text", "text": "Fix the bug."})
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    assert text_of(await run(demo, message("user", "Hi"), asked, message("system", "Go on."), call, output)).endswith(
        ". You wrote: Fix the bug."
    )
    assert text_of(await run(demo, message("system", "Be brief."))) == BEYOND_DEMO


async def test_earlier_turns_do_not_change_the_quote(demo: Provider) -> None:
    history = [message("user", "My name is Ada."), message("user", "Why?"), message("assistant", BEYOND_DEMO)]
    for prompt, answer in (("What is 3 + 4?", "The answer is 7."), ("What is my name?", "Your name is Ada.")):
        assert text_of(await run(demo, *history, message("user", prompt))).endswith(answer)


async def test_input_is_counted_as_it_is_used(demo: Provider) -> None:
    turn = Turn(model="demo", items=[message("user", "word " * 100), message("user", "What is 3 + 4?")])
    counted = await demo.count_tokens(turn, build_profile("demo", {}), "chat")
    ended = (await run(demo, *turn.items))[-1]
    assert isinstance(ended, Finished)
    assert ended.usage is not None
    assert ended.usage.input == counted


async def test_a_summary_quotes_the_conversation(demo: Provider) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"query": "apple"}'}
    output = {"type": "function_call_output", "call_id": "c", "output": "x" * 500}
    history = [message("user", "My name is Ada."), message("assistant", "Nice to meet you, Ada."), call, output]
    assert text_of(await run(demo, *history, message("user", SUMMARY_PROMPT))) == (
        "The user wrote: My name is Ada.\n"
        "The assistant answered: Nice to meet you, Ada.\n"
        'The assistant called search {"query": "apple"}\n'
        f"The tool returned: {'x' * 200}…"
    )


async def test_a_long_conversation_is_quoted_from_its_end(demo: Provider) -> None:
    history = [message("user", f"Count to {number}.") for number in range(50)]
    lines = text_of(await run(demo, *history, message("user", SUMMARY_PROMPT))).splitlines()
    assert lines[0] == "(10 earlier entries are left out.)"
    assert lines[-1] == "The user wrote: Count to 49."
    assert text_of(await run(demo, message("user", SUMMARY_PROMPT))) == "The conversation was empty."


@pytest.mark.parametrize("output", dict.fromkeys(OUTPUTS_WITHOUT_RESULT))
async def test_a_call_without_a_result_is_said_to_have_none(demo: Provider, output: str) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": '{"city": "Paris"}'}
    items = [
        message("user", "What is the weather in Paris?"),
        call,
        {"type": "function_call_output", "call_id": "c", "output": output},
    ]
    assert text_of(await run(demo, *items)) == f"I have no answer. {output}"
    assert not text_of(await run(demo, *items, message("user", "What is 3 + 4?"))).startswith("I have no answer")


@pytest.mark.parametrize("max_tokens", [100, 300, 301, 600, 2000])
async def test_thoughts_without_end_are_followed_by_an_answer(demo: Provider, max_tokens: int) -> None:
    events = await run(demo, message("user", "Think forever."), reasoning={"max_tokens": max_tokens})
    assert text_of(events).endswith("I stopped thinking.")
