"""Damaged AG-UI runs are refused by the field that is wrong, or are whole runs."""

from random import Random

import orjson

from tests.agui_events import read_run
from tests.faults.client_view import Json, client
from tests.fuzz.damage.mutations import mutated
from tests.fuzz.damage.wrong_types import DEMO, check_blame, with_wrong_types
from tests.serving import serving

BODIES = 300

SEED: Json = {
    "threadId": "thread",
    "runId": "run",
    "parentRunId": "before",
    "protocolVersion": "1.0",
    "state": {"page": 1},
    "context": [{"description": "page", "value": "start"}],
    "messages": [
        {"id": "1", "role": "system", "content": "Be brief."},
        {"id": "2", "role": "user", "content": [{"type": "text", "text": "Weather in Bern?"}]},
        {"id": "rs_1:0", "role": "reasoning", "content": "Hm."},
        {
            "id": "msg_1",
            "role": "assistant",
            "content": "I look.",
            "toolCalls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
            ],
        },
        {"id": "4", "role": "tool", "toolCallId": "call_1", "content": "sunny", "error": "late"},
        {"id": "5", "role": "activity", "activityType": "x", "content": {}},
        {
            "id": "6",
            "role": "user",
            "content": [{"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}],
        },
    ],
    "tools": [{"name": "weather", "description": "Now.", "parameters": {"type": "object"}}],
    "forwardedProps": {
        "model": "demo",
        "temperature": 0.5,
        "instructions": "Be kind.",
        "include_state": True,
        "reset_state": False,
        "raw_events": False,
        "tools": [{"type": "web_search"}],
        "other": 1,
    },
    "resume": [{"interruptId": "mcpr_1", "status": "resolved", "payload": {"approved": True}}],
}


async def test_wrong_types_are_blamed_on_the_changed_field() -> None:
    refused = 0
    with serving(DEMO) as gateway:
        async with client() as asking:
            for body, place, value in with_wrong_types(SEED):
                reply = await asking.post(f"{gateway.v1}/agui", json=body)
                refused += check_blame(reply, place, value)
                if reply.status_code == 200:
                    read_run(reply.content)
    assert refused > 100


async def test_a_damaged_run_is_whole_or_refused_by_name() -> None:
    random = Random("agui")
    outcomes: set[int] = set()
    with serving(DEMO) as gateway:
        async with client() as asking:
            for number in range(BODIES):
                body = mutated(random, SEED, [SEED])
                reply = await asking.post(f"{gateway.v1}/agui", content=orjson.dumps(body))
                outcomes.add(reply.status_code)
                try:
                    if reply.status_code == 200:
                        assert read_run(reply.content)[-1]["type"] == "RUN_FINISHED"
                    else:
                        assert reply.status_code in (400, 404)
                        assert reply.json()["error"]["message"]
                except Exception as error:
                    error.add_note(f"body {number}: {orjson.dumps(body).decode()}")
                    raise
    assert {200, 400} <= outcomes
