"""The formats of tool calls except Hermes'."""

import pytest

from tests.unit.support.tool_texts import BROKEN, summarize_items
from translation.parsers.tools import PARSER_FACTORIES, CallArguments, CallStarted, PlainText

F: tuple[str, dict[str, object]] = ("f", {"a": 1})
G: tuple[str, dict[str, object]] = ("g", {})

CASES: dict[str, dict[str, tuple[str, list[object]]]] = {
    "llama": {
        "several calls": ('One.<function=f>{"a": 1}</function><function=g>{}</function>', ["One.", F, G]),
        "a fence": ('<function=f>\n```json\n{"a": 1}\n```\n</function>', [F]),
        "a call without arguments": ("<function=g> </function>", [G]),
        "prose for arguments": ("<function=g>nothing</function>", [BROKEN]),
        "bad arguments": ('<function=f>{"a": x}</function>.', [BROKEN, "."]),
        "arguments that are cut": ('<function=f>{"a": 1', [BROKEN]),
        "no closing tag": ('<function=f>{"a": 1} done', [F, "done"]),
        "something after the arguments": ('<function=f>{"a": 1}{"b": 2}</function>', [F, '{"b": 2}']),
        "no name": ("<function=>{}</function>", ["<function=>{}</function>"]),
    },
    "llama3_json": {
        "an object": ('{"name": "f", "parameters": {"a": 1}}', [F]),
        "a tag before it": ('<|python_tag|>{"name": "f", "parameters": {"a": 1}}', [F]),
        "several": ('{"name": "f", "parameters": {"a": 1}}; {"name": "g"}\n{"name": "g"}', [F, G, G]),
        "text after it": ('{"name": "g", "parameters": {}} And so on.', [G, "And so on."]),
        "JSON after it that is no call": ('{"name": "g"} {"x": 1}', [G, '{"x": 1}']),
        "text before it": ('Hi. {"name": "g"}', ['Hi. {"name": "g"}']),
        "a list": ('[{"name": "g"}]', ['[{"name": "g"}]']),
        "an object that is no call": ('{"answer": {"name": "f"}}', ['{"answer": {"name": "f"}}']),
        "an object with a name": ('{"name": "Bob", "age": 3}', ['{"name": "Bob", "age": 3}']),
        "code": ("<|python_tag|>print(1)", ["<|python_tag|>print(1)"]),
        "a fence that is not closed": ('```json\n{"name": "g"}', [G]),
        "a fence after it": ('{"name": "g"}\n```python\nx\n```', [G, "```python\nx\n```"]),
        "an object that is cut": ('{"name": "f", "parameters": {', [BROKEN]),
        "a name that is cut": ('{"name": "f"', [BROKEN]),
        "the beginning of anything": ('{"na', ['{"na']),
        "bad JSON": ('{"name": "f", "parameters": {"a": x}}', [BROKEN]),
    },
    "json": {
        "an object": ('{"name": "f", "arguments": {"a": 1}}', [F]),
        "a list": ('[{"name": "f", "arguments": {"a": 1}}, {"name": "g"}]', [F, G]),
        "a fence": ('```json\n[{"name": "g"}]\n```', [G]),
        "a fence without a language": ('```\n{"name": "g"}\n```\nDone.', [G, "Done."]),
        "further keys in a later call": ('[{"name": "g"}, {"name": "f", "x": 2, "arguments": {"a": 1}}]', [G, F]),
        "something else": ("[1, 2]", ["[1, 2]"]),
        "nothing": ("[]", ["[]"]),
        "an object in a fence": ('```json\n{"x": 1}\n```', ['```json\n{"x": 1}\n```']),
        "a list that is cut between calls": ('[{"name": "g"}', [G]),
        "a list that is cut in a call": ('[{"name": "g"}, {"name": "g"', [G, BROKEN]),
        "a list that breaks off": ('[{"name": "g"} {"name": "g"}]', [G, BROKEN]),
    },
    "mistral": {
        "a list": ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g"}]', [F, G]),
        "an object": ('[TOOL_CALLS]{"name": "g"}', [G]),
        "names before arguments": ('[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}', [F, G]),
        "ids": ('[TOOL_CALLS]f[CALL_ID]Xy1[ARGS]{"a": 1}', [F]),
        "a name and arguments": ('[TOOL_CALLS]f {"a": 1}', [F]),
        "text around it": ('One. [TOOL_CALLS] [{"name": "g"}] Two.', ["One. ", G, "Two."]),
        "a fence": ('[TOOL_CALLS] ```json\n[{"name": "g"}]\n```', [G]),
        "the marker twice": ('[TOOL_CALLS][TOOL_CALLS][{"name": "g"}]', [G]),
        "a marker before text": ("[TOOL_CALLS] so be it", ["[TOOL_CALLS] so be it"]),
        "a marker before marks": ("[TOOL_CALLS]!", ["[TOOL_CALLS]!"]),
        "brackets that are no marker": ("[1] [TOO", ["[1] [TOO"]),
        "bad JSON": ('[TOOL_CALLS][{"name": x}] [TOOL_CALLS][{"name": "g"}]', [BROKEN, G]),
        "bad JSON at the end": ("[TOOL_CALLS][1]", [BROKEN]),
        "arguments that are cut": ('[TOOL_CALLS]f[ARGS]{"a":', [BROKEN]),
        "a name that is cut": ("[TOOL_CALLS]f", [BROKEN]),
        "a list that is not closed": ('[TOOL_CALLS][{"name": "g"}', [G]),
    },
    "pythonic": {
        "several calls": ('[f(a=1), g(), f(a="]")]', [F, G, ("f", {"a": "]"})]),
        "a fence": ("```python\n[g()]\n```", [G]),
        "a comma too many": ("[g(),]", [G]),
        "text after it": ("[g()] Done.", [G, "Done."]),
        "text before it": ("So: [g()]", ["So: [g()]"]),
        "a list of something else": ("[1, (2)]", ["[1, (2)]"]),
        "a link": ("[g](http://example)", ["[g](http://example)"]),
        "nothing": ("[]", ["[]"]),
        "an argument without a name": ("[f(1), g()]", [BROKEN, G]),
        "a call that is cut": ('[g(), f(a="', [G, BROKEN]),
        "a list that is cut": ("[g()", [G]),
        "something between calls": ("[g() g()]", [G, BROKEN]),
        "something else after a call": ("[g(), 'x']", [G, BROKEN]),
    },
}
EACH = pytest.mark.parametrize(
    ("parser", "text", "means"),
    [
        pytest.param(parser, text, means, id=f"{parser}: {name}")
        for parser, cases in CASES.items()
        for name, (text, means) in cases.items()
    ],
)


@EACH
def test_an_answer_is_calls_and_text(parser: str, text: str, means: list[object]) -> None:
    assert summarize_items(parser, text) == means


@pytest.mark.parametrize(
    ("parser", "beginning"),
    [
        ("llama", "<function=f>"),
        ("llama3_json", '{"name": "f", "parameters": '),
        ("json", '[{"name": "f", "arguments": '),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": '),
        ("mistral", "[TOOL_CALLS]f[ARGS]"),
    ],
)
def test_arguments_are_streamed_as_they_arrive(parser: str, beginning: str) -> None:
    reader = PARSER_FACTORIES[parser]()
    assert not [each for each in reader.feed(beginning) if not isinstance(each, CallStarted)]
    said = reader.feed('{"a')
    assert said[-1] == CallArguments('{"a')
    assert reader.feed('": 1') == [CallArguments('": 1')]


@pytest.mark.parametrize("parser", ["llama3_json", "json", "pythonic"])
def test_an_answer_that_begins_as_text_is_not_buffered(parser: str) -> None:
    reader = PARSER_FACTORIES[parser]()
    assert reader.feed("H") == [PlainText("H")]
    assert reader.feed("i [{") == [PlainText("i [{")]


def test_json_that_cannot_be_a_call_is_not_buffered() -> None:
    reader = PARSER_FACTORIES["json"]()
    assert reader.feed('{"answer": ') == [PlainText('{"answer"'), PlainText(": ")]
