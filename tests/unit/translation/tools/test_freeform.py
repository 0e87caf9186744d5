"""Reads freeform input out of function arguments."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.tools.freeform import FreeformUnwrapper, unwrap_input, wrap_input


def unwrapped(fragments: list[str]) -> str:
    unwrapper = FreeformUnwrapper()
    return "".join([unwrapper.feed(fragment) for fragment in fragments] + [unwrapper.finish()])


def cut(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


CASES: dict[str, tuple[str, str]] = {
    "plain text": ('{"input":"ls -l"}', "ls -l"),
    "spaces around every token": (' {\n"input" :\t"ls" \n} ', "ls"),
    "every escape": (r'{"input":"\"\\\/\b\f\n\r\t\u00e9"}', '"\\/\b\f\n\r\té'),
    "a surrogate pair": (r'{"input":"\ud83d\ude80!"}', "🚀!"),
    "a surrogate pair in upper case": (r'{"input":"\uD83D\uDE80"}', "🚀"),
    "a lone high surrogate becomes the replacement character": (r'{"input":"\ud83dx"}', "\ufffdx"),
    "a high surrogate before another escape": (r'{"input":"\ud83d\nA"}', "\ufffd\nA"),
    "a high surrogate before another letter's escape": (r'{"input":"\ud83d\u0041"}', "\ufffdA"),
    "a lone low surrogate becomes the replacement character": (r'{"input":"\ude80"}', "\ufffd"),
    "text beyond ASCII as it is": ('{"input":"東京 🚀"}', "東京 🚀"),
    "newlines that should have been escaped": ('{"input":"a\nb"}', "a\nb"),
    "a backslash that should have been doubled": (r'{"input":"\d+ \p"}', r"\d+ \p"),
    "an escape of too few digits": (r'{"input":"\u12 and \u"}', r"\u12 and \u"),
    "empty input": ('{"input":""}', ""),
    "no arguments": ("", ""),
    "further keys are ignored": ('{"input":"ls","why":"to see"}', "ls"),
    "input is not the first key": ('{"why":"to see","input":"ls"}', "ls"),
    "raw text instead of JSON": ("*** Begin Patch\n*** End Patch\n", "*** Begin Patch\n*** End Patch\n"),
    "raw text that starts with spaces": ("  ls", "  ls"),
    "raw code that starts with a brace": ("{ echo hi; }", "{ echo hi; }"),
    "raw code that starts almost like the wrapping": ('{"in put":"x"', '{"in put":"x"'),
    "JSON without input stays as it is": ('{"code":"ls"}', '{"code":"ls"}'),
    "input that is no string": ('{"input":5}', '{"input":5}'),
    "quotes somebody forgot to escape": ('{"input":"say "hi" \\"now\\"\\n"}', 'say "hi" "now"\n'),
    "quotes somebody forgot to escape, and the end is missing": ('{"input":"say "hi', 'say "hi'),
    "the end is missing": ('{"input":"ls -', "ls -"),
    "the closing brace is missing": ('{"input":"ls"', "ls"),
    "cut inside an escape": ('{"input":"ls\\', "ls"),
    "cut inside a pair": ('{"input":"ls\\ud83d\\ud', "ls"),
    "cut inside the wrapping": ('{"inp', '{"inp'),
    "cut inside an escape after a forgotten one": ('{"input":"a "b\\', 'a "b'),
}


@pytest.mark.parametrize(("arguments", "expected"), CASES.values(), ids=CASES)
def test_arguments_become_input(arguments: str, expected: str) -> None:
    assert unwrap_input(arguments) == expected


@pytest.mark.parametrize(("arguments", "expected"), CASES.values(), ids=CASES)
def test_arguments_may_be_split_anywhere(arguments: str, expected: str) -> None:
    assert unwrapped(list(arguments)) == expected
    for at in range(len(arguments)):
        assert unwrapped([arguments[:at], arguments[at:]]) == expected


@given(st.text(), st.booleans(), st.lists(st.integers(0, 200)))
def test_wrapped_input_is_restored(text: str, ascii_only: bool, cuts: list[int]) -> None:
    assert unwrapped(cut(json.dumps({"input": text}, ensure_ascii=ascii_only), cuts)) == text
    assert unwrapped(cut(wrap_input(text), cuts)) == text


@given(st.text(alphabet=st.sampled_from('{"input:}\\ud83e0nx ,')), st.lists(st.integers(0, 40)))
def test_any_split_gives_the_same_input(arguments: str, cuts: list[int]) -> None:
    assert unwrapped(cut(arguments, cuts)) == unwrap_input(arguments)
    unwrap_input(arguments).encode()  # nothing that cannot be sent


def test_input_streams_as_it_arrives() -> None:
    unwrapper = FreeformUnwrapper()
    assert [unwrapper.feed(fragment) for fragment in ('{"inp', 'ut": "a', "b\\", "nc", '"', "}")] == [
        "",
        "a",
        "b",
        "\nc",
        "",
        "",
    ]
    assert unwrapper.finish() == ""
