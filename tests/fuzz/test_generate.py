"""`/generate` blames every value of the wrong type on the field it was given for."""

from tests.faults.client_view import Json, client
from tests.fuzz.damage.wrong_types import DEMO, check_blame, with_wrong_types
from tests.serving import serving

SEED: Json = {
    "model": "demo",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather in Bern?"}]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "name": "weather", "arguments": {"city": "Bern"}},
                {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ],
    "temperature": 0.5,
    "two_pass": False,
    "think_tag": "think",
    "max_thinking_tokens": 5,
    "max_response_tokens": 9,
    "max_completion_tokens": 8,
    "tools": [{"name": "weather", "description": "Now.", "parameters": {"type": "object"}}],
    "tool_choice": {"name": "weather"},
    "tool_parser": "openai",
    "stream": False,
    "top_p": 0.5,
}


async def test_wrong_types_are_blamed_on_the_changed_field() -> None:
    refused = 0
    with serving(DEMO) as gateway:
        async with client() as asking:
            for body, place, value in with_wrong_types(SEED):
                refused += check_blame(await asking.post(f"{gateway.url}/generate", json=body), place, value)
    assert refused > 100
