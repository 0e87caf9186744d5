"""Items as messages of the Messages API."""

from base64 import b64encode
from typing import Any

import pytest

from translation.anthropic.lower_items import lower_items, open_turn_has_thinking
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PNG = "data:image/png;base64,AAAA"
PNG_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
SIGNED = {"type": "anthropic.thinking", "thinking": "Hm.", "signature": "s1"}
EMPTY = {"type": "anthropic.thinking", "thinking": "", "signature": "s2"}
FOREIGN = {"type": "reasoning.text", "text": "b", "signature": "c"}
REDACTED = {"type": "anthropic.redacted_thinking", "data": "d1"}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def message(role: str, *parts: Json | str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "role": role, "content": content}


def user(*parts: Json | str) -> Item:
    return message("user", *parts)


def assistant(*parts: Json | str) -> Item:
    return message("assistant", *parts)


def thought(*details: Any, words: str = "") -> Item:
    content = [{"type": "reasoning_text", "text": words}] if words else []
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, "details": list(details)}


def call(call_id: str, arguments: str = "{}") -> Item:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "f", "arguments": arguments}


def output(call_id: str, said: str | list[Json] = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": said}


def failed(call_id: str, said: str | list[Json]) -> Item:
    return {**output(call_id, said), "status": "incomplete"}


def use(call_id: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": given}


def result(call_id: str, *blocks: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": list(blocks) or [text("ok")]}


def entry(role: str, *blocks: Json) -> Json:
    return {"role": role, "content": list(blocks)}


def lower(*items: Item, profile: Profile = DEFAULT_PROFILE, instructions: str | None = None) -> tuple[Any, list[Loss]]:
    losses: list[Loss] = []
    return lower_items(Turn("m", items, instructions), profile, losses), losses


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
UNREAD = {"type": "thinking", "thinking": "", "signature": "s2"}
HIDDEN = {"type": "redacted_thinking", "data": "d1"}

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
    "calls of one id are told apart, and ids have no odd characters": (
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
    "an output that says that it failed": (
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
    "an output that says that it is complete": (
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
def test_items_are_said(items: list[Item], messages: list[Json]) -> None:
    (system, spoken), losses = lower(*items)
    assert spoken == messages
    assert (system, losses) == ([], [])


LOSSY: dict[str, tuple[list[Item], list[Json], Loss]] = {
    "results before what was said in between": (
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
    "an assistant who speaks first": (
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
def test_what_cannot_be_said_as_it_is_is_a_loss(items: list[Item], messages: list[Json], loss: Loss) -> None:
    (_, spoken), losses = lower(*items)
    assert spoken == messages
    assert losses == [loss]


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
def test_details_that_are_no_whole_block_are_not_sent(detail: Any) -> None:
    (_, spoken), losses = lower(user("a"), thought(detail), assistant("b"), user("c"))
    assert spoken[1] == entry("assistant", text("b"))
    assert losses == [Loss("input", "reasoning dropped")]


def test_what_another_vendor_signed_its_words_with_is_no_loss() -> None:
    mark = thought({"type": "gemini.text", "thought": False, "signature": "s"})
    (_, spoken), losses = lower(user("a"), assistant("b"), mark, user("c"))
    assert spoken[1] == entry("assistant", text("b"))
    assert losses == []


def test_thoughts_of_others_are_said_in_think_tags_where_the_profile_says_so() -> None:
    profile = Profile(replay_reasoning="think_tags")
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "c"}]}
    (_, spoken), losses = lower(user("a"), thought(words="b"), summary, thought(), assistant("d"), profile=profile)
    thoughts = [text("<think>\nb\n</think>"), text("<think>\nc\n</think>")]
    assert spoken[1] == entry("assistant", *thoughts, text("d"))
    assert losses == [Loss("input", "reasoning dropped")]


def test_what_instructs_is_the_system_prompt() -> None:
    items = [message("system", "b", "c"), message("developer", "d"), message("system", " "), user("e")]
    (system, spoken), losses = lower(*items, instructions="a")
    assert system == ["a", "b\nc", "d"]
    assert spoken == [entry("user", text("e"))]
    assert losses == []


def test_blank_instructions_are_none() -> None:
    assert lower(user("a"), instructions=" ")[0].system == []


def test_later_system_messages_join_the_prompt_where_the_profile_says_so() -> None:
    (system, spoken), losses = lower(user("a"), message("system", "b"), profile=Profile(system_messages="merge_all"))
    assert (system, spoken) == (["b"], [entry("user", text("a"))])
    assert losses == [Loss("input", "system messages merged")]


def test_a_developer_is_a_user_where_the_profile_says_so() -> None:
    (system, spoken), _ = lower(message("developer", "a"), profile=Profile(developer_role="user"))
    assert (system, spoken) == ([], [entry("user", text("a"))])


def file(content: str, media_type: str, **more: Any) -> Json:
    return {
        "type": "input_file",
        "file_data": f"data:{media_type};base64,{b64encode(content.encode()).decode()}",
        **more,
    }


FILES: dict[str, tuple[Json, Json]] = {
    "text": (
        file("a", "text/csv", filename="a.csv"),
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "a.csv"},
    ),
    "PDF": (
        file("a", "application/pdf"),
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "YQ=="}},
    ),
    "an address": (
        {"type": "input_file", "file_url": "https://a/b.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}, "title": "b.pdf"},
    ),
    "an address with a name beside it": (
        {"type": "input_file", "file_url": "https://a/b.pdf", "filename": "c.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}, "title": "c.pdf"},
    ),
    "an address that names no file": (
        {"type": "input_file", "file_url": "https://a/"},
        {"type": "document", "source": {"type": "url", "url": "https://a/"}},
    ),
    "a JPEG by its other name": (
        {"type": "input_image", "image_url": "data:image/jpg;base64,AAAA"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
    ),
}


@pytest.mark.parametrize(("part", "block"), FILES.values(), ids=FILES)
def test_files_are_documents(part: Json, block: Json) -> None:
    assert lower(user(part))[0].messages == [entry("user", block)]


REFUSED: dict[str, tuple[list[Item], type[InvalidRequest], str]] = {
    "a call without its output": ([user("a"), call("c1")], InvalidRequest, "input[1].call_id"),
    "an output without its call": ([user("a"), output("c1")], InvalidRequest, "input[1].call_id"),
    "an output before its call": ([output("c1"), call("c1"), output("c1")], InvalidRequest, "input[0].call_id"),
    "an unknown item": ([user("a"), {"type": "computer_call"}], Unrepresentable, "input[1]"),
    "a stored image": ([user({"type": "input_image", "file_id": "f"})], Unrepresentable, "input[0].content[0]"),
    "a stored file": ([user({"type": "input_file", "file_id": "f"})], Unrepresentable, "input[0].content[0]"),
    "an image nobody reads": (
        [user({"type": "input_image", "image_url": "data:image/tiff;base64,AAAA"})],
        Unrepresentable,
        "input[0].content[0].image_url",
    ),
    "a file nobody reads": (
        [user(file("a", "application/msword"))],
        Unrepresentable,
        "input[0].content[0].file_data",
    ),
    "a file without a media type": (
        [user({"type": "input_file", "file_data": "AAAA"})],
        InvalidRequest,
        "input[0].content[0].file_data",
    ),
    "sound": ([user({"type": "input_audio", "input_audio": {}})], Unrepresentable, "input[0].content[0]"),
    "a system that shows images": (
        [message("system", {"type": "input_image", "image_url": PNG})],
        Unrepresentable,
        "input[0].content[0]",
    ),
}


@pytest.mark.parametrize(("items", "refusal", "param"), REFUSED.values(), ids=REFUSED)
def test_what_nobody_takes_is_refused_by_name(items: list[Item], refusal: type[InvalidRequest], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lower(*items)
    assert type(refused.value) is refusal
    assert refused.value.param == param


TURNS: dict[str, tuple[list[Json], bool]] = {
    "nothing is under way": ([entry("user", text("a"))], True),
    "a turn with thoughts": (
        [entry("user", text("a")), entry("assistant", THINKING, use("c1")), entry("user", result("c1"))],
        True,
    ),
    "a turn whose first step had thoughts": (
        [
            entry("user", text("a")),
            entry("assistant", HIDDEN, use("c1")),
            entry("user", result("c1")),
            entry("assistant", use("c2")),
            entry("user", result("c2")),
        ],
        True,
    ),
    "a turn without": (
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"))],
        False,
    ),
    "nobody has asked": ([entry("assistant", use("c1")), entry("user", result("c1"))], False),
    "a user who speaks beside a result": (
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"), text("b"))],
        True,
    ),
}


@pytest.mark.parametrize(("messages", "expected"), TURNS.values(), ids=TURNS)
def test_a_turn_thinks_from_its_start_or_not_at_all(messages: list[Json], expected: bool) -> None:
    assert open_turn_has_thinking(messages) is expected
