"""A final value may be the streamed text in another form: trimmed, normalized, or without the thinking in its text."""

from time import thread_time
from typing import Final, Literal, get_args
from unicodedata import normalize

import pytest

from translation.representation.streamed_text import FinalRest, StreamedText, find_rest
from translation.text_forms import NormalForm, normalize_unicode

FORM_NAMES: Final[tuple[NormalForm, ...]] = get_args(NormalForm)
SAME = FinalRest("")
NORMALIZED = FinalRest("", is_normalized=True)
WITHOUT_THOUGHT = FinalRest("", lacks_thought=True)
CAFE, CAFE_APART = "Café", "Cafe\u0301"
VIETNAMESE = "Tiếng Việt có dấu"
MANY_ACCENTS = "é" * 40

FORMS: dict[str, tuple[str, str, str, FinalRest]] = {
    # streamed, final, thinking in the final value
    "white space before it that was trimmed": ("\u00a0\u3000Hello", "Hello", "", SAME),
    "white space before it that was added": ("Hello", "\u00a0Hello", "", SAME),
    "white space after it that was trimmed": ("Hello\u2028", "Hello", "", SAME),
    "three characters of white space after it": ("Hello\u00a0\u3000\u2003", "Hello", "", SAME),
    "white space after it that was added": ("Hello", "Hello\u00a0", "", SAME),
    "white space on both sides": ("\u3000Hello\n\u00a0", "Hello", "", SAME),
    "a byte order mark": ("\ufeffHello", "Hello", "", SAME),
    "white space and more text": ("\u00a0Hello", "Hello world", "", FinalRest(" world")),
    "nothing but white space, and then a text": ("\u00a0", "Hello", "", FinalRest("Hello")),
    "the composed form": (f"{CAFE_APART} ok", f"{CAFE} ok", "", NORMALIZED),
    "the decomposed form": (f"{CAFE} ok", f"{CAFE_APART} ok", "", NORMALIZED),
    "many accents": (normalize("NFD", VIETNAMESE), VIETNAMESE, "", NORMALIZED),
    "syllables of Hangul": (normalize("NFD", "한국어"), "한국어", "", NORMALIZED),
    "both forms in one text": (f"{CAFE} and {CAFE_APART}", f"{CAFE} and {CAFE}", "", NORMALIZED),
    "both forms, another order": (f"{CAFE_APART} {CAFE} {CAFE}", f"{CAFE} {CAFE} {CAFE}", "", NORMALIZED),
    "the composed form and more text": (
        CAFE_APART,
        f"{CAFE} {CAFE}",
        "",
        FinalRest(f" {CAFE}", is_normalized=True),
    ),
    "the composed form and more text in both": (
        CAFE_APART,
        f"{CAFE} {CAFE_APART}{CAFE}",
        "",
        FinalRest(f" {CAFE_APART}{CAFE_APART}", is_normalized=True),
    ),
    "the composed form and white space": (f"\u00a0{CAFE_APART}", CAFE, "", NORMALIZED),
    "thinking between tags": ("<think>Hm.</think>\n\nHello", "Hello", "", WITHOUT_THOUGHT),
    "thinking between other tags": ("\n<Reasoning>Hm.</Reasoning>Hello", "Hello", "", WITHOUT_THOUGHT),
    "thinking between Mistral's tags": ("[THINK]Hm.[/THINK]Hello", "Hello", "", WITHOUT_THOUGHT),
    "thinking that the final value has elsewhere": ("<think>Hm.</think>Hello", "Hello", "Hm.", WITHOUT_THOUGHT),
    "thinking whose opening tag is in the prompt": ("Hm.</think>Hello", "Hello", "", WITHOUT_THOUGHT),
    "thinking and more text": ("<think>Hm.</think>Hel", "Hello", "", FinalRest("lo", lacks_thought=True)),
    "nothing but thinking": ("<think>Hm.</think>", "Hello", "", FinalRest("Hello", lacks_thought=True)),
    "thinking and the composed form": (
        f"<think>Hm.</think>{CAFE_APART} {CAFE}",
        f"{CAFE} {CAFE}",
        "",
        FinalRest("", is_normalized=True, lacks_thought=True),
    ),
    "thinking with the same text": ("<think>Hm.</think>Hello", "<think>Hm.</think>Hello", "", SAME),
    "thinking with more text": ("<think>Hm.</think>Hel", "<think>Hm.</think>Hello", "", FinalRest("lo")),
}

OTHERS: dict[str, tuple[str, str]] = {
    "white space inside": ("Hel\u00a0lo", "Hello"),
    "too much white space": ("Hello" + "\u3000" * 4, "Hello"),
    "compatible letters": ("ﬁne", "fine"),
    "another accent": (f"{CAFE_APART}", "Cafè"),
    "no accent": (CAFE_APART, "Cafe"),
    "another answer after thinking": ("<think>Hm.</think>Hello", "Hullo"),
    "a shorter answer after thinking": ("<think>Hm.</think>Hello", "Hell"),
    "thinking that is not closed": ("<think>Hello", "Hello"),
    "a text before thinking": ("Hi <think>Hm.</think>Hello", "Hi Hello"),
    "more accents than are tried": ("e\u0301é" * 20 + "x", f"{MANY_ACCENTS}y"),
}


def stream(text: str, size: int) -> StreamedText:
    streamed = StreamedText()
    for start in range(0, len(text), size):
        streamed.add(text[start : start + size])
    return streamed


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("streamed", "final", "thought", "rest"), FORMS.values(), ids=FORMS)
def test_another_form_of_a_text_is_that_text(
    streamed: str, final: str, thought: str, rest: FinalRest, size: int
) -> None:
    assert stream(streamed, size).find_rest(final, thought) == rest


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(("streamed", "final"), OTHERS.values(), ids=OTHERS)
def test_a_text_that_only_resembles_it_is_another(streamed: str, final: str, size: int) -> None:
    assert stream(streamed, size).find_rest(final) is None


def test_thinking_that_was_counted_elsewhere_is_found_by_the_final_value() -> None:
    """The fast path counts texts without reading them."""

    class Counts:
        def take(self, owner: StreamedText) -> tuple[int, int, int]:
            elsewhere = stream("I think so.</thinking>\n\nHello", 1000)
            return elsewhere.size, elsewhere.ink_size, elsewhere.checksum

    text = stream("I ", 1)
    text.live_counts = Counts()
    assert text.find_rest("Hello", "I think so.") == WITHOUT_THOUGHT
    assert text.find_rest("Hello", "I think not.") is None
    assert text.find_rest("Hello") is None


def test_each_piece_is_read_until_thinking_has_ended() -> None:
    text = StreamedText()
    states = []
    for piece in ("\n", "<th", "ink>", "Hm.</thi", "nk>", "Hello"):
        text.add(piece)
        states.append(text.needs_reading)
    assert states == [True, True, True, True, False, False]
    assert not stream("Hello", 1).needs_reading
    assert not stream(" " * 2000, 100).needs_reading


def test_a_copy_knows_its_beginning() -> None:
    copied = stream("<think>Hm.</think>", 1).copy()
    copied.add("Hello")
    assert copied.find_rest("Hello") == WITHOUT_THOUGHT
    assert find_rest("Hello", "Hello") == SAME


@pytest.mark.parametrize("thought", ["", "Hm."])
@pytest.mark.parametrize("syllables", [20_000, 90_000, 250_000])
def test_a_comparison_does_not_take_longer_for_each_letter(
    monkeypatch: pytest.MonkeyPatch, syllables: int, thought: str
) -> None:
    """An upstream whose final text lacks the end of a long answer holds up no other request."""
    normalize_unicode("NFD", "é" * 2_000)  # the marks are found once
    normalized: list[int] = []

    def note(form: Literal["NFC", "NFD"], letters: str) -> str:
        normalized.append(len(letters))
        return normalize(form, letters)

    monkeypatch.setattr("translation.text_forms.normalize", note)
    streamed = "한국어 é" * (syllables // 5)
    assert find_rest(streamed, streamed[:-10]) is None
    assert stream(streamed, 1000).find_rest(streamed[:-10], thought) is None
    assert len(normalized) < 200
    assert sum(normalized) < 20 * syllables


def test_a_very_long_final_value_is_compared_as_it_is() -> None:
    long = f"{CAFE} " * 50_000
    assert find_rest(long, long[:-1]) == SAME
    assert find_rest(f"\u00a0{long}", long) == SAME
    assert find_rest(normalize("NFD", long), long) is None


MARKS = "\u0301\u0323"


@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("text", ["plain", CAFE, VIETNAMESE * 100, "한국어" * 1000, f"a{MARKS * 15}{CAFE_APART}" * 100])
def test_a_text_of_any_writing_is_normalized(text: str, form: NormalForm) -> None:
    assert normalize_unicode(form, text) == normalize(form, text)


@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("unit", [MARKS, "\u0f73", "\u0f75", "\u0f81", "\uff9e\u0301", "\u0344"])
def test_more_marks_in_a_row_than_any_writing_has_stay_as_they_are(form: NormalForm, unit: str) -> None:
    row = unit * 50_000
    started = thread_time()
    normalized = normalize_unicode(form, f"{CAFE_APART}x{row}{CAFE}")
    assert thread_time() - started < 1.0  # to sort the marks would take a minute
    assert normalized == normalize(form, f"{CAFE_APART}x") + row + normalize(form, CAFE)


def test_a_final_value_with_many_marks_is_compared_at_once() -> None:
    text = f"a{MARKS * 50_000}"
    started = thread_time()
    assert find_rest(f"b{text}", text) is None
    assert find_rest(f"{CAFE_APART}{text}", f"{CAFE}{text}") == NORMALIZED
    assert thread_time() - started < 2.0
