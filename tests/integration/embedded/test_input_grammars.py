"""A real llama.cpp enforces the grammar of a custom tool that must be called."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.embedded.embedded_engine import CONFIG, ENGINE
from tests.serving import Command, command

pytestmark = pytest.mark.timeout(180)  # a server with an engine is started and ended

FORMATS: dict[str, tuple[str, str, str]] = {
    "a regex": ("regex", r"[a-z]{3}/[0-9]{4}\n\"[A-Z]\"", r'[a-z]{3}/[0-9]{4}\n"[A-Z]"'),
    "a Lark grammar": ("lark", 'start: "add " NUM ("," NUM)?\nNUM: /[0-9]{1,3}/', r"add \d{1,3}(,\d{1,3})?"),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    with command(
        {**CONFIG, "providers": {"embedded": ENGINE}}, tmp_path_factory.mktemp("grammars"), forked=True
    ) as gateway:
        yield gateway


def post(gateway: Command, model: str, syntax: str, definition: str, choice: Any = "required") -> httpx.Response:
    format = {"type": "grammar", "syntax": syntax, "definition": definition}
    tool = {"type": "custom", "name": "note", "description": "Takes a note.", "format": format}
    body = {"model": model, "input": "Hello", "tools": [tool], "tool_choice": choice, "max_output_tokens": 200}
    return httpx.post(f"{gateway.v1}/responses", json=body, timeout=60, trust_env=False)


@pytest.mark.parametrize("model", ["tiny", "thinker"], ids=["one pass", "two passes"])
@pytest.mark.parametrize(("syntax", "definition", "expected"), FORMATS.values(), ids=FORMATS)
def test_the_input_has_the_form_of_the_grammar(
    model: str, syntax: str, definition: str, expected: str, gateway: Command
) -> None:
    for choice in ("required", {"type": "custom", "name": "note"}):
        reply = post(gateway, model, syntax, definition, choice)
        call = reply.raise_for_status().json()["output"][-1]
        assert (call["type"], call["name"]) == ("custom_tool_call", "note")
        assert re.fullmatch(expected, call["input"]), call["input"]
        assert "format" not in reply.headers.get("x-gateway-loss", "")


@pytest.mark.parametrize(
    ("syntax", "definition"), [("lark", "start: ((("), ("lark", "start: undefined"), ("regex", "[")]
)
def test_a_grammar_that_llama_cpp_cannot_read_is_refused(syntax: str, definition: str, gateway: Command) -> None:
    reply = post(gateway, "tiny", syntax, definition)
    assert reply.status_code == 400
    assert "cannot hold text to this grammar" in reply.json()["error"]["message"]
