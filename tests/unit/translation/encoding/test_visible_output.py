"""Every type of output is shown by an API, is a step to what it shows, or is noted as missing."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from translation.encoding.visible_output import STEP_ITEMS, UNREPORTED_FACT, InvisibleOutputCheck
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
)
from translation.representation.items import ID_PREFIXES

TEXT: list[Event] = [
    ItemStarted(0, {"type": "message", "id": "msg_1"}),
    PartStarted(0, 0, {"type": "output_text", "text": ""}),
    Delta(0, 0, "Here."),
    PartEnded(0, 0),
    ItemEnded(0),
]
AUDIO_PART: list[Event] = [PartStarted(0, 1, {"type": "output_audio"}), PartEnded(0, 1)]
END = Finished("stop")
ENDPOINTS = {"chat": CHAT, "messages": MESSAGES, "gemini": GEMINI, "ollama": OLLAMA_CHAT}
OTHERS = ("image_generation_call", "computer_call", "shell_call", "apply_patch_call", "local_shell_call", "novel_item")


def item(kind: str) -> list[Event]:
    return [ItemStarted(1, {"type": kind, "id": "i"}), ItemEnded(1)]


def feed(shown: frozenset[str] | None, *events: Event) -> list[Event]:
    return list(InvisibleOutputCheck(shown, None).feed(events))


@pytest.mark.parametrize("api", ENDPOINTS)
@pytest.mark.parametrize("kind", sorted({*ID_PREFIXES, *STEP_ITEMS, *OTHERS}))
def test_every_type_is_shown_a_step_or_noted(api: str, kind: str) -> None:
    shown: Any = ENDPOINTS[api].reply.visible_items
    *_, noted, end = feed(shown, *TEXT, *item(kind), END)
    is_noted = noted == Noted(facts={UNREPORTED_FACT: f"output.{kind}"})
    assert end == (replace(END, lacks=(f"output.{kind}",)) if is_noted else END)
    assert is_noted == (kind not in shown and kind not in STEP_ITEMS)


def test_a_reply_of_which_nothing_is_shown_fails() -> None:
    reasoning: list[Event] = [ItemStarted(0, {"type": "reasoning", "id": "r"}), ItemEnded(0)]
    for before in ([], reasoning):
        (*_, end) = feed(frozenset({"message", "reasoning"}), *before, *item("image_generation_call"), END)
        assert isinstance(end, Failed)
        assert "image_generation_call" in end.message


@pytest.mark.parametrize("visible", [None, frozenset({"message"})])
def test_images_of_the_thinking_alone_are_a_loss_and_no_failure(visible: frozenset[str] | None) -> None:
    lost = "output.thought_image"
    image = Opaque("gemini", {"type": "thought_image"}, is_output=True)
    assert feed(visible, image, END) == [image, Noted(facts={UNREPORTED_FACT: lost}), replace(END, lacks=(lost,))]


def test_parts_of_dialects_count_and_events_around_the_answer_do_not() -> None:
    *_, noted, _ = feed(frozenset({"message"}), *TEXT, Opaque("gemini", {"executableCode": {}}, is_output=True), END)
    assert noted == Noted(facts={UNREPORTED_FACT: "output.executableCode"})
    around = [*TEXT, Opaque("responses", {"type": "novel"}), END]
    assert feed(frozenset({"message"}), *around) == around
    odd: list[Event] = [*TEXT[:-1], *AUDIO_PART, TEXT[-1]]
    assert Noted(facts={UNREPORTED_FACT: "output.output_audio"}) in feed(frozenset({"message"}), *odd, END)


def test_a_message_of_which_no_part_is_shown_fails() -> None:
    *_, end = feed(frozenset({"message"}), TEXT[0], *AUDIO_PART, TEXT[-1], END)
    assert isinstance(end, Failed)
    assert "output_audio" in end.message


def test_an_api_that_shows_all_items_lacks_only_what_is_in_none() -> None:
    shown = [TEXT[0], *AUDIO_PART, TEXT[-1], *item("novel_item")]
    assert feed(None, *shown, END) == [*shown, END]
    foreign = Opaque("chat", {"type": "audio"}, is_output=True)
    assert feed(None, *shown, foreign, END)[-2:] == [
        Noted(facts={UNREPORTED_FACT: "output.audio"}),
        replace(END, lacks=("output.audio",)),
    ]
    reasoning: list[Event] = [
        ItemStarted(0, {"type": "reasoning", "id": "r"}),
        PartStarted(0, 0, {"type": "reasoning_text", "text": ""}),
    ]
    for before in ([], reasoning):
        *_, end = feed(None, *before, foreign, END)
        assert isinstance(end, Failed)
        assert "audio" in end.message


@pytest.mark.parametrize("split", range(1, 7), ids=str)
def test_output_apart_is_noted_in_whatever_batches_it_comes(split: int) -> None:
    events: list[Event] = [*TEXT, Opaque("chat", {"type": "audio"}, is_output=True), END]
    check = InvisibleOutputCheck(None, None)
    replies = [*check.feed(events[:split]), *check.feed(events[split:])]
    assert replies[-2:] == [Noted(facts={UNREPORTED_FACT: "output.audio"}), replace(END, lacks=("output.audio",))]


def test_deltas_of_a_run_bypass_it() -> None:
    assert InvisibleOutputCheck(frozenset(), None).delta_observers((0, 0)) == ()


def test_an_api_that_shows_all_items_gets_whole_replies_unchanged() -> None:
    whole = [*TEXT, *item("novel_item"), END]
    assert feed(None, *whole) == whole


def test_a_batch_without_output_of_other_types_is_unchanged() -> None:
    assert feed(frozenset({"message"}), Delta(0, 0, "Here.")) == [Delta(0, 0, "Here.")]


FILE_CITATION: Event = Annotated(0, 0, {"type": "file_citation", "file_id": "file-1", "filename": "a", "index": 4})
PAGE_CITATION: Event = Annotated(0, 0, {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 1})


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("annotation", "cites_files", "is_lost"),
    [(FILE_CITATION, False, True), (FILE_CITATION, True, False), (PAGE_CITATION, False, False)],
)
def test_citations_of_files_are_noted_where_an_api_has_none(
    annotation: Event, cites_files: bool, is_lost: bool, at_once: bool
) -> None:
    check = InvisibleOutputCheck(CHAT.reply.visible_items, None, cites_files=cites_files)
    events = [*TEXT[:3], annotation, *TEXT[3:], END]
    found = list(check.feed(events)) if at_once else [each for event in events for each in check.feed([event])]
    lost = "output.file_citation"
    assert found[-1] == (replace(END, lacks=(lost,)) if is_lost else END)
    assert (Noted(facts={UNREPORTED_FACT: lost}) in found) == is_lost
    assert annotation in found
