"""Damaged bodies of Gemini's API: each is answered well or refused, and never brings the gateway down."""

from random import Random
from typing import Final

import orjson
import pytest

from tests.faults.client_view import Json, client, read
from tests.faults.config import LONG_S, config
from tests.faults.routes import GEMINI_ROUTES
from tests.fuzz.damage.mutations import mutated
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import ANSWERS, sound

BODIES_PER_ROUTE: Final = 60
_SCHEMA: Final[Json] = {
    "type": "OBJECT",
    "properties": {"city": {"type": "STRING", "enum": ["Bern"], "nullable": True}},
    "required": ["city"],
    "propertyOrdering": ["city"],
}
_JSON_SCHEMA: Final[Json] = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "required": ["a"]}

SEEDS: Final[list[Json]] = [
    {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    {
        "system_instruction": {"parts": {"text": "Be brief."}},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Weather in Bern?"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                    {"file_data": {"file_uri": "https://a.example/b.png", "mime_type": "image/png"}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "I look.", "thoughtSignature": "cmdzMQp0YWJj"},
                    {"functionCall": {"id": "t1", "name": "weather", "args": {"city": "Bern"}}},
                    {"executableCode": {"language": "PYTHON", "code": "1+1"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
                ],
            },
            {
                "role": "function",
                "parts": [{"functionResponse": {"id": "t1", "name": "weather", "response": {"error": "no"}}}],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "weather", "parameters": _SCHEMA, "description": "Now."},
                    {"name": "other", "parametersJsonSchema": _JSON_SCHEMA},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {
            "temperature": 0.5,
            "topK": 5,
            "candidateCount": 1,
            "stopSequences": ["END"],
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000},
        },
        "safetySettings": [{"category": "A", "threshold": "B"}],
        "labels": {"a": "b"},
    },
    {
        "contents": "Hello",
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
        "tools": {"functionDeclarations": {"name": "f", "parametersJsonSchema": _JSON_SCHEMA}},
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": _SCHEMA},
    },
]


@pytest.mark.parametrize(("path", "dialect"), GEMINI_ROUTES.values(), ids=GEMINI_ROUTES)
async def test_a_damaged_body_is_answered_or_refused(path: str, dialect: str) -> None:
    random = Random(f"{path} {dialect}")
    accepted = 0
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(sound(ANSWERS[dialect]))
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for number in range(BODIES_PER_ROUTE):
                body = mutated(random, random.choice(SEEDS), SEEDS)
                stream = number % 2 == 0
                method = "streamGenerateContent?alt=sse" if stream else "generateContent"
                reply = await asking.post(f"{gateway.url}/v1beta/models/m:{method}", content=orjson.dumps(body))
                if reply.status_code == 200:
                    accepted += 1
                    assert read(path, reply, stream=stream).ending == "completed", (number, body)
                else:
                    assert reply.status_code == 400, (number, body, reply.text)
                    assert reply.json()["error"]["message"], (number, body)
    assert accepted
