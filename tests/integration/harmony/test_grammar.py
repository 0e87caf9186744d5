"""The grammars of Harmony on a real llama-server. Its model is not gpt-oss: other tokens stand for the marks."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import orjson
import pytest

from providers.harmony.encoding import ControlTokens
from providers.harmony.grammar import BegunMessage, HarmonyGrammar
from tests.integration.engines import Engine

# Kinds that end by themselves: the model is no good at ending a text.
SCHEMAS: dict[str, Any] = {
    "constants": {
        "type": "object",
        "properties": {"unit": {"enum": ["c", "f"]}, "deep": {"const": {"a": [1]}}, "on": {"type": "boolean"}},
        "required": ["unit", "deep"],
        "additionalProperties": False,
    },
    "lists": {
        "type": "object",
        "properties": {
            "days": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1, "maxItems": 3},
            "pair": {"type": "array", "prefixItems": [{"enum": [1, 2]}, {"enum": ["x"]}], "items": False},
        },
        "required": ["pair", "days"],
        "additionalProperties": False,
    },
    "a tree": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "leaf": {"type": "boolean"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"const": 0}]},
                },
                "required": ["leaf"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
    "all of two": {
        "allOf": [
            {"type": "object", "properties": {"a": {"enum": ["<|", "\\", "ü\n"]}}, "required": ["a"]},
            {"properties": {"b": {"type": "null"}}, "required": ["b"]},
        ]
    },
    "nothing at all": {"type": "object", "properties": {}, "additionalProperties": False},
}


@pytest.fixture(scope="module")
def server(llama_server: Engine) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=llama_server.url, timeout=60) as server:
        yield server


@pytest.fixture(scope="module")
def marks(server: httpx.Client) -> ControlTokens:
    def token(text: str) -> int:
        [found] = server.post("/tokenize", json={"content": text, "parse_special": True}).json()["tokens"]
        return int(found)

    return ControlTokens(
        start=token("<|im_start|>"),
        channel=token("<think>"),
        constrain=token("</tool_call>"),
        message=token("</think>"),
        end=token("<tool_call>"),
        returns=-1,
        call=-1,
    )


def written(server: httpx.Client, grammar: HarmonyGrammar, *, temperature: float, seed: int) -> dict[str, Any]:
    body = {
        "prompt": [1, 2, 3],
        "n_predict": 250,
        "temperature": temperature,
        "seed": seed,
        "return_tokens": True,
        "grammar": grammar.text,
    }
    reply = server.post("/completion", json=body)
    assert reply.status_code == 200, reply.text
    report: dict[str, Any] = reply.json()
    return report


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_call_has_arguments_that_fit_its_schema(server: httpx.Client, marks: ControlTokens, schema: Any) -> None:
    grammar = HarmonyGrammar(marks, [{"function": {"name": "f", "parameters": schema}}], must_call=True)
    # The model would write a thought first and never end it.
    grammar.text = grammar.text.replace("root ::= step* ", "root ::= ")
    for seed in range(4):
        said = written(server, grammar, temperature=3.0, seed=seed)
        assert said["stop_type"] == "eos", said["content"]
        tokens = said["tokens"]
        assert marks.channel in tokens
        detokenized = {"tokens": tokens[tokens.index(marks.message) + 1 : -1]}
        arguments = server.post("/detokenize", json=detokenized).json()["content"]
        assert jsonschema_rs.is_valid(schema, orjson.loads(arguments)), arguments


def test_a_call_of_a_trained_tool_has_the_header_of_the_training(server: httpx.Client, marks: ControlTokens) -> None:
    tools = [{"function": {"name": "web_search", "parameters": SCHEMAS["nothing at all"]}}]
    grammar = HarmonyGrammar(marks, tools, must_call=True, trained_names={"web_search": "browser.search"})
    grammar.text = grammar.text.replace("root ::= step* ", "root ::= ")
    for seed in range(6):
        tokens = written(server, grammar, temperature=20.0, seed=seed)["tokens"]
        header = [token for token in tokens[: tokens.index(marks.message)] if token not in marks]
        text = server.post("/detokenize", json={"tokens": header}).json()["content"]
        channel = "(analysis|commentary)"
        headers = rf"({channel} to=browser\.search| to=browser\.search{channel})( code| ?json)?"
        assert re.fullmatch(headers, text), text


@pytest.mark.parametrize("begun", ["thinking", "answer"])
def test_a_message_that_was_begun_is_text_until_it_ends(
    server: httpx.Client, marks: ControlTokens, begun: BegunMessage
) -> None:
    tools = [{"function": {"name": "f", "parameters": {"type": "object"}}}]
    for must_call in (False, True):
        grammar = HarmonyGrammar(marks, tools, must_call=must_call, begun=begun)
        tokens = written(server, grammar, temperature=20.0, seed=1)["tokens"]
        first_mark = next((token for token in tokens if token in (marks.channel, marks.end)), marks.end)
        assert first_mark == marks.end, "the header of another message comes after the end of this one"


def test_a_text_holds_no_mark_of_the_form_that_gpt_oss_has(server: httpx.Client, marks: ControlTokens) -> None:
    """One of the tokens used as control tokens resembles those of gpt-oss."""
    grammar = HarmonyGrammar(marks, [], answer_schema={"enum": ["yes", "no"]})
    for seed in range(4):
        tokens = written(server, grammar, temperature=20.0, seed=seed)["tokens"]
        assert tokens[0] == marks.channel
        before = {tokens[place - 1] for place, token in enumerate(tokens) if token == marks.start}
        assert before <= {marks.end}
