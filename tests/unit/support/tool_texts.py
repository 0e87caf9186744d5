"""Answers with calls as text, and helpers that join the output of a tool parser."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from translation.parsers.tools import (
    PARSER_FACTORIES,
    CallArguments,
    CallEnded,
    CallStarted,
    MalformedCall,
    ParserOutput,
    PlainText,
)

BROKEN = "broken"


def parse(parser: str, pieces: Iterable[str]) -> list[ParserOutput]:
    """Returns the output of a parser, with neighbouring texts and arguments joined, after checking its order."""
    reader = PARSER_FACTORIES[parser]()
    said = [each for piece in pieces for each in reader.feed(piece)]
    said += reader.finish()
    check_order(said)
    joined: list[ParserOutput] = []
    for kind, run in groupby(said, type):
        if kind in (PlainText, CallArguments):
            joined.append(kind("".join(each.text for each in run if isinstance(each, PlainText | CallArguments))))
        else:
            joined += run
    return joined


def summarize_items(parser: str, text: str) -> list[object]:
    """Returns the output in short form: text, a call as (name, arguments), BROKEN for a truncated call."""
    short: list[object] = []
    name, arguments = "", ""
    for each in parse(parser, [text]):
        match each:
            case PlainText(said):
                short.append(said)
            case CallStarted(name):
                arguments = ""
            case CallArguments(said):
                arguments += said
            case CallEnded():
                short.append((name, json.loads(arguments)))
            case MalformedCall():
                short.append(BROKEN)
    return short


def unreadable(parser: str, text: str) -> list[MalformedCall]:
    return [each for each in parse(parser, [text]) if isinstance(each, MalformedCall)]


def check_order(said: Iterable[ParserOutput]) -> None:
    """Checks that calls start, have arguments and end, without other output between, and that no output is empty."""
    arguments: list[str] | None = None
    for each in said:
        match each:
            case PlainText(text):
                assert text
                assert arguments is None
            case CallStarted(name):
                assert name
                assert arguments is None
                arguments = []
            case CallArguments(text):
                assert text
                assert arguments is not None
                arguments.append(text)
            case CallEnded():
                assert arguments is not None
                assert isinstance(json.loads("".join(arguments)), dict)
                arguments = None
            case MalformedCall(raw=raw, reason=why):
                assert raw
                assert why
                arguments = None
    assert arguments is None


def two_cuts(text: str) -> Iterator[tuple[str, str]]:
    for place in range(len(text) + 1):
        yield text[:place], text[place:]


CALL = '{"name": "f", "arguments": {"a": [1, {"b": "}"}], "c": "\\"\\u00e9\\n"}}'

TEXTS: dict[str, list[str]] = {
    "hermes": [
        "",
        "  \n",
        "plain text, 1 < 2 <t",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"\n\n<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call> and more",
        f"Let me see.\n<tool_call>[{CALL}, {CALL}]</tool_call>",
        f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
        f"<tool_call>{CALL}\n{CALL}</tool_call>",
        '<tool_call>{"arguments": {"a": "</tool_call>"}, "name": "f"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
        '<tool_call>{"id": 7, "name": "f", "parameters": null}</tool_call',
        f"<tool_call>{CALL[:30]}",
        f"<tool_call>{CALL[:30]}</tool_call> text",
        '<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call> text <tool_call>{"name": "g"}',
        f"<tool_call>[see] {{}} {CALL}</tool_call>",
        f"<tool_call>{CALL} text </tool_call> more </tool_call>",
        '<tool_call>{"name": "f", "arguments": {"a": "x\ny\x01"}}</tool_call>',
        "<tool_call>none</tool_call> <tool_call></tool_call> <tool_call>",
        '<tool_call>[{"name": "f"}, {"name": "g", "arg',
        f'<tool_call>{{"name": "f", "arguments": {{"a": "b}}}}</tool_call> text <tool_call>{CALL}</tool_call>!',
        f'<tool_call>{{"x</tool_call><tool_call>{CALL}',
        '<tool_call>{"name": "f", "a": "</tool_call>"x' * 10,
    ],
    "llama": [
        "a < b <func <function= <function=a b> </function>",
        '<function=f>{"a": {"b": "</function>"}}</function>',
        'one <function=f>{"a": 1}</function>\n<function=g></function> two',
        '<function=f>```json\n{"a": 1}\n```</function>',
        '<function=f>{"a": x}</function> text',
        "<function=f>none</function>",
        '<function=f>{"a": 1',
        "<function=f",
        f"<function={'n' * 300}>{{}}</function>",
    ],
    "llama3_json": [
        '{"name": "f", "parameters": {"a": 1}}',
        ' <|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g"}\n{"parameters": {}, "name": "h"} end',
        "<|python_tag|>print(1)",
        "<|python",
        "Hello.",
        '{"answer": 42}',
        '{"name": "Bob", "age": 3}',
        '[{"name": "f"}]',
        '{"name": "f", "parameters": {"a": 1},',
        '{"name": "f", "parameters": {"a": oops}} tail',
        '```json\n{"name": "f", "parameters": {}}\n```\nThat was it.',
        '```json\n{"x": 1}\n```',
        f"```{'x' * 30}",
        '{"na',
        '{"name": "f"}\n`',
    ],
    "json": [
        '{"name": "f", "arguments": {"a": 1}}',
        '[{"name": "f"}, {"name": "g", "arguments": {"x": [1, 2]}}]\n',
        '```json\n[{"name": "f", "arguments": {}}]\n```',
        "[1, 2]",
        "[]",
        "[[]]",
        '[{"name": "f", "arguments": {}}',
        '[{"name": "f", "arguments": {}}, {"name": "g"',
        '[{"name": "f", "arguments": {}} {"name": "g"}]',
        '{"type": "function", "id": "x", "name": "f"} text',
        '{"name": 5}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "nonsense"}',
        '{"name": "f", "arguments": ""}',
        '{"name" "f"}',
        '{"name": "f" "arguments": {}}',
        "{name: f}",
        "{}",
    ],
    "mistral": [
        '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g"}]',
        'text [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]abc123[ARGS]{} text',
        '[TOOL_CALLS]f{"a": 2}',
        "[TOOL_CALLS] hello world",
        "[TOOL_CALLS]<",
        '[TOOL_CALLS] ```json\n[{"name": "f"}]\n```',
        '[TOOL_CALLS][TOOL_CALLS]f[ARGS]{"a": 1',
        '[TOOL_CALLS][{"name": "f", "arguments": {x}}] and [TOO [TOOL_CALLS]g[ARGS]{}',
        '[TOOL_CALLS][{"name": "f", "arguments": {}}',
        "[TOOL_CALLS] [1]",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f",
        f"[TOOL_CALLS]{'n' * 250}[ARGS]{{}}",
        "[TOOL_CALLS] hello ",
        "list [1] [TOO",
    ],
    "pythonic": [
        '[f(a=1, b="x]\\n"), g()]',
        " [ns.f(x=[1, (2, 3), ()], y={'a': None, \"b\": -1.5e3,}, z='it\\'s', w=True,)]\nthen",
        "[link](http://example)",
        "[f(1), g(a=2)]",
        "[f(a=1)",
        '[f(a="',
        "[1, 2]",
        "[]",
        "```python\n[f()]\n```",
        "[f() x",
        "[f(), ]",
        "[f() , (g)]",
        "text [f()]",
        "[f(a='x' \"y\", b=r'\\d', c=(1), d=(1,), e='\\x41\\u00e9\\U0001F680\\q\\\n')]",
        f"[{'n' * 300}()]",
    ],
}
"""Parser -> answers of every kind it meets. How they are cut must not matter."""
