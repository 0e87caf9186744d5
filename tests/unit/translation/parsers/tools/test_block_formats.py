"""Calls between `<tool_call>` tags."""

import pytest

from tests.unit.support.tool_texts import BROKEN, parse, summarize_items, two_cuts, unreadable
from translation.parsers.tools import PARSER_FACTORIES, CallArguments, CallEnded, CallStarted, MalformedCall, PlainText

F: tuple[str, dict[str, object]] = ("f", {"a": 1})
G: tuple[str, dict[str, object]] = ("g", {})
WRITTEN_F = '{"name": "f", "arguments": {"a": 1}}'
WRITTEN_G = '{"name": "g"}'

TEXTS: dict[str, tuple[str, list[object]]] = {
    "one call": (f"<tool_call>\n{WRITTEN_F}\n</tool_call>", [F]),
    "text around calls": (
        f"One.<tool_call>{WRITTEN_F}</tool_call>Two.<tool_call>{WRITTEN_G}</tool_call>Three.",
        ["One.", F, "Two.", G, "Three."],
    ),
    "a list in a block": (f"<tool_call>[{WRITTEN_F}, {WRITTEN_G}]</tool_call>", [F, G]),
    "one call after the other in a block": (f"<tool_call>{WRITTEN_F}\n{WRITTEN_G}</tool_call>", [F, G]),
    "parameters for arguments": ('<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>', [F]),
    "only the first of both": (
        '<tool_call>{"name": "f", "arguments": {"a": 1}, "parameters": {"b": 2}}</tool_call>',
        [F],
    ),
    "only the first name": ('<tool_call>{"name": "g", "name": "f"}</tool_call>', [G]),
    "arguments that are null": ('<tool_call>{"name": "g", "arguments": null}</tool_call>', [G]),
    "arguments that are nothing": ('<tool_call>{"name": "g", "arguments": ""}</tool_call>', [G]),
    "further keys": ('<tool_call>{"id": 1, "name": "f", "x": [true], "arguments": {"a": 1}}</tool_call>', [F]),
    "a fence in the block": (f"<tool_call>\n```json\n{WRITTEN_F}\n```\n</tool_call>", [F]),
    "prose in the block": (f"<tool_call>I call [it] {{now}}: {WRITTEN_F}</tool_call>", [F]),
    "an object before the call": (f'<tool_call>{{"x": 1}}{WRITTEN_F}</tool_call>', [F]),
    "one brace too many": (f"<tool_call>{WRITTEN_F}}}</tool_call>", [F]),
    "another tag in the block": (f"<tool_call><b>{WRITTEN_F}</tool_call>", [F]),
    "no closing tag at the end": (f"<tool_call>{WRITTEN_F}", [F]),
    "half a closing tag at the end": (f"<tool_call>{WRITTEN_F}</tool_", [F]),
    "no closing tag before the next call": (f"<tool_call>{WRITTEN_F}<tool_call>{WRITTEN_G}</tool_call>", [F, G]),
    "a list that is not closed": (f"<tool_call>[{WRITTEN_F}", [F]),
    "text before a closing tag": (f"<tool_call>{WRITTEN_F} That was it.</tool_call>!", [F, "!"]),
    "a closing tag that belongs to nothing": ("a</tool_call>b", ["a</tool_call>b"]),
    "line breaks in strings": (
        '<tool_call>{"name": "f", "arguments": {"a": "x\ny"}}</tool_call>',
        [("f", {"a": "x\ny"})],
    ),
    "bad JSON": ('<tool_call>{"name": "f", "arguments": {"a": x}}</tool_call> text', [BROKEN, " text"]),
    "bad JSON between calls": (
        f"<tool_call>{WRITTEN_F}</tool_call><tool_call>{{</tool_call><tool_call>{WRITTEN_G}</tool_call>",
        [F, BROKEN, G],
    ),
    "bad JSON after a call of the block": (f"<tool_call>{WRITTEN_F}{{oops}}</tool_call>", [F, BROKEN]),
    "a tag in bad JSON": ('<tool_call>{"name": "f", x <b> </tool_call>.', [BROKEN, "."]),
    "an unclosed string": (
        f'<tool_call>{{"name": "f", "arguments": {{"a": "x}}}}</tool_call> and <tool_call>{WRITTEN_G}</tool_call>.',
        [BROKEN, " and ", G, "."],
    ),
    "an unclosed key": (f'<tool_call>{{"name</tool_call><tool_call>{WRITTEN_G}</tool_call>', [BROKEN, G]),
    "no name": ('<tool_call>{"arguments": {}}</tool_call>', [BROKEN]),
    "a name that is no string": ('<tool_call>{"name": 5}</tool_call>', [BROKEN]),
    "a name that is no text": ('<tool_call>{"name": "\\ud800"}</tool_call>', [BROKEN]),
    "a name of nothing": ('<tool_call>{"name": " "}</tool_call>', [BROKEN]),
    "arguments that are a list": ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', [BROKEN]),
    "arguments that are a string of something else": (
        '<tool_call>{"name": "f", "arguments": "1"}</tool_call>',
        [BROKEN],
    ),
    "a list of something else": ("<tool_call>[1]</tool_call>", [BROKEN]),
    "an empty list": ("<tool_call>[]</tool_call>", [BROKEN]),
    "nothing": ("<tool_call></tool_call>", [BROKEN]),
    "a tag and nothing else": ("text <tool_call>", ["text ", BROKEN]),
}


@pytest.mark.parametrize(("text", "means"), TEXTS.values(), ids=TEXTS)
def test_blocks_are_calls(text: str, means: list[object]) -> None:
    assert summarize_items("hermes", text) == means


def test_arguments_are_streamed_as_they_arrive() -> None:
    parser = PARSER_FACTORIES["hermes"]()
    assert parser.feed('<tool_call>{"name": "f"') == [CallStarted("f")]
    assert parser.feed(', "arguments": {"a') == [CallArguments('{"a')]
    assert parser.feed('": 1') == [CallArguments('": 1')]
    assert parser.feed("}") == [CallArguments("}")]
    assert parser.feed("}") == [CallEnded()]


def test_arguments_wait_for_the_name() -> None:
    parser = PARSER_FACTORIES["hermes"]()
    assert parser.feed('<tool_call>{"arguments": {"a": 1}, "name": "f') == []
    assert parser.feed('"') == [CallStarted("f"), CallArguments('{"a": 1}')]


@pytest.mark.parametrize("held", ["<", "<tool", "<tool_call", "</tool_cal"])
def test_only_a_possible_tag_is_buffered(held: str) -> None:
    parser = PARSER_FACTORIES["hermes"]()
    assert parser.feed(f"a{held}") == [PlainText("a")]
    assert parser.feed("!") == [PlainText(f"{held}!")]


def test_a_block_that_is_not_closed_was_cut() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": '
    assert parse("hermes", [text])[-1] == MalformedCall(text, "the text ends in the middle of a call", truncated=True)


def test_bad_json_in_a_closed_block_was_not_cut() -> None:
    block = "<tool_call>{'name': 'f'}</tool_call>"
    assert unreadable("hermes", f"text {block} text") == [
        MalformedCall(block, "a call is not valid JSON", truncated=False)
    ]


def test_invalid_json_in_an_unclosed_block_is_reported_with_its_fault() -> None:
    (broken,) = unreadable("hermes", "<tool_call>{'name': 'f'} text")
    assert (broken.reason, broken.truncated) == ("a call is not valid JSON", True)


def test_spaces_at_the_start_of_text_are_preserved() -> None:
    parser = PARSER_FACTORIES["hermes"]()
    assert parser.feed(" \n") == []
    assert parser.feed(" a ") == [PlainText(" \n a ")]
    assert parser.feed(" ") == [PlainText(" ")]


PROSE: dict[str, tuple[str, list[object]]] = {
    "tags in code spans": (
        "Wrap it as `<tool_call>` and end with `</tool_call>`. Done!",
        ["Wrap it as `<tool_call>` and end with `</tool_call>`. Done!"],
    ),
    "tags in quotes": (
        "\"<tool_call>\" and '</tool_call>' name a call.",
        ["\"<tool_call>\" and '</tool_call>' name a call."],
    ),
    "a tag in quotes at the end": ("It is `<tool_call>", ["It is `<tool_call>"]),
    "a tag in quotes before a call": (
        f"I use `<tool_call>`: <tool_call>{WRITTEN_F}</tool_call>",
        ["I use `<tool_call>`: ", F],
    ),
    "an opening tag before a call": (
        f"I use <tool_call> for that.\n<tool_call>{WRITTEN_F}</tool_call>",
        ["I use <tool_call> for that.\n", F],
    ),
    "the opening tag twice": (f"<tool_call>\n<tool_call>{WRITTEN_F}</tool_call>", [F]),
    "a broken call before another": (f"<tool_call>{{oops}}\n<tool_call>{WRITTEN_F}</tool_call>", [BROKEN, F]),
    "text around a call in its block": (f"<tool_call>Sure: {WRITTEN_F} ok\n</tool_call>", [F]),
    "text between calls in a block": (f"<tool_call>{WRITTEN_F} and {WRITTEN_G} ok</tool_call>.", [F, G, "."]),
    "text with braces after a call in its block": (f"<tool_call>{WRITTEN_F} so {{ok}} [1] </tool_call>.", [F, "."]),
    "text with braces after a call without a closing tag": (
        f"<tool_call>{WRITTEN_F} That {{was}} it, a < b",
        [F, "That {was} it, a < b"],
    ),
    "text after a call without a closing tag, before the next": (
        f"<tool_call>{WRITTEN_F} and <tool_call>{WRITTEN_G}</tool_call>",
        [F, "and ", G],
    ),
    "a string that runs on after a call": (
        f'<tool_call>{WRITTEN_F} see {{"a</tool_call> and {{"b" more',
        [F, ' and {"b" more'],
    ),
    "a string that runs on to the end after a call": (f'<tool_call>{WRITTEN_F} see {{"a</tool_call> b', [F, " b"]),
    "an object that is not closed after a call": (f"<tool_call>{WRITTEN_F} see {{", [F, "see {"]),
    "half a closing tag after text": (f"<tool_call>{WRITTEN_F} ok </tool_", [F]),
    "a broken call after text": (f'<tool_call>{WRITTEN_F} ok {{"name": "f", "arguments": {{x</tool_call>', [F, BROKEN]),
    "an incomplete call after text": (f'<tool_call>{WRITTEN_F} ok {{"name": "f", "arguments": {{', [F, BROKEN]),
    "a list in upper-case tags": (f"<TOOL_CALL>[{WRITTEN_F}]</Tool_Call>.", [F, "."]),
    "tags of similar letters": ("<tool_\u212aall>", ["<tool_\u212aall>"]),
}


@pytest.mark.parametrize(("text", "means"), PROSE.values(), ids=PROSE)
def test_prose_about_tags_is_text(text: str, means: list[object]) -> None:
    assert summarize_items("hermes", text) == means
    for pieces in two_cuts(text):
        assert parse("hermes", pieces) == parse("hermes", [text])
    assert parse("hermes", text) == parse("hermes", [text])


@pytest.mark.parametrize(
    ("text", "reason", "truncated"),
    [
        ("Wrap it as <tool_call> and end with </tool_call>. Done!", "there is no call in it", False),
        ("Use <tool_call> in the answer.", "the text ends in the middle of a call", True),
        ("Use <tool_call> with an object {x: 1}.", "a call is not valid JSON", True),
        ('Use <tool_call> with objects, {"a": 1} </tool_call>!', "a call has no name", False),
        ('Use <tool_call> with the {"a</tool_call> text" }', "a call is not valid JSON", False),
    ],
)
def test_prose_in_a_block_is_part_of_the_answer(text: str, reason: str, truncated: bool) -> None:
    (prose,) = unreadable("hermes", text)
    assert (prose.reason, prose.truncated, prose.is_prose) == (reason, truncated, True)
    outputs = parse("hermes", text)
    written = [
        out.raw if isinstance(out, MalformedCall) else out.text
        for out in outputs
        if not isinstance(out, CallStarted | CallEnded)
    ]
    assert "".join(written) == text


@pytest.mark.parametrize(
    "text", ["none", "<function=f><parameter=a>1</parameter></function>", "```json\n```", " \n", "{oops}"]
)
def test_a_failed_call_is_no_prose(text: str) -> None:
    (failed,) = unreadable("hermes", f"<tool_call>{text}</tool_call>")
    assert not failed.is_prose


def test_many_brackets_before_a_closing_tag_are_no_tags() -> None:
    parser = PARSER_FACTORIES["hermes"]()
    outputs = [*parser.feed(f"<tool_call>{WRITTEN_F}{'<' * 300}</tool_call>!"), *parser.finish()]
    assert [type(output) for output in outputs] == [CallStarted, CallArguments, CallEnded, PlainText]
    assert outputs[-1] == PlainText("!")
