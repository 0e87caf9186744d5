"""The tracker that every normalizer of calls shares: ids, held arguments, warnings."""

import pytest

from translation.hygiene.call_tracker import CallRules, ReplyCallTracker

FENCED = ["```", "json\n", '{"a":1}', "\n```"]


@pytest.mark.parametrize("holds_blanks", [True, False])
@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (['{"a"', ":1}"], '{"a":1}'),
        (["", '{"a"', ":1}"], '{"a":1}'),
        (FENCED, '{"a":1}'),
        (["`", "``", '{"a":1}', "```"], '{"a":1}'),
        (["```", "no JSON", "```"], "```no JSON```"),
        ([], ""),
    ],
)
def test_the_client_gets_arguments_without_their_fence(pieces: list[str], whole: str, holds_blanks: bool) -> None:
    call = ReplyCallTracker().start_call("a", "f")
    sent = [call.add_text(piece, holds_blanks=holds_blanks) for piece in pieces]
    sent.append(call.release())
    assert "".join(sent) == "".join(call.texts) == whole
    assert call.add_text(" ") == " "


def test_blanks_before_a_fence_are_sent_at_once_or_belong_to_it() -> None:
    tracker = ReplyCallTracker()
    held, sent = tracker.start_call("a", "f"), tracker.start_call("b", "f")
    for piece in ["\n ", *FENCED]:
        held.add_text(piece, holds_blanks=True)
        sent.add_text(piece)
    assert (held.release(), sent.release()) == ('{"a":1}', '{"a":1}')
    assert ("".join(held.texts), "".join(sent.texts)) == ('{"a":1}', '\n {"a":1}')


def test_ids_are_unique_unless_the_rules_keep_them() -> None:
    renaming = ReplyCallTracker(CallRules(used_ids={"a"}))
    assert [renaming.start_call(given, "f").id for given in ("a", "b", "b", None)] == ["a__2", "b", "b__2", "tc_1"]
    keeping = ReplyCallTracker(CallRules(used_ids={"a"}, renames_ids=False))
    assert [keeping.start_call(given, "f").id for given in ("a", "a", None)] == ["a", "a", ""]


def test_a_warning_names_the_call_and_its_fault() -> None:
    tracker = ReplyCallTracker(CallRules(max_args_bytes=9))
    assert [tracker.check_arguments("f", text) for text in ("{}", "", "[]", "{", '{"a": 1234}')] == [True] * 2 + [
        False
    ] * 3
    assert tracker.warnings == [
        {"name": "f", "why": "the arguments are not an object"},
        {"name": "f", "why": "the arguments are not valid JSON"},
        {"name": "f", "why": "the arguments are longer than 9 bytes"},
    ]
