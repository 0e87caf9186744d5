"""A prompt has the same bytes whichever process sends it, so that an upstream finds in its cache what another has sent.

Sets of strings are in another order in each process. Nothing that is sent may depend on it.
"""

import os
import subprocess
import sys

import orjson

from translation.chat.upstream import lower as chat
from translation.gemini.upstream import lower as gemini
from translation.messages.upstream import lower as anthropic
from translation.ollama.upstream import lower as ollama
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.client.lift import lift
from translation.responses.upstream import lower as responses
from translation.tools.tool_rewriting import rewrite_tools

SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "z": {"type": ["string", "null"], "description": "The end."},
        "a": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "string", "enum": ["q", "b"]}]},
        "m": {"type": "array", "items": {"$ref": "#/$defs/w"}, "minItems": 1},
    },
    "required": ["z", "a"],
    "allOf": [{"type": "object", "properties": {"k": {"type": "string", "title": "K", "default": "x"}}}],
    "$defs": {"w": {"type": "object", "properties": {"y": {"type": "number"}, "b": {"type": "boolean"}}}},
}


def lowered_bodies() -> list[Json]:
    """The bodies of one request with tools for every wire dialect, and for models without tools."""
    tools: list[Json] = [
        {"type": "function", "name": name, "description": "Does it.", "parameters": SCHEMA, "strict": False}
        for name in "zbma"
    ]
    question = [{"role": "user", "content": "Hi"}]
    turn = lift({"model": "m", "instructions": "Be short.", "input": question, "tools": tools, "temperature": 0.1})
    rewritten: Turn = rewrite_tools(turn, kinds=frozenset({"function"}), hosted=frozenset()).turn
    shimmed = Profile(text_tool_calls="hermes")
    bodies = [dialect.lower(rewritten, Profile()).body for dialect in (chat, anthropic, gemini, ollama, responses)]
    return [*bodies, chat.lower(rewritten, shimmed).body]


def test_a_request_has_the_same_bytes_in_every_process() -> None:
    program = "import tests.unit.translation.test_stable_order as t, orjson; print(orjson.dumps(t.lowered_bodies()))"
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    first, second = (
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
        for environment in environments
    )
    assert first == second != b""


def test_tools_and_the_keys_of_their_schemas_are_in_the_order_of_the_client() -> None:
    sent, *_ = lowered_bodies()
    assert [tool["function"]["name"] for tool in sent["tools"]] == [*"zbma"]
    assert orjson.dumps(sent["tools"][0]["function"]["parameters"]) == orjson.dumps(SCHEMA)
