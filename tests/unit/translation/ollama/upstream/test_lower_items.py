"""Items as messages of Ollama's chat."""

from typing import Any

import pytest

from tests.unit.support.items import message
from translation.errors import InvalidRequest, Unrepresentable
from translation.ollama.upstream.lower_items import lower_items
from translation.ollama.upstream.lower_parts import lower_parts
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PIXEL = "data:image/png;base64,iVBORw0KGgo="
BASE64 = "iVBORw0KGgo="
NOTE = "(The media of this output are in the next user message.)"


def text(content: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": content}


def thought(*texts: str, summary: str | None = None, **more: Any) -> Item:
    summaries = [] if summary is None else [{"type": "summary_text", "text": summary}]
    content = [{"type": "reasoning_text", "text": each} for each in texts]
    return {"type": "reasoning", "id": "rs_1", "summary": summaries, "content": content, **more}


def call(call_id: str = "c1", arguments: str = '{"a":1}', name: str = "f") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(content: Any = "one", call_id: str = "c1") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def called(call_id: str = "c1", name: str = "f", /, **arguments: Any) -> Json:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}}


def tool(content: str = "one", call_id: str = "c1", name: str = "f", **more: Any) -> Json:
    return {"role": "tool", "content": content, "tool_name": name, "tool_call_id": call_id, **more}


def image(url: str | None = PIXEL, **more: Any) -> Json:
    return {"type": "input_image", "image_url": url, **more}


def file(**more: Any) -> Json:
    return {"type": "input_file", **more}


def system(content: str) -> Json:
    return {"role": "system", "content": content}


def user(content: str, *images: str) -> Json:
    return {"role": "user", "content": content, **({"images": list(images)} if images else {})}


def assistant_message(content: str, **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more}


TEXT_FILE = file(filename="a.txt", file_data="data:text/plain;base64,aGk=")

CASES: dict[str, tuple[list[Item], Profile, list[Json], list[str]]] = {
    "texts of a message": ([message("user", "a", "b")], DEFAULT_PROFILE, [user("a\nb")], []),
    "an empty message": ([message("user")], DEFAULT_PROFILE, [user("")], []),
    "an image is in base64": ([message("user", "a", image())], DEFAULT_PROFILE, [user("a", BASE64)], []),
    "an image in any detail": (
        [message("user", image(detail="auto"), image(detail="high"))],
        DEFAULT_PROFILE,
        [user("", BASE64, BASE64)],
        ["input[0].content[1].detail=dropped"],
    ),
    "a text file is text": ([message("user", TEXT_FILE)], DEFAULT_PROFILE, [user("a.txt:\nhi")], []),
    "a text file without a name": (
        [message("user", file(file_data="data:text/csv,1%2C2"))],
        DEFAULT_PROFILE,
        [user("1,2")],
        [],
    ),
    "leading system messages are one": (
        [message("system", "a", "b"), message("developer", "c"), message("user", "d")],
        DEFAULT_PROFILE,
        [system("a\nb\n\nc"), user("d")],
        [],
    ),
    "later ones stay": (
        [message("user", "a"), message("developer", "b")],
        DEFAULT_PROFILE,
        [user("a"), system("b")],
        [],
    ),
    "all preserved": (
        [message("system", "a"), message("system", "b")],
        Profile(system_messages="keep"),
        [system("a"), system("b")],
        [],
    ),
    "all merged": (
        [message("system", "a"), message("user", "b"), message("system", "c")],
        Profile(system_messages="merge_all"),
        [system("a\n\nc"), user("b")],
        ["input=system messages merged"],
    ),
    "a late one goes first": (
        [message("user", "b"), message("system", "c")],
        Profile(system_messages="merge_all"),
        [system("c"), user("b")],
        ["input=system messages merged"],
    ),
    "a developer as a user": (
        [message("developer", "a"), message("user", "b")],
        Profile(developer_role="user"),
        [user("a"), user("b")],
        [],
    ),
    "a developer has no role of its own": (
        [message("developer", "a")],
        Profile(developer_role="developer"),
        [system("a")],
        [],
    ),
    "an assistant": (
        [message("user", "a"), message("assistant", "b", "c")],
        DEFAULT_PROFILE,
        [user("a"), assistant_message("bc")],
        [],
    ),
    "a refusal": (
        [message("assistant", {"type": "refusal", "refusal": "no"})],
        DEFAULT_PROFILE,
        [assistant_message("no")],
        ["input=refusal as text"],
    ),
    "a call and its output": (
        [call(), output()],
        DEFAULT_PROFILE,
        [assistant_message("", tool_calls=[called(a=1)]), tool()],
        [],
    ),
    "arguments that are none": (
        [call(arguments=""), output()],
        DEFAULT_PROFILE,
        [assistant_message("", tool_calls=[called()]), tool()],
        [],
    ),
    "arguments that are no object": (
        [call(arguments='{"a"'), output()],
        DEFAULT_PROFILE,
        [assistant_message("", tool_calls=[called(raw_arguments='{"a"')]), tool()],
        ["input[0].arguments=wrapped"],
    ),
    "calls of one message, their outputs in any order": (
        [call("c1"), call("c2", name="g"), output("two", "c2"), output("one", "c1"), message("user", "b")],
        DEFAULT_PROFILE,
        [
            assistant_message("", tool_calls=[called("c1", a=1), called("c2", "g", a=1)]),
            tool("two", "c2", "g"),
            tool("one", "c1"),
            user("b"),
        ],
        [],
    ),
    "text before a call": (
        [message("assistant", "a"), call(), output()],
        DEFAULT_PROFILE,
        [assistant_message("a", tool_calls=[called(a=1)]), tool()],
        [],
    ),
    "a user message between a call and its output": (
        [call(), message("user", "b"), output()],
        DEFAULT_PROFILE,
        [assistant_message("", tool_calls=[called(a=1)]), tool(), user("b")],
        ["input=message not between call and output"],
    ),
    "text between a call and its output": (
        [call(), message("assistant", "a"), message("assistant", "b"), output()],
        DEFAULT_PROFILE,
        [assistant_message("a\n\nb", tool_calls=[called(a=1)]), tool()],
        [],
    ),
    "an output of several texts": (
        [call(), output([text("a"), text("b")])],
        DEFAULT_PROFILE,
        [assistant_message("", tool_calls=[called(a=1)]), tool("a\nb")],
        [],
    ),
    "an image in an output moves to a user": (
        [call("c1"), call("c2"), output([text("a"), image()]), output([image()], "c2"), message("user", "b")],
        DEFAULT_PROFILE,
        [
            assistant_message("", tool_calls=[called("c1", a=1), called("c2", a=1)]),
            tool(f"a\n{NOTE}"),
            tool(NOTE, "c2"),
            user("Media from the output of tool call c1:\nMedia from the output of tool call c2:", BASE64, BASE64),
            user("b"),
        ],
        ["input=tool media moved to a user message", "input=tool media moved to a user message"],
    ),
    "an image in an output stays where it is read": (
        [call(), output([text("a"), image()])],
        Profile(media_in_tool_messages=True),
        [assistant_message("", tool_calls=[called(a=1)]), tool("a", images=[BASE64])],
        [],
    ),
    "thinking goes back with what it led to": (
        [thought("h", "m"), message("assistant", "a"), message("user", "b")],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm"), user("b")],
        [],
    ),
    "thinking before a call": (
        [thought("hm"), call(), output(), thought("so"), message("assistant", "a")],
        DEFAULT_PROFILE,
        [assistant_message("", thinking="hm", tool_calls=[called(a=1)]), tool(), assistant_message("a", thinking="so")],
        [],
    ),
    "thinking between a message and its call": (
        [thought("hm"), message("assistant", "a"), thought("so"), call(), output()],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm\n\nso", tool_calls=[called(a=1)]), tool()],
        [],
    ),
    "thinking after the message": (
        [message("assistant", "a"), thought("hm"), message("user", "b")],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm"), user("b")],
        [],
    ),
    "a summary where there is no more": (
        [thought(summary="in short"), message("assistant", "a")],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="in short")],
        [],
    ),
    "thinking in tags": (
        [thought("hm"), message("assistant", "a")],
        Profile(replay_reasoning="think_tags"),
        [assistant_message("<think>\nhm\n</think>\n\na")],
        [],
    ),
    "thinking that is not wanted back": (
        [thought("hm"), message("assistant", "a")],
        Profile(replay_reasoning="none"),
        [assistant_message("a")],
        ["input=reasoning dropped"],
    ),
    "thinking of another vendor, sealed": (
        [
            thought(encrypted_content="x", details=[{"type": "anthropic.redacted_thinking", "data": "x"}]),
            message("assistant", "a"),
        ],
        DEFAULT_PROFILE,
        [assistant_message("a")],
        ["input=reasoning dropped"],
    ),
    "thinking of which only a part can be read": (
        [thought("hm"), thought(), message("assistant", "a")],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm")],
        ["input=reasoning dropped"],
    ),
    "what another vendor signed its words with": (
        [thought("hm"), message("assistant", "a"), thought(details=[{"type": "gemini.text", "thought": False}])],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm")],
        [],
    ),
    "thinking of another vendor, readable": (
        [
            thought("hm", details=[{"type": "anthropic.thinking", "thinking": "hm", "signature": "s"}]),
            message("assistant", "a"),
        ],
        DEFAULT_PROFILE,
        [assistant_message("a", thinking="hm")],
        [],
    ),
    "thinking that led to nothing": (
        [message("user", "a"), thought("hm"), message("user", "b")],
        DEFAULT_PROFILE,
        [user("a"), user("b")],
        ["input=reasoning dropped"],
    ),
}


@pytest.mark.parametrize(("items", "profile", "messages", "lost"), CASES.values(), ids=CASES)
def test_items_become_messages_of_ollama(
    items: list[Item], profile: Profile, messages: list[Json], lost: list[str]
) -> None:
    losses: list[Loss] = []
    assert lower_items(Turn("m", items), profile, losses) == messages
    assert [str(loss) for loss in losses] == lost


def test_instructions_join_the_system_message() -> None:
    assert lower_items(Turn("m", [message("system", "a")], "be brief"), DEFAULT_PROFILE, []) == [
        system("be brief\n\na")
    ]


REFUSED: dict[str, tuple[list[Item], type[InvalidRequest], str]] = {
    "a call without its output": ([call(), message("user", "a")], InvalidRequest, "input[0].call_id"),
    "an output without its call": ([output()], InvalidRequest, "input[0].call_id"),
    "an output before its call": ([output(), call()], InvalidRequest, "input[0].call_id"),
    "an item of another kind": ([{"type": "computer_call", "id": "cu_1"}], Unrepresentable, "input[0]"),
    "a reference to an item": ([{"type": "item_reference", "id": "msg_1"}], InvalidRequest, "input[0]"),
    "an item of no kind": ([{}], Unrepresentable, "input[0]"),
    "sound": ([message("user", {"type": "input_audio"})], Unrepresentable, "input[0].content[0]"),
    "an image of a system": ([message("system", image())], Unrepresentable, "input[0].content[0]"),
    "an image by its address": (
        [message("user", "a", image("https://example.com/a.png"))],
        Unrepresentable,
        "input[0].content[1].image_url",
    ),
    "an image by its id": (
        [message("user", image(None, file_id="x"))],
        Unrepresentable,
        "input[0].content[0].file_id",
    ),
    "an image that is none": (
        [message("user", image("data:application/pdf;base64,AA=="))],
        Unrepresentable,
        "input[0].content[0].image_url",
    ),
    "a file by its id": ([message("user", file(file_id="x"))], Unrepresentable, "input[0].content[0].file_id"),
    "a file by its address": ([message("user", file(file_url="x"))], Unrepresentable, "input[0].content[0].file_url"),
    "a file that is no text": (
        [message("user", file(file_data="data:application/pdf;base64,AA=="))],
        Unrepresentable,
        "input[0].content[0].file_data",
    ),
    "a file of nothing": ([message("user", file())], Unrepresentable, "input[0].content[0].file_data"),
    "sound from a tool": ([call(), output([{"type": "input_audio"}])], Unrepresentable, "input[1].output[0]"),
}


@pytest.mark.parametrize(("items", "kind", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_items_are_refused_with_their_place(
    items: list[Item], kind: type[InvalidRequest], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        lower_items(Turn("m", items), DEFAULT_PROFILE, [])
    assert (type(refusal.value), refusal.value.param) == (kind, param)


@pytest.mark.parametrize(("detail", "lost"), [("high", [Loss("p[0].detail", "dropped")]), ("auto", []), (None, [])])
def test_the_detail_of_a_file_is_a_loss(detail: str | None, lost: list[Loss]) -> None:
    file = {"type": "input_file", "file_data": "data:text/plain;base64,SGk=", "filename": "a.txt", "detail": detail}
    losses: list[Loss] = []
    assert lower_parts([file], "p", losses).text == "a.txt:\nHi"
    assert losses == lost
