"""Items as chat messages."""

from copy import deepcopy
from typing import Any

import pytest
from openai.types.chat import ChatCompletionContentPartParam, ChatCompletionMessageParam
from pydantic import TypeAdapter

from tests.unit.support.items import IMAGE, PNG, assistant, call, file, message, output, user
from translation.chat.reasoning import build_call_detail
from translation.chat.upstream.lower_items import lower_items
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PLACEHOLDER = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def text(words: str) -> Json:
    return {"type": "input_text", "text": words}


def reasoning(words: str = "", **more: Any) -> Item:
    content = [{"type": "reasoning_text", "text": words}] if words else []
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, **more}


def chat_call(call_id: str, arguments: str = "{}") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def chat_output(call_id: str, content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def chat_calls(*calls: Json, **more: Any) -> Json:
    return {"role": "assistant", **more, "tool_calls": list(calls)}


CHAT_IMAGE = {"type": "image_url", "image_url": {"url": PNG}}

CASES: dict[str, tuple[list[Item], list[Json]]] = {
    "voices take turns": (
        [user("a"), assistant("b"), user("c")],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    ),
    "several parts stay apart": (
        [user("a", IMAGE, "b")],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, CHAT_IMAGE, {"type": "text", "text": "b"}]}],
    ),
    "a message of nothing": (
        [user(), assistant()],
        [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    ),
    "parts of an assistant's message are one text": (
        [user("a"), assistant("b", "c")],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}],
    ),
    "two messages of the assistant stay two": (
        [assistant("a"), assistant("b")],
        [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
    ),
    "an image's detail": (
        [user({**IMAGE, "detail": "low"})],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]}],
    ),
    "audio": (
        [user({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}})],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}],
    ),
    "a text file is text": (
        [user(file("é!", filename="a.txt"))],
        [{"role": "user", "content": "a.txt:\né!"}],
    ),
    "a JSON file is text": ([user(file("{}", "application/json"))], [{"role": "user", "content": "{}"}]),
    "a text file that is not in base64": (
        [user({"type": "input_file", "file_data": "data:text/csv,a%2Cb"})],
        [{"role": "user", "content": "a,b"}],
    ),
    "any other file is a file": (
        [user(file("x", "application/pdf", filename="a.pdf"), {"type": "input_file", "file_data": "AAAA"})],
        [
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"}},
                    {"type": "file", "file": {"file_data": "AAAA"}},
                ],
            }
        ],
    ),
    "calls in a row are one message, and their outputs follow": (
        [user("a"), call("x"), call("y", ""), output("x"), output("y"), assistant("b")],
        [
            {"role": "user", "content": "a"},
            chat_calls(chat_call("x"), chat_call("y")),
            chat_output("x"),
            chat_output("y"),
            {"role": "assistant", "content": "b"},
        ],
    ),
    "text before a call is in the same message": (
        [assistant("a"), call("x"), output("x")],
        [chat_calls(chat_call("x"), content="a"), chat_output("x")],
    ),
    "text between a call and its output is in the same message": (
        [call("x"), assistant("a"), assistant("b"), call("y"), output("x"), output("y")],
        [chat_calls(chat_call("x"), chat_call("y"), content="a\n\nb"), chat_output("x"), chat_output("y")],
    ),
    "one call after the other is two messages": (
        [call("x"), output("x"), call("y"), output("y")],
        [chat_calls(chat_call("x")), chat_output("x"), chat_calls(chat_call("y")), chat_output("y")],
    ),
    "a call id that is used again belongs to the next output": (
        [call("x"), output("x", "1"), call("x"), output("x", "2")],
        [chat_calls(chat_call("x")), chat_output("x", "1"), chat_calls(chat_call("x")), chat_output("x", "2")],
    ),
    "opaque data of a call go back with it": (
        [reasoning(details=[build_call_detail("y", PLACEHOLDER)]), call("x"), call("y"), output("x"), output("y")],
        [
            chat_calls(chat_call("x"), {**chat_call("y"), "extra_content": PLACEHOLDER}),
            chat_output("x"),
            chat_output("y"),
        ],
    ),
    "custom calls": (
        [
            {"type": "custom_tool_call", "call_id": "x", "name": "p", "input": "in"},
            {"type": "custom_tool_call_output", "call_id": "x", "output": "out"},
        ],
        [
            chat_calls({"id": "x", "type": "custom", "custom": {"name": "p", "input": "in"}}),
            chat_output("x", "out"),
        ],
    ),
    "an output in several texts": (
        [call("x"), output("x", [text("a"), text("b")])],
        [chat_calls(chat_call("x")), chat_output("x", "a\nb")],
    ),
    "reasoning goes back with the text it led to": (
        [reasoning("hm"), assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning_content": "hm"}],
    ),
    "reasoning goes back with the call it led to": (
        [reasoning("hm"), call("x"), output("x")],
        [chat_calls(chat_call("x"), reasoning_content="hm"), chat_output("x")],
    ),
    "reasoning on both sides of the text is one": (
        [reasoning("a"), assistant("b"), reasoning("c"), call("x"), output("x")],
        [chat_calls(chat_call("x"), content="b", reasoning_content="a\n\nc"), chat_output("x")],
    ),
    "reasoning after the last text goes with it": (
        [assistant("a"), reasoning("b"), user("c")],
        [{"role": "assistant", "content": "a", "reasoning_content": "b"}, {"role": "user", "content": "c"}],
    ),
    "a summary where there is nothing else": (
        [reasoning(summary=[{"type": "summary_text", "text": "s"}]), assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning_content": "s"}],
    ),
    "leading instructions are merged, later ones stay": (
        [message("system", "a"), message("developer", "b", "c"), user("d"), message("developer", "e")],
        [
            {"role": "system", "content": "a\n\nb\nc"},
            {"role": "user", "content": "d"},
            {"role": "system", "content": "e"},
        ],
    ),
}


@pytest.mark.parametrize(("items", "expected"), CASES.values(), ids=CASES)
def test_items_become_messages(items: list[Item], expected: list[Json]) -> None:
    losses: list[Loss] = []
    given = deepcopy(items)
    messages = lower_items(Turn("m", items), DEFAULT_PROFILE, losses)
    assert messages == expected
    assert losses == []
    assert items == given
    accept(messages)


def accept(messages: list[Json]) -> None:
    """The official client's types accept them."""
    for each in messages:
        TypeAdapter(ChatCompletionMessageParam).validate_python(each)
        if isinstance(each.get("content"), list):
            TypeAdapter(list[ChatCompletionContentPartParam]).validate_python(each["content"], strict=True)


SIGNED = {"type": "reasoning.text", "text": "hm", "signature": "s"}
MEDIA = [
    {"type": "text", "text": "Media from the output of tool call x:"},
    CHAT_IMAGE,
]
ELSEWHERE = "(The media of this output are in the next user message.)"

PROFILES: dict[str, tuple[Profile, list[Item], list[Json], list[str]]] = {
    "an output that comes late still follows its call": (
        DEFAULT_PROFILE,
        [call("x"), user("wait"), output("x")],
        [chat_calls(chat_call("x")), chat_output("x"), {"role": "user", "content": "wait"}],
        ["input=message not between call and output"],
    ),
    "reasoning in the field `reasoning`": (
        Profile(replay_reasoning="reasoning"),
        [reasoning("hm"), assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning": "hm"}],
        [],
    ),
    "reasoning blocks as they came": (
        Profile(replay_reasoning="reasoning_details"),
        [reasoning("hm", details=[SIGNED]), assistant("a"), reasoning(details=[SIGNED]), call("x"), output("x")],
        [chat_calls(chat_call("x"), content="a", reasoning_details=[SIGNED, SIGNED]), chat_output("x")],
        [],
    ),
    "blocks of another API, which only it can read": (
        Profile(replay_reasoning="reasoning_details"),
        [reasoning("hm", details=[{"type": "gemini.call", "call_id": "x", "signature": "s"}]), assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning": "hm"}],
        [],
    ),
    "reasoning as text where there are no blocks": (
        Profile(replay_reasoning="reasoning_details"),
        [reasoning("hm"), assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning": "hm"}],
        [],
    ),
    "reasoning in think tags": (
        Profile(replay_reasoning="think_tags"),
        [reasoning("hm"), assistant("a")],
        [{"role": "assistant", "content": "<think>\nhm\n</think>\n\na"}],
        [],
    ),
    "reasoning in think tags before a call": (
        Profile(replay_reasoning="think_tags"),
        [reasoning("hm"), call("x"), output("x")],
        [chat_calls(chat_call("x"), content="<think>\nhm\n</think>\n\n"), chat_output("x")],
        [],
    ),
    "reasoning that is not to be sent back": (
        Profile(replay_reasoning="none"),
        [reasoning("hm"), assistant("a"), reasoning("hm"), assistant("b")],
        [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
        ["input=reasoning dropped", "input=reasoning dropped"],
    ),
    "unreadable reasoning": (
        DEFAULT_PROFILE,
        [{"type": "reasoning", "summary": [], "encrypted_content": "x"}, assistant("a")],
        [{"role": "assistant", "content": "a"}],
        ["input=reasoning dropped"],
    ),
    "reasoning of which only a part can be read": (
        DEFAULT_PROFILE,
        [reasoning("hm"), {"type": "reasoning", "summary": []}, assistant("a")],
        [{"role": "assistant", "content": "a", "reasoning_content": "hm"}],
        ["input=reasoning dropped"],
    ),
    "what another vendor signed its words with": (
        DEFAULT_PROFILE,
        [
            assistant("a"),
            {"type": "reasoning", "summary": [], "details": [{"type": "other.mark", "thought": False}]},
            user("b"),
        ],
        [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
        [],
    ),
    "reasoning that led to nothing": (
        DEFAULT_PROFILE,
        [reasoning("hm"), user("a")],
        [{"role": "user", "content": "a"}],
        ["input=reasoning dropped"],
    ),
    "a refusal is text": (
        DEFAULT_PROFILE,
        [assistant({"type": "refusal", "refusal": "no"})],
        [{"role": "assistant", "content": "no"}],
        ["input=refusal as text"],
    ),
    "an image at its original size": (
        DEFAULT_PROFILE,
        [user({**IMAGE, "detail": "original"})],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}]}],
        ["input[0].content[0].detail=original as high"],
    ),
    "images in outputs move to a user message after all outputs": (
        DEFAULT_PROFILE,
        [call("x"), call("y"), output("x", [text("see"), IMAGE]), output("y")],
        [
            chat_calls(chat_call("x"), chat_call("y")),
            chat_output("x", f"see\n{ELSEWHERE}"),
            chat_output("y"),
            {"role": "user", "content": MEDIA},
        ],
        ["input=tool media moved to a user message"],
    ),
    "images in outputs stay where the upstream reads them": (
        Profile(media_in_tool_messages=True),
        [call("x"), output("x", [text("see"), IMAGE])],
        [chat_calls(chat_call("x")), chat_output("x", [{"type": "text", "text": "see"}, CHAT_IMAGE])],
        [],
    ),
    "calls have reasoning beside them, though there is none": (
        Profile(empty_reasoning=True),
        [call("x"), call("y"), output("x"), output("y"), reasoning("hm"), call("z"), output("z"), assistant("a")],
        [
            {**chat_calls(chat_call("x"), chat_call("y")), "reasoning_content": ""},
            chat_output("x"),
            chat_output("y"),
            {**chat_calls(chat_call("z")), "reasoning_content": "hm"},
            chat_output("z"),
            {"role": "assistant", "content": "a"},
        ],
        [],
    ),
    "the first of parallel calls has a placeholder for its signature": (
        Profile(call_signatures="placeholder"),
        [call("x"), call("y"), output("x"), output("y")],
        [
            chat_calls({**chat_call("x"), "extra_content": PLACEHOLDER}, chat_call("y")),
            chat_output("x"),
            chat_output("y"),
        ],
        [],
    ),
    "developers keep their role": (
        Profile(developer_role="developer", system_messages="keep"),
        [message("developer", "a"), message("system", "b"), user("c")],
        [
            {"role": "developer", "content": "i"},
            {"role": "developer", "content": "a"},
            {"role": "system", "content": "b"},
            {"role": "user", "content": "c"},
        ],
        [],
    ),
    "developers speak as users": (
        Profile(developer_role="user"),
        [message("developer", "a"), message("developer", IMAGE)],
        [
            {"role": "system", "content": "i"},
            {"role": "user", "content": "a"},
            {"role": "user", "content": [CHAT_IMAGE]},
        ],
        [],
    ),
    "all instructions are merged into the first": (
        Profile(system_messages="merge_all"),
        [message("system", "a"), user("b"), message("system", "c")],
        [{"role": "system", "content": "i\n\na\n\nc"}, {"role": "user", "content": "b"}],
        ["input=system messages merged"],
    ),
}


@pytest.mark.parametrize(("profile", "items", "expected", "losses"), PROFILES.values(), ids=PROFILES)
def test_items_follow_the_model_family(
    profile: Profile, items: list[Item], expected: list[Json], losses: list[str]
) -> None:
    found: list[Loss] = []
    instructions = "i" if any(each["role"] in ("system", "developer") for each in expected) else None
    messages = lower_items(Turn("m", items, instructions), profile, found)
    assert messages == expected
    assert list(map(str, found)) == losses


def test_the_detail_of_a_file_is_a_loss_in_chat() -> None:
    losses: list[Loss] = []
    lower_items(Turn("m", [user(file("a", "application/pdf", detail="high"))]), DEFAULT_PROFILE, losses)
    assert losses == [Loss("input[0].content[0].detail", "dropped")]


def test_the_data_of_a_call_is_sent_back_with_it() -> None:
    data = {"google": {"thought_signature": "SIG=="}}
    carrier = {"type": "reasoning", "details": [{"type": "chat.call", "call_id": "x", "extra_content": data}]}
    messages = lower_items(Turn(model="m", items=[carrier, call("x"), output("x")]), DEFAULT_PROFILE, [])
    assert messages[0]["tool_calls"] == [{**chat_call("x"), "extra_content": data}]


@pytest.mark.parametrize("words", ["Hi", "", "two\nlines"])
@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_one_message_is_written_like_the_first_of_several(words: str, role: str) -> None:
    items = [message(role, text(words))]
    losses: list[Loss] = []
    several = lower_items(Turn("m", [*items, assistant("b")]), DEFAULT_PROFILE, losses)
    assert lower_items(Turn("m", items), DEFAULT_PROFILE, losses) == several[:1]
    assert losses == []


def test_instructions_precede_one_message() -> None:
    messages = lower_items(Turn("m", [user("a")], "Be brief."), DEFAULT_PROFILE, [])
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}]
