"""Replies in Harmony, whole, broken and random: a special token never becomes text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.harmony.token_decoder import HarmonyTokenDecoder
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.harmony import events_of, marked, real
from tests.unit.support.translator_drivers import collect, counting_ids
from translation.representation.events import Finished, Started, Usage
from translation.representation.profile import DEFAULT_PROFILE, Profile

A = "<|channel|>analysis<|message|>"
F = "<|channel|>final<|message|>"
NEXT = "<|end|><|start|>assistant"


def decode_texts(text: str | list[int], primed: str = "", stop: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Returns the texts by items: thoughts, texts, and calls by their names."""
    output = []
    for item in collect(events_of(text, primed, stop)):
        if item["type"] == "function_call":
            output.append((item["name"], item["arguments"]))
        else:
            output.append((item["type"], "".join(part["text"] for part in item["content"])))
    return output


REPLIES = {
    "a thought, then an answer": (A + "Hm" + NEXT + F + "Yes<|return|>", [("reasoning", "Hm"), ("message", "Yes")]),
    "a call": ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", [("f", "{}")]),
    "a call whose header names the function first": (
        " to=functions.f<|channel|>commentary<|message|>{}<|call|>",
        [("f", "{}")],
    ),
    "a call on the channel of thoughts": (
        "<|channel|>analysis to=functions.f code<|message|>{}<|call|>",
        [("f", "{}")],
    ),
    "a call of something else": ("<|channel|>commentary to=browser.open<|message|>1<|call|>", [("browser.open", "1")]),
    "a call without arguments": ("<|channel|>commentary to=functions.f<|message|><|call|>", [("f", "{}")]),
    "a call that does not end": ("<|channel|>commentary to=functions.f<|message|>", [("f", "{}")]),
    "a name with a mark in it": (
        "<|channel|>commentary to=functions.f<|channel|>commentary<|message|>{}<|call|>",
        [("f", "{}")],
    ),
    "a name with a mark spelt in it": ("<|channel|>commentary to=functions.f<x<|message|>{}<|call|>", [("f", "{}")]),
    "a call to nobody": ("<|channel|>commentary to=functions.<|message|>Hm<|end|>", [("message", "Hm")]),
    "what is addressed to itself": ("<|channel|>commentary to=assistant<|message|>Hm<|end|>", [("message", "Hm")]),
    "an unknown channel": ("<|channel|>odd<|message|>Yes<|end|>", [("message", "Yes")]),
    "no channel": ("<|message|>Yes<|return|>", [("message", "Yes")]),
    "no marks at all": ("Yes, of course.<|return|>", [("message", "Yes, of course.")]),
    "a start left out": (A + "Hm<|end|>" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "a whole header left out": (A + "Hm<|end|>Yes<|return|>", [("reasoning", "Hm"), ("message", "Yes")]),
    "an end left out": (A + "Hm<|start|>assistant" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "an end and a start left out": (A + "Hm" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "an end twice": (A + "Hm<|end|><|end|><|start|>assistant" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "a start twice": (A + "Hm" + NEXT + "<|start|>assistant" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "a channel twice": ("<|channel|>commentary" + F + "Yes", [("message", "Yes")]),
    "a channel without a name": ("<|channel|><|message|>Yes", [("message", "Yes")]),
    "marks in text": (F + "Y<|message|>e<|constrain|>s<|endoftext|>!", [("message", "Yes!")]),
    "a header that ends": ("<|channel|>commentary<|end|><|start|>assistant" + F + "Yes", [("message", "Yes")]),
    "a header that is given up": ("<|channel|>analysis<|return|>" + F + "No", []),
    "a header without an end": (
        A + "Hm" + NEXT + F[:-11] + " Yes" * 80,
        [("reasoning", "Hm"), ("message", " Yes" * 80)],
    ),
    "text for a header": ("Yes " * 80, [("message", "Yes " * 80)]),
    "a header of a thought without an end": ("<|channel|>analysis" + " Hm" * 80, [("reasoning", " Hm" * 80)]),
    "an unknown role": (A + "Hm<|end|><|start|>wizard" + F + "Yes", [("reasoning", "Hm"), ("message", "Yes")]),
    "words of a user": (A + "Hm<|end|><|start|>user<|message|>No<|end|>" + F + "No", [("reasoning", "Hm")]),
    "words of a tool": (
        "<|channel|>commentary<|message|>a<|end|><|start|>functions.f to=assistant<|message|>No",
        [("message", "a")],
    ),
    "more after the answer": (F + "Yes" + NEXT + F + "No", [("message", "Yes")]),
    "more after a call": ("<|channel|>commentary to=functions.f<|message|>{}<|call|>" + F + "No", [("f", "{}")]),
    "an answer of nothing before it": (F + F + "Yes" + NEXT + F + "No", [("message", "Yes")]),
    "nothing": ("", []),
    "only the role": ("<|end|>assistant<|end|>", []),
}


@pytest.mark.parametrize(("text", "expected"), REPLIES.values(), ids=REPLIES)
def test_a_reply_of(text: str, expected: list[tuple[str, str]]) -> None:
    assert decode_texts(text) == expected


@pytest.mark.parametrize(
    ("primed", "text", "expected"),
    [
        (F + "It is", " sunny.<|return|>", [("message", " sunny.")]),
        (A + "I see", " it." + NEXT + F + "Yes<|return|>", [("reasoning", " it."), ("message", "Yes")]),
        (A + NEXT, F + "Yes<|return|>", [("message", "Yes")]),
        (F + "It is", F + "It is sunny.<|return|>", [("message", "It is sunny.")]),
        (F + "It is", A + "Hm" + NEXT + F + "Yes<|return|>", [("reasoning", "Hm"), ("message", "Yes")]),
        (F + "It is", NEXT + F + "Yes<|return|>" + F + "No", [("message", "Yes")]),
        (F + "It is", "<|return|>" + F + "No", []),
        (F + "It is", " sunny." + F + "No", [("message", " sunny.")]),
    ],
    ids=[
        "an answer",
        "a thought",
        "a thought of nothing",
        "an answer that is begun again",
        "an answer that is thought of first",
        "an answer that is ended and begun again",
        "an answer with nothing to add",
        "an answer that is gone on with, and then begun again",
    ],
)
def test_the_parser_begins_within_the_prompt(primed: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert decode_texts(text, primed) == expected


def test_a_thought_is_a_summary_where_the_profile_says_so() -> None:
    [item] = collect(events_of(A + "Hm", profile=Profile(reasoning_part="summary_text")))
    assert item["summary"][0]["text"] == "Hm"


def test_stop_strings_end_answers_and_not_thoughts() -> None:
    reply = A + "Say END" + NEXT + F + "One EN, two END three<|return|>"
    assert decode_texts(reply, stop=("END",)) == [("reasoning", "Say END"), ("message", "One EN, two ")]
    assert decode_texts(F + "One EN", stop=("END",)) == [("message", "One EN")]
    assert decode_texts(F + "One EN<|end|>", stop=("END", "")) == [("message", "One EN")]
    assert decode_texts(F + "END", stop=("END",)) == []


@pytest.mark.parametrize(("kept", "whole"), [(1, " "), (2, " \N{WOMAN}"), (4, " \N{WOMAN}\N{ZERO WIDTH JOINER}")])
def test_a_character_that_is_never_finished_is_left_out(kept: int, whole: str) -> None:
    cut = [*marked(A), *real().encode(" \N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}")[:kept]]
    assert decode_texts([*cut, *marked(NEXT + F + "Yes")]) == [("reasoning", whole), ("message", "Yes")]


_MARKS = st.sampled_from([*real().control_tokens, 199999, 200001, 201087])
_WORDS = st.sampled_from(
    marked(
        "assistant user functions.f analysis final commentary to=functions. json {} ü 👩‍🚀 <|end|>".replace(
            "<|end|>", ""
        )
    )
    + real().encode("<|end|><|channel|>")
)


@settings(max_examples=400)
@given(st.lists(_MARKS | _WORDS | st.integers(0, 199997), max_size=120), st.sampled_from(["", F, A, "<|start|>"]))
def test_no_special_token_reaches_a_client(tokens: list[int], primed: str) -> None:
    """The text consists of the ordinary tokens, in their order."""
    grammar = EventGrammar()
    events = events_of(tokens, primed)
    grammar.check([Started(model="m"), *events, Finished("stop", None, Usage())])
    grammar.finish()
    texts = real().decode([token for token in tokens if not real().is_special(token)])
    for item in collect(events):
        said = item["arguments"] if item["type"] == "function_call" else "".join(p["text"] for p in item["content"])
        for mark in ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"):
            assert said.count(mark) <= texts.count(mark)
        assert "<" not in item.get("name", "")


def test_tokens_of_thoughts_are_counted_without_their_marks() -> None:
    reply = HarmonyTokenDecoder(real(), counting_ids(), DEFAULT_PROFILE)
    for token in marked(A + "One two three" + NEXT + F + "Four<|return|>"):
        reply.feed(token)
    assert reply.reasoning_tokens == 3
    assert reply.ended


def test_text_after_half_a_character_at_the_end_of_a_message_is_sent() -> None:
    half = real().encode(" 🚀")[0]
    said = [*marked(F + "Zürich"), half, *marked(":" + NEXT + F + "Yes<|return|>")]
    assert decode_texts(said) == [("message", "Zürich \ufffd:")]
    arguments = [*marked('<|channel|>commentary to=functions.f<|message|>{"a":"'), half, *marked('"}<|call|>')]
    assert decode_texts(arguments) == [("f", '{"a":" \ufffd"}')]


def test_half_a_character_is_no_answer_yet() -> None:
    half, whole = real().encode(" 🚀")[:1], real().encode("🚀")
    assert len(whole) > 1
    for text in (half, [], real().encode(" ")):
        assert ("message", "Yes") in decode_texts([*marked(F), *text, *marked(F + "Yes<|return|>")])
    assert decode_texts([*marked(F), *whole, *marked(F + "No<|return|>")]) == [("message", "🚀")]
