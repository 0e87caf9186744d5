"""Reading along, whether an engine writes the JSON that it was asked for."""

import pytest

from providers.engines.base import Guide, Piece
from providers.engines.json_form import KeptForm

SCHEMA = Guide(json_schema={"type": "object"})
CALL = Guide(json_schema={"type": "object"}, after="}\n</tool_call>")


def end(text: str, *, finish: str = "stop", stop: str | None = None) -> Piece:
    return Piece(text, finish=finish, stop=stop)  # type: ignore[arg-type]


KEPT = {
    "an object": (SCHEMA, [Piece('{"a"'), end(": 1}")]),
    "a text, for a schema of texts": (SCHEMA, [end('"red"')]),
    "blanks around it": (SCHEMA, [Piece(" \n"), Piece("[1]"), end("\n")]),
    "what was cut off at the limit": (SCHEMA, [Piece('{"a'), end("", finish="length")]),
    "what was cut off at a text": (SCHEMA, [Piece('{"a'), end("", stop="b")]),
    "JSON and what follows it": (CALL, [Piece('{"a": 1}'), Piece("}\n"), end("</tool_call>")]),
    "a part of what follows, the rest being a special token": (CALL, [Piece('{"a": 1}'), end("}\n")]),
    "JSON alone, where the engine was not told what follows": (CALL, [end("{}")]),
    "JSON of any kind": (Guide(json_object=True), [end("{}")]),
    "anything without a guide": (None, [end("Hello")]),
    "anything under a grammar": (Guide(grammar="root ::= [a-z]+"), [end("hello")]),
    "lone surrogates, which JSON has": (SCHEMA, [end('"\\ud800"')]),
    "what is too deep to be read": (SCHEMA, [end("[" * 100_000)]),
}

BROKEN = {
    "text": (SCHEMA, [Piece("Hello")]),
    "text after blanks": (SCHEMA, [Piece(" "), Piece("\n Hi")]),
    "text that begins like JSON": (SCHEMA, [Piece("t"), Piece("hat is"), end(" it")]),
    "JSON that is not whole": (SCHEMA, [Piece('{"a"'), end("")]),
    "nothing": (SCHEMA, [end("")]),
    "more than JSON": (SCHEMA, [Piece("5"), end(" apples")]),
    "what does not follow": (CALL, [Piece("{}"), end("}}")]),
    "text for JSON of any kind": (Guide(json_object=True), [Piece("Hello")]),
}


@pytest.mark.parametrize(("guide", "pieces"), KEPT.values(), ids=KEPT)
def test_a_form_is_kept_by(guide: Guide | None, pieces: list[Piece]) -> None:
    form = KeptForm(guide)
    assert [form.broken_by(piece) for piece in pieces] == [False] * len(pieces)


@pytest.mark.parametrize(("guide", "pieces"), BROKEN.values(), ids=BROKEN)
def test_a_form_is_broken_by(guide: Guide, pieces: list[Piece]) -> None:
    form = KeptForm(guide)
    assert [form.broken_by(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
