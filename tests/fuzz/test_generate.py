"""`/generate` blames every value of the wrong type on the field it was given for."""

from copy import deepcopy
from typing import Any

from tests.faults.seen import Json, client
from tests.fuzz.test_wrong_types import DEMO, SAMPLES, places
from tests.serving import serving
from translation.validation import dotted_path

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
    "tools": [{"name": "weather", "description": "Now.", "parameters": {"type": "object"}}],
    "tool_choice": {"name": "weather"},
    "tool_parser": "openai",
    "stream": False,
    "top_p": 0.5,
}


async def test_the_wrong_type_is_blamed_on_what_was_changed() -> None:
    refused = 0
    with serving(DEMO) as gateway:
        async with client() as asking:
            for place in places(SEED):
                for value in SAMPLES.values():
                    body = deepcopy(SEED)
                    container: Any = body
                    for step in place[:-1]:
                        container = container[step]
                    container[place[-1]] = value
                    reply = await asking.post(f"{gateway.url}/generate", json=body)
                    assert reply.status_code in (200, 400), (place, value, reply.text)
                    error = {} if reply.status_code == 200 else reply.json()["error"]
                    if error.get("code") == "invalid_type":
                        refused += 1
                        at, blamed = dotted_path(place), error["param"]
                        assert at.startswith(blamed) or blamed.startswith(at), (place, value, error)
    assert refused > 100
