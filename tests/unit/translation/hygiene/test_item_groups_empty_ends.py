"""A last message without content is refused, whatever form its API has for it: no answer is continued for it."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from translation.agui.messages import read_messages
from translation.chat.client.lift import lift as lift_chat
from translation.errors import InvalidRequest
from translation.gemini.client.lift import lift as lift_gemini
from translation.gemini.upstream.lower import lower as lower_gemini
from translation.hygiene.item_groups import add_empty_end
from translation.messages.client.lift import lift as lift_messages
from translation.messages.upstream.lower import lower as lower_messages
from translation.ollama.client.lift import lift_chat as lift_ollama
from translation.representation.json_types import Item, Json
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn
from translation.responses.client.lift import lift as lift_responses

TEXT = "The answer is"
QUESTION: Json = {"role": "user", "content": "What is it?"}
ANSWER: Json = {"role": "assistant", "content": TEXT}
ADDED: Json = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "look"}}


def messages(last: Json) -> Turn:
    return lift_messages({"model": "m", "max_tokens": 9, "messages": [QUESTION, ANSWER, last]})


def gemini(last: Json) -> Turn:
    contents = [{"role": "user", "parts": [{"text": "What is it?"}]}, {"role": "model", "parts": [{"text": TEXT}]}]
    return lift_gemini({"model": "m", "contents": [*contents, last]})


def responses(last: Json) -> Turn:
    return lift_responses({"model": "m", "input": [QUESTION, ANSWER, last]})


def agui(last: Json) -> Turn:
    run = [{"id": "1", **message} for message in (QUESTION, ANSWER, last)]
    return lift_responses({"model": "m", "input": [entry.item for entry in read_messages(run)]})


def chat(last: Json) -> Turn:
    return lift_chat({"model": "m", "messages": [QUESTION, ANSWER, last]})


def ollama(last: Json) -> Turn:
    return lift_ollama({"model": "m", "messages": [QUESTION, ANSWER, last]})


ENDS: dict[str, Callable[[], Turn]] = {
    "Messages: a text": lambda: messages({"role": "user", "content": ""}),
    "Messages: a list": lambda: messages({"role": "user", "content": []}),
    "Messages: a system message": lambda: messages({"role": "system", "content": ""}),
    "Messages: a system message without content": lambda: messages({"role": "system"}),
    "Messages: a system message of null": lambda: messages({"role": "system", "content": None}),
    "Messages: a system message of a list": lambda: messages({"role": "system", "content": []}),
    "Messages: a change of tools": lambda: messages({"role": "system", "content": [ADDED]}),
    "Messages: a failed compaction": lambda: messages({"role": "user", "content": [{"type": "compaction"}]}),
    "Gemini: no part": lambda: gemini({"role": "user", "parts": []}),
    "Gemini: no part and no role": lambda: gemini({"parts": []}),
    "Gemini: a text": lambda: gemini({"role": "user", "parts": [{"text": ""}]}),
    "Responses: a text": lambda: responses({"role": "user", "content": ""}),
    "Responses: a list": lambda: responses({"role": "user", "content": []}),
    "Responses: a system message": lambda: responses({"role": "developer", "content": []}),
    "AG-UI: a text": lambda: agui({"role": "user", "content": ""}),
    "AG-UI: a list": lambda: agui({"role": "user", "content": []}),
    "Chat: a text": lambda: chat({"role": "user", "content": ""}),
    "Chat: a list": lambda: chat({"role": "user", "content": []}),
    "Chat: a system message": lambda: chat({"role": "system", "content": []}),
    "Ollama: a text": lambda: ollama({"role": "user", "content": ""}),
    "Ollama: no content": lambda: ollama({"role": "user"}),
    "Ollama: no image": lambda: ollama({"role": "user", "content": "", "images": []}),
}


@pytest.mark.parametrize("lift", ENDS.values(), ids=ENDS)
def test_messages_refuses_a_last_message_without_content(lift: Callable[[], Turn]) -> None:
    with pytest.raises(InvalidRequest, match="end with a user message"):
        lower_messages(lift(), DEFAULT_PROFILE)


@pytest.mark.parametrize("lift", ENDS.values(), ids=ENDS)
def test_gemini_continues_no_answer_for_a_last_message_without_content(lift: Callable[[], Turn]) -> None:
    with suppress(InvalidRequest):  # but an empty text is for Google's servers to judge
        assert lower_gemini(lift(), DEFAULT_PROFILE).body["contents"][-1]["role"] == "user"


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"type": "message", "role": "user", "content": []}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
    ],
    ids=["none", "the user's", "a result"],
)
def test_items_that_no_model_wrote_get_no_end(items: list[Item]) -> None:
    ended = list(items)
    add_empty_end(ended, "user")
    assert ended == items
