"""gateway/replies/sentence_buffer.py: the text of a stream arrives in whole sentences, and delays nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.replies.sentence_buffer import SentenceBuffer
from translation.representation import items
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Started,
    Usage,
)
from translation.representation.json_types import Json

SENTENCES: dict[str, list[str]] = {
    "full stops": ["One. ", "Two!  ", "Three? ", "Four"],
    "numbers and names": ["It costs 3.50 at example.com. ", "Yes."],
    "quotes and brackets": ['He said "no." ', "(Really!) ", "“Yes.” ", "**Bold.** ", "End"],
    "lines": ["- one\n", "- two\n\n", "# Three\n", "four\n"],
    "dots": ["Well... ", "Hm… ", "Yes?! ", "Ok"],
    "Chinese": ["你好。", "再见！」", "吗？ ", "x"],  # noqa: RUF001
    "white space at the end": ["One. \n "],
    "no end": ["one two three"],
    "one mark": ["."],
}


def deltas(*texts: str, index: int = 0, part_index: int | None = 0) -> list[Event]:
    return [Delta(index, part_index, text) for text in texts]


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Delta)]


@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_every_split_of_a_text_gives_the_same_sentences(sentences: list[str]) -> None:
    text = "".join(sentences)
    for pieces in ([*text], [text], *([text[:cut], text[cut:]] for cut in range(1, len(text)))):
        buffer = SentenceBuffer()
        events = [event for piece in pieces for event in buffer.feed(deltas(piece))]
        assert texts([*events, *buffer.feed([PartEnded(0, 0)])]) == sentences


@given(st.lists(st.text(alphabet="ab. \n!?。”", min_size=1)))
def test_no_text_is_lost_and_each_delta_has_some(pieces: list[str]) -> None:
    buffer = SentenceBuffer()
    found = texts([event for piece in pieces for event in buffer.feed(deltas(piece))] + buffer.feed([PartEnded(0, 0)]))
    assert "".join(found) == "".join(pieces)
    assert all(found)


def test_later_events_complete_a_text() -> None:
    call: Json = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    ends: list[Event] = [
        PartEnded(0, 0),
        PartStarted(0, 1, items.new_output_text()),
        ItemStarted(1, call),
        ItemEnded(0),
        Delta(1, None, "{"),
        Delta(0, 1, "Other. "),
        Failed("upstream_disconnected", "gone"),
        Finished("stop"),
    ]
    for end in ends:
        buffer = SentenceBuffer()
        assert buffer.feed([Started("m"), *deltas("Hel", "lo")]) == [Started("m")]
        assert buffer.feed([end])[0] == Delta(0, 0, "Hello")


def test_counts_in_the_middle_of_a_text_complete_nothing() -> None:
    buffer = SentenceBuffer()
    assert buffer.feed([*deltas("Hel"), Noted(Usage(1, 2)), *deltas("lo")]) == [Noted(Usage(1, 2))]
    assert buffer.feed([PartEnded(0, 0)]) == [*deltas("Hello"), PartEnded(0, 0)]


def test_arguments_are_unchanged() -> None:
    arguments = deltas('{"a": "One. ', 'Two."}', part_index=None)
    assert SentenceBuffer().feed(arguments) == arguments


def test_deltas_with_log_probabilities_are_not_cut() -> None:
    buffer = SentenceBuffer()
    tokens = [Delta(0, 0, text, [{"token": text}]) for text in ("One", ".", " Two", ". Three", ".")]
    events = [*buffer.feed(tokens), *buffer.feed([PartEnded(0, 0)])]
    assert texts(events) == ["One.", " Two", ". Three."]
    assert [entry["token"] for event in events if isinstance(event, Delta) for entry in event.logprobs or ()] == [
        token.text for token in tokens if isinstance(token, Delta)
    ]


def test_token_ids_stay_with_their_text() -> None:
    buffer = SentenceBuffer()
    tokens: list[Event] = [Delta(0, 0, "One.", None, [1]), Delta(0, 0, " Two", None, [2])]
    assert [*buffer.feed(tokens), *buffer.feed([PartEnded(0, 0)])][:2] == [
        Delta(0, 0, "One.", None, [1]),
        Delta(0, 0, " Two", None, [2]),
    ]


def test_a_text_without_sentences_is_not_held_for_ever() -> None:
    buffer = SentenceBuffer()
    events = [event for _ in range(300) for event in buffer.feed(deltas("0123456789"))]
    assert len("".join(texts(events))) > 2000


class Stage:
    """A stage before the buffer."""

    def feed(self, batch: list[Event]) -> list[Event]:
        return [Delta(0, 0, event.text.upper()) if isinstance(event, Delta) else event for event in batch]

    def delta_observers(self, text_key: TextKey) -> list[TextObserver] | None:
        return [print]


def test_the_fast_path_is_not_granted_to_texts() -> None:
    assert SentenceBuffer().delta_observers((0, 0)) is None
    assert SentenceBuffer().delta_observers((0, None)) == ()
    buffer = SentenceBuffer(Stage())  # type: ignore[arg-type]
    assert buffer.delta_observers((0, 0)) is None
    assert buffer.delta_observers((0, None)) == [print]
    assert texts(buffer.feed(deltas("a. b"))) == ["A. "]
