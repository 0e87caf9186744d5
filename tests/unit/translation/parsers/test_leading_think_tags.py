"""translation/parsers/leading_think_tags.py: thinking at the beginning of a text, however it is split"""

import pytest

from translation.parsers.leading_think_tags import LeadingThinkParser, add_opening_tag

TEXTS: dict[str, tuple[str, str, str]] = {
    "thinking, then the answer": ("<think>\nI think.\n</think>\n\nYes.", "\nI think.\n", "\n\nYes."),
    "after blanks": ("\n <think>a</think>b", "a", "b"),
    "in upper case": ("<THINK>a</Think>b", "a", "b"),
    "other tag": ("<reasoning>a</think></reasoning>b", "a</think>", "b"),
    "empty thinking": ("<think></think>b", "", "b"),
    "no answer": ("<think>a</think>", "a", ""),
    "unclosed": ("<think>a < b </thin", "a < b </thin", ""),
    "no tag": ("Yes. <think>no</think>", "", "Yes. <think>no</think>"),
    "a second thought is text": ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    "another tag": ("<thinker>a", "", "<thinker>a"),
    "another character": ("<p>İstanbul</p>", "", "<p>İstanbul</p>"),
    "characters whose lower case is longer": ("<think>İİİ</think>b", "İİİ", "b"),
    "only the beginning of a tag": (" <thi", "", " <thi"),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize(("text", "reasoning", "answer"), TEXTS.values(), ids=TEXTS)
def test_every_split_of_a_text_gives_the_same_result(text: str, reasoning: str, answer: str) -> None:
    splits = [[*text], [text], *([text[:cut], text[cut:]] for cut in range(1, len(text)))]
    for pieces in splits:
        parser = LeadingThinkParser()
        runs = [run for piece in pieces if piece for run in parser.feed(piece)] + parser.finish()
        assert all(run for _, run in runs)
        assert "".join(run for kind, run in runs if kind == "reasoning") == reasoning
        assert "".join(run for kind, run in runs if kind == "text") == answer
        assert [kind for kind, _ in runs] == sorted(kind for kind, _ in runs), "reasoning is first"


def test_leading_thinking_ends_when_the_answer_begins() -> None:
    parser = LeadingThinkParser()
    assert parser.feed(" ") == []
    assert parser.feed("<think>a") == [("reasoning", "a")]
    assert not parser.is_over
    parser.feed("</think>")
    assert parser.is_over
    assert parser.feed("<think>") == [("text", "<think>")]


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("a</think>b", "<think>a</think>b"),
        ("a</Thinking>b</think>", "<thinking>a</Thinking>b</think>"),
        ("a[/THINK]b", "[think]a[/THINK]b"),
        ("<think>a</think>b", "<think>a</think>b"),
        ("Write <think> and </think>.", "Write <think> and </think>."),
        ("no tag", "no tag"),
    ],
)
def test_a_closing_tag_alone_gets_its_opening_tag(text: str, opened: str) -> None:
    assert add_opening_tag(text) == opened
