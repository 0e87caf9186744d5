"""Checks while an engine writes whether its output is the requested JSON."""

import pytest

from providers.engines.base import EngineDelta, OutputConstraint
from providers.engines.servers.json_output_check import JsonOutputCheck

SCHEMA = OutputConstraint(json_schema={"type": "object"})
CALL = OutputConstraint(json_schema={"type": "object"}, suffix="}\n</tool_call>")


def end(text: str, *, finish: str = "stop", stop: str | None = None) -> EngineDelta:
    return EngineDelta(text, finish_reason=finish, stop_string=stop)  # type: ignore[arg-type]


KEPT = {
    "an object": (SCHEMA, [EngineDelta('{"a"'), end(": 1}")]),
    "a text, for a schema of texts": (SCHEMA, [end('"red"')]),
    "blanks around it": (SCHEMA, [EngineDelta(" \n"), EngineDelta("[1]"), end("\n")]),
    "what was cut off at the limit": (SCHEMA, [EngineDelta('{"a'), end("", finish="length")]),
    "what was cut off at a text": (SCHEMA, [EngineDelta('{"a'), end("", stop="b")]),
    "JSON and what follows it": (CALL, [EngineDelta('{"a": 1}'), EngineDelta("}\n"), end("</tool_call>")]),
    "a part of what follows, the rest being a special token": (CALL, [EngineDelta('{"a": 1}'), end("}\n")]),
    "JSON alone, where the engine was not told what follows": (CALL, [end("{}")]),
    "JSON of any kind": (OutputConstraint(json_object=True), [end("{}")]),
    "anything without a guide": (None, [end("Hello")]),
    "anything under a grammar": (OutputConstraint(grammar="root ::= [a-z]+"), [end("hello")]),
    "lone surrogates, which JSON has": (SCHEMA, [end('"\\ud800"')]),
    "what is too deep to be read": (SCHEMA, [end("[" * 100_000)]),
}

BROKEN = {
    "text": (SCHEMA, [EngineDelta("Hello")]),
    "text after blanks": (SCHEMA, [EngineDelta(" "), EngineDelta("\n Hi")]),
    "text that begins like JSON": (SCHEMA, [EngineDelta("t"), EngineDelta("hat is"), end(" it")]),
    "JSON that is not whole": (SCHEMA, [EngineDelta('{"a"'), end("")]),
    "nothing": (SCHEMA, [end("")]),
    "more than JSON": (SCHEMA, [EngineDelta("5"), end(" apples")]),
    "what does not follow": (CALL, [EngineDelta("{}"), end("}}")]),
    "text for JSON of any kind": (OutputConstraint(json_object=True), [EngineDelta("Hello")]),
}


@pytest.mark.parametrize(("guide", "pieces"), KEPT.values(), ids=KEPT)
def test_a_form_is_satisfied_by(guide: OutputConstraint | None, pieces: list[EngineDelta]) -> None:
    form = JsonOutputCheck(guide)
    assert [form.is_violated_by(piece) for piece in pieces] == [False] * len(pieces)


@pytest.mark.parametrize(("guide", "pieces"), BROKEN.values(), ids=BROKEN)
def test_a_form_is_broken_by(guide: OutputConstraint, pieces: list[EngineDelta]) -> None:
    form = JsonOutputCheck(guide)
    assert [form.is_violated_by(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
