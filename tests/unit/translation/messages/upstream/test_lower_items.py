"""Items as messages of the Messages API."""

from typing import Any

import pytest

from tests.unit.support.items import PNG, assistant, call, message, output, user
from tests.unit.translation.messages.upstream.item_blocks import (
    HIDDEN,
    SIGNED,
    THINKING,
    entry,
    lower,
    result,
    text,
    thought,
    use,
)
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile

PNG_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
EMPTY = {"type": "anthropic.thinking", "thinking": "", "signature": "s2"}
FOREIGN = {"type": "reasoning.text", "text": "b", "signature": "c"}
REDACTED = {"type": "anthropic.redacted_thinking", "data": "d1"}


def failed(call_id: str, said: str | list[Json]) -> Item:
    return {**output(call_id, said), "status": "incomplete"}


UNREAD = {"type": "thinking", "thinking": "", "signature": "s2"}

ASKED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "b"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "https://a"}]}
SEARCH = {
    "type": "web_search_call",
    "details": [{**block, "type": f"anthropic.{block['type']}"} for block in (ASKED, FOUND)],
}

WAITING = {**SEARCH, "details": SEARCH["details"][:1]}

CASES: dict[str, tuple[list[Item], list[Json]]] = {
    "searches that wait to be run": (
        [user("a"), WAITING, WAITING],
        [entry("user", text("a")), entry("assistant", ASKED, ASKED)],
    ),
    "a question": ([user("Hi")], [entry("user", text("Hi"))]),
    "one voice is one message": ([user("a"), user("b")], [entry("user", text("a"), text("b"))]),
    "blank texts are left out": ([user("a", " ", "")], [entry("user", text("a"))]),
    "blank messages are left out": (
        [user("a"), assistant("\n"), user("b")],
        [entry("user", text("a"), text("b"))],
    ),
    "texts of one answer are one text": (
        [user("a"), assistant("b", "c"), user("d")],
        [entry("user", text("a")), entry("assistant", text("bc")), entry("user", text("d"))],
    ),
    "a call and its output": (
        [user("a"), call("c1", '{"x": 1}'), output("c1")],
        [entry("user", text("a")), entry("assistant", use("c1", x=1)), entry("user", result("c1"))],
    ),
    "thinking in its order, signed, empty and redacted": (
        [user("a"), thought(SIGNED), assistant("b"), thought(EMPTY, REDACTED), call("c1"), output("c1"), user("d")],
        [
            entry("user", text("a")),
            entry("assistant", THINKING, text("b"), UNREAD, HIDDEN, use("c1")),
            entry("user", result("c1"), text("d")),
        ],
    ),
    "results of parallel calls in the order of the outputs": (
        [user("a"), call("c1"), call("c2"), output("c2"), output("c1")],
        [entry("user", text("a")), entry("assistant", use("c1"), use("c2")), entry("user", result("c2"), result("c1"))],
    ),
    "calls one after the other": (
        [user("a"), call("c1"), output("c1"), call("c2"), output("c2")],
        [
            entry("user", text("a")),
            entry("assistant", use("c1")),
            entry("user", result("c1")),
            entry("assistant", use("c2")),
            entry("user", result("c2")),
        ],
    ),
    "calls of one id are distinguished, and ids have no odd characters": (
        [user("a"), call("f.x:0"), output("f.x:0"), call("f.x:0"), output("f.x:0")],
        [
            entry("user", text("a")),
            entry("assistant", use("f_x_0")),
            entry("user", result("f_x_0")),
            entry("assistant", use("f_x_0__2")),
            entry("user", result("f_x_0__2")),
        ],
    ),
    "a call without arguments": (
        [user("a"), call("c1", " "), output("c1")],
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"))],
    ),
    "an output without words": (
        [user("a"), call("c1"), output("c1", "")],
        [
            entry("user", text("a")),
            entry("assistant", use("c1")),
            entry("user", {"type": "tool_result", "tool_use_id": "c1"}),
        ],
    ),
    "an output that is marked as failed": (
        [user("a"), call("c1"), failed("c1", "no such file")],
        [
            entry("user", text("a")),
            entry("assistant", use("c1")),
            entry("user", {**result("c1", text("no such file")), "is_error": True}),
        ],
    ),
    "an output that failed without words, for which the API wants some": (
        [user("a"), call("c1"), failed("c1", " ")],
        [
            entry("user", text("a")),
            entry("assistant", use("c1")),
            entry("user", {**result("c1", text("(The tool failed and said nothing.)")), "is_error": True}),
        ],
    ),
    "an output that is marked as complete": (
        [user("a"), call("c1"), {**output("c1"), "status": "completed"}],
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"))],
    ),
    "images in questions and outputs": (
        [
            user("a", {"type": "input_image", "image_url": PNG, "detail": "auto"}),
            call("c1"),
            output("c1", [{"type": "input_text", "text": "b"}, {"type": "input_image", "image_url": "https://a/b.png"}]),
        ],
        [
            entry("user", text("a"), PNG_BLOCK),
            entry("assistant", use("c1")),
            entry("user", result("c1", text("b"), {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}})),
        ],
    ),
    "searches as they were made": (
        [user("a"), SEARCH, assistant("b"), user("c")],
        [entry("user", text("a")), entry("assistant", ASKED, FOUND, text("b")), entry("user", text("c"))],
    ),
    "a search to go on from": ([user("a"), SEARCH], [entry("user", text("a")), entry("assistant", ASKED, FOUND)]),
    "what the model goes on from has no blanks at its end": (
        [user("a"), assistant("b\n")],
        [entry("user", text("a")), entry("assistant", text("b"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("items", "messages"), CASES.values(), ids=CASES)
def test_items_become_messages_of_the_api(items: list[Item], messages: list[Json]) -> None:
    (system, spoken), losses = lower(*items)
    assert spoken == messages
    assert (system, losses) == ([], [])


LOSSY: dict[str, tuple[list[Item], list[Json], Loss]] = {
    "results before the text in between": (
        [user("a"), call("c1"), user("b"), output("c1")],
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"), text("b"))],
        Loss("input", "message not between call and output"),
    ),
    "a refusal is text": (
        [user("a"), assistant({"type": "refusal", "refusal": "No."}), user("b")],
        [entry("user", text("a")), entry("assistant", text("No.")), entry("user", text("b"))],
        Loss("input", "refusal as text"),
    ),
    "arguments that are no object": (
        [user("a"), call("c1", "[1"), output("c1")],
        [entry("user", text("a")), entry("assistant", use("c1", raw_arguments="[1")), entry("user", result("c1"))],
        Loss("input[1].arguments", "wrapped"),
    ),
    "arguments that nest too deep": (
        [user("a"), call("c1", '{"a":' * 300 + "1" + "}" * 300), output("c1")],
        [
            entry("user", text("a")),
            entry("assistant", use("c1", raw_arguments='{"a":' * 300 + "1" + "}" * 300)),
            entry("user", result("c1")),
        ],
        Loss("input[1].arguments", "wrapped"),
    ),
    "another vendor's thoughts": (
        [user("a"), thought(FOREIGN, words="b"), assistant("d"), user("e")],
        [entry("user", text("a")), entry("assistant", text("d")), entry("user", text("e"))],
        Loss("input", "reasoning dropped"),
    ),
    "thinking that led to nothing": (
        [user("a"), assistant("b"), thought(SIGNED, REDACTED), user("c")],
        [entry("user", text("a")), entry("assistant", text("b")), entry("user", text("c"))],
        Loss("input", "reasoning dropped"),
    ),
    "thinking and nothing else": (
        [user("a"), thought(SIGNED), user("b")],
        [entry("user", text("a"), text("b"))],
        Loss("input", "reasoning dropped"),
    ),
    "a search that was to be run before something followed": (
        [user("a"), WAITING, user("b")],
        [entry("user", text("a"), text("b"))],
        Loss("input", "web_search_call dropped"),
    ),
    "another vendor's searches": (
        [user("a"), {"type": "web_search_call"}, assistant("b"), user("c")],
        [entry("user", text("a")), entry("assistant", text("b")), entry("user", text("c"))],
        Loss("input", "web_search_call dropped"),
    ),
    "images of an output that failed, which the API takes no failure with": (
        [user("a"), call("c1"), failed("c1", [{"type": "input_image", "image_url": PNG}])],
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1", PNG_BLOCK))],
        Loss("input[2].status", "dropped"),
    ),
    "an assistant message first": (
        [assistant("Hi"), user("a")],
        [
            entry("user", text("(The conversation begins with the assistant's words.)")),
            entry("assistant", text("Hi")),
            entry("user", text("a")),
        ],
        Loss("input", "begun with a user message"),
    ),
    "how closely to look": (
        [user({"type": "input_image", "image_url": PNG, "detail": "high"})],
        [entry("user", PNG_BLOCK)],
        Loss("input[0].content[0].detail", "dropped"),
    ),
    "a system message in the middle": (
        [user("a"), message("developer", "b")],
        [entry("user", text("a"), text("<system>\nb\n</system>"))],
        Loss("input", "system message as user"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("items", "messages", "loss"), LOSSY.values(), ids=LOSSY)
def test_approximated_items_are_losses(items: list[Item], messages: list[Json], loss: Loss) -> None:
    (_, spoken), losses = lower(*items)
    assert spoken == messages
    assert losses == [loss]


UNSENT_ENDS: dict[str, tuple[Item, Profile]] = {
    "no text": (user(""), Profile()),
    "white space": (user(" ", "\n"), Profile()),
    "no parts": (user(), Profile()),
    "an empty system message": (message("system", ""), Profile()),
    "a system message that moves to the beginning": (message("system", "b"), Profile(system_messages="merge_all")),
}


@pytest.mark.parametrize(("last", "profile"), UNSENT_ENDS.values(), ids=UNSENT_ENDS)
def test_a_last_message_that_is_not_sent_is_refused_and_no_answer_continued(last: Item, profile: Profile) -> None:
    with pytest.raises(InvalidRequest, match="would continue the assistant's message") as refusal:
        lower(user("a"), assistant("b"), last, profile=profile)
    assert refusal.value.param == "input[2].content"


def test_an_answer_that_the_client_sends_last_is_continued() -> None:
    (_, spoken), losses = lower(user("a"), assistant("b "))
    assert spoken == [entry("user", text("a")), entry("assistant", text("b"))]
    assert losses == []


NO_BLOCKS: list[Any] = [
    "no object",
    {"type": 1},
    {"type": "thinking", "thinking": "a", "signature": "b"},
    {"type": "anthropic.text", "text": "a"},
    {"type": "anthropic.thinking", "thinking": "a"},
    {"type": "anthropic.redacted_thinking", "data": 1},
    {"type": "anthropic.server_tool_use", "id": "a", "name": "b", "input": "c"},
]


@pytest.mark.parametrize("detail", NO_BLOCKS, ids=str)
def test_incomplete_details_are_not_sent(detail: Any) -> None:
    (_, spoken), losses = lower(user("a"), thought(detail), assistant("b"), user("c"))
    assert spoken[1] == entry("assistant", text("b"))
    assert losses == [Loss("input", "reasoning dropped")]


def test_signatures_of_another_vendor_are_no_loss() -> None:
    mark = thought({"type": "gemini.text", "thought": False, "signature": "s"})
    (_, spoken), losses = lower(user("a"), assistant("b"), mark, user("c"))
    assert spoken[1] == entry("assistant", text("b"))
    assert losses == []


def test_foreign_thoughts_are_sent_in_think_tags_if_the_profile_says_so() -> None:
    profile = Profile(replay_reasoning="think_tags")
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "c"}]}
    (_, spoken), losses = lower(user("a"), thought(words="b"), summary, thought(), assistant("d"), profile=profile)
    thoughts = [text("<think>\nb\n</think>"), text("<think>\nc\n</think>")]
    assert spoken[1] == entry("assistant", *thoughts, text("d"))
    assert losses == [Loss("input", "reasoning dropped")]
