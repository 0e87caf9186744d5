"""The messages of a run become items, each call with its output."""

from typing import Any

import pytest

from translation.agui.messages import NO_RESULT, pair_outputs, read_messages, repeats_question
from translation.agui.schema import REQUEST_SCHEMA, validate
from translation.errors import InvalidRequest
from translation.responses.schema.request import validate as validate_responses

Json = dict[str, Any]


def read(*messages: Json) -> list[Json]:
    """The items of these messages, which both schemas accept."""
    whole = [{"id": f"id_{position}", **message} for position, message in enumerate(messages)]
    validate({"threadId": "t", "runId": "r", "messages": whole})
    paired, _ = pair_outputs(read_messages(whole))
    items = [entry.item for entry in paired]
    validate_responses({"model": "m", "input": items})
    return items


def calling(*call_ids: str, content: str | None = None, arguments: str = "{}") -> Json:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "add", "arguments": arguments}} for call_id in call_ids
    ]
    return {"role": "assistant", "content": content, "toolCalls": calls}


def result(call_id: str, content: Any = "3", **more: Any) -> Json:
    return {"role": "tool", "toolCallId": call_id, "content": content, **more}


def user(part: Json) -> Json:
    return {"role": "user", "content": [part]}


def kinds(items: list[Json]) -> list[str]:
    return [f"{item['type']} {item.get('call_id', '')}".strip() for item in items]


def test_messages_keep_their_roles() -> None:
    roles = ["system", "developer", "user"]
    items = read(*({"role": role, "content": f"as {role}"} for role in roles))
    assert [(item["role"], item["content"]) for item in items] == [(role, f"as {role}") for role in roles]
    assert all("id" not in item for item in items)


def test_a_message_of_the_gateway_keeps_its_id() -> None:
    assert read({"id": "msg_1", "role": "assistant", "content": "Hi"})[0]["id"] == "msg_1"


def test_an_assistant_message_is_a_text_and_its_calls() -> None:
    items = read(calling("call_1", "call_2", content="Let me see."), result("call_1"), result("call_2"))
    assert kinds(items) == [
        *("message", "function_call call_1", "function_call call_2"),
        *("function_call_output call_1", "function_call_output call_2"),
    ]
    assert items[0]["content"][0]["text"] == "Let me see."
    assert items[1]["name"] == "add"


def test_each_call_is_followed_by_its_output() -> None:
    items = read(calling("a"), calling("b"), result("b"), result("a"), {"role": "user", "content": "go on"})
    assert kinds(items) == [
        *("function_call a", "function_call_output a", "function_call b", "function_call_output b", "message"),
    ]


def test_a_call_without_a_result_is_answered() -> None:
    items = read(calling("a", arguments='{"x"'), {"role": "user", "content": "go on"})
    assert kinds(items) == ["function_call a", "function_call_output a", "message"]
    assert items[1]["output"] == NO_RESULT
    assert items[0]["arguments"] == "{}"
    assert read(calling("a", arguments='{"x":1}'))[0]["arguments"] == '{"x":1}'


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    entries = read_messages(
        [{"id": "1", **message} for message in (calling("a"), result("a"), result("a", "4"), result("b"))]
    )
    paired, dropped = pair_outputs(entries)
    assert [entry.item["output"] for entry in paired if entry.output_id] == ["3"]
    assert [entry.position for entry in dropped] == [2, 3]


def test_open_calls_of_the_history_are_answered_first() -> None:
    entries = read_messages([{"id": "1", "role": "user", "content": "go on"}, {"id": "2", **result("a")}])
    paired, dropped = pair_outputs(entries, ["a", "b"], ["c"])
    assert [entry.item.get("output") for entry in paired] == ["3", NO_RESULT, None]
    assert not dropped
    assert pair_outputs(read_messages([{"id": "1", **result("c")}]), (), ["c"]) == ([], [])


@pytest.mark.parametrize(
    ("content", "error", "output"),
    [
        ("3", None, "3"),
        ("", "broken", "Error: broken"),
        ("half", "broken", "half\n\nError: broken"),
        ("it is broken", "broken", "it is broken"),
        ([{"type": "text", "text": "3"}], None, [{"type": "input_text", "text": "3"}]),
        (
            [{"type": "text", "text": "3"}],
            "broken",
            [{"type": "input_text", "text": "3"}, {"type": "input_text", "text": "Error: broken"}],
        ),
    ],
)
def test_an_error_of_a_tool_reaches_the_model(content: Any, error: str | None, output: Any) -> None:
    assert read(calling("a"), result("a", content, error=error))[1]["output"] == output


def test_reasoning_messages_of_one_item_are_one_item() -> None:
    items = read(
        {"id": "rs_1:0", "role": "reasoning", "content": "one", "encryptedValue": "sealed"},
        {"id": "rs_1:1", "role": "reasoning", "content": "two"},
        {"id": "rs_2:0", "role": "reasoning", "content": ""},
        {"id": "foreign", "role": "reasoning", "content": "three"},
    )
    assert [item.get("id") for item in items] == ["rs_1", "rs_2", None]
    assert [part["text"] for part in items[0]["content"]] == ["one", "two"]
    assert items[0]["encrypted_content"] == "sealed"
    assert "encrypted_content" not in items[1]


def test_activities_are_not_for_the_model() -> None:
    assert read({"role": "activity", "activityType": "x", "content": {}}) == []


DATA = {"type": "data", "value": "QUJD", "mimeType": "image/png"}
URL = {"type": "url", "value": "https://a/b"}
FILE = {"type": "file", "value": "file_1"}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": "x"}, {"type": "input_text", "text": "x"}),
        ({"type": "image", "source": DATA}, {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}),
        ({"type": "image", "source": URL}, {"type": "input_image", "image_url": "https://a/b"}),
        ({"type": "image", "source": FILE}, {"type": "input_image", "file_id": "file_1"}),
        (
            {"type": "document", "source": {**DATA, "mimeType": "application/pdf"}},
            {"type": "input_file", "filename": "document", "file_data": "data:application/pdf;base64,QUJD"},
        ),
        ({"type": "document", "source": URL}, {"type": "input_file", "file_url": "https://a/b"}),
        ({"type": "document", "source": FILE}, {"type": "input_file", "file_id": "file_1"}),
        (
            {"type": "audio", "source": {**DATA, "mimeType": "audio/mpeg"}},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        ),
        (
            {"type": "audio", "source": {**DATA, "mimeType": "audio/x-flac"}},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "flac"}},
        ),
        (
            {"type": "binary", "mimeType": "image/png", "data": "QUJD"},
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        ),
        (
            {"type": "binary", "mimeType": "image/png", "url": "https://a/b"},
            {"type": "input_image", "image_url": "https://a/b"},
        ),
        (
            {"type": "binary", "mimeType": "application/pdf", "data": "QUJD", "filename": "a.pdf"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        ),
        (
            {"type": "binary", "mimeType": "application/pdf", "id": "file_1"},
            {"type": "input_file", "file_id": "file_1"},
        ),
    ],
)
def test_parts_of_both_generations_become_parts(part: Json, expected: Json) -> None:
    assert read(user(part))[0]["content"] == [expected]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video", "source": DATA},
        {"type": "audio", "source": URL},
        {"type": "binary", "mimeType": "video/mp4", "data": "QUJD"},
        {"type": "binary", "mimeType": "image/png"},
    ],
)
def test_media_that_no_item_can_have_are_refused_by_name(part: Json) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(user(part))
    assert refused.value.param == "messages[0].content[0]"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"threadId": None}, "threadId"),
        ({"runId": ""}, "runId"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"id": "1", "role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"id": "1", "role": "user"}]}, "messages[0].content"),
        ({"messages": [{"id": "1", "role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"id": "1", "role": "tool", "content": "x"}]}, "messages[0].toolCallId"),
        ({"tools": [{"description": "x"}]}, "tools[0].name"),
        ({"resume": [{"interruptId": "x", "status": "maybe"}]}, "resume[0].status"),
        ({"forwardedProps": "x"}, "forwardedProps"),
        ({"forwardedProps": {"instructions": ["x"]}}, "forwardedProps.instructions"),
        ({"forwardedProps": {"reset_state": "false"}}, "forwardedProps.reset_state"),
        ({"forwardedProps": {"include_state": "false"}}, "forwardedProps.include_state"),
        ({"forwardedProps": {"raw_events": 0}}, "forwardedProps.raw_events"),
    ],
)
def test_a_malformed_run_is_refused_by_field(change: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        validate({"threadId": "t", "runId": "r", "messages": [], **change})
    assert refused.value.param == param


def test_unknown_members_are_ignored() -> None:
    more: Json = {"forwardedProps": [], "state": None, "tools": None, "context": None, "brand_new": 1}
    validate({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "x", "y": 1}], **more})
    assert REQUEST_SCHEMA()["$id"] == "agui"


IMAGE = {"type": "image", "source": {"type": "url", "value": "https://a.example/a.png"}}
ZERO, ONE, TWO = ({"role": "user", "content": f"{number}?"} for number in ("Zero", "One", "Two"))
SAID_ONE = {"role": "assistant", "content": "1"}
QUESTIONS: dict[str, tuple[list[Json], list[Json], bool]] = {
    "the same": ([user({"type": "text", "text": "One?"})], [user({"type": "text", "text": "One?"})], True),
    "the same as one text": ([user({"type": "text", "text": "One?"})], [ONE], True),
    "the same behind others": (
        [ONE],
        [
            ZERO,
            SAID_ONE,
            ONE,
        ],
        True,
    ),
    "the same with the answer": (
        [ONE],
        [ONE, SAID_ONE],
        True,
    ),
    "another": ([ONE], [TWO], False),
    "another behind the same": (
        [ONE],
        [
            ONE,
            SAID_ONE,
            TWO,
        ],
        False,
    ),
    "an image beside the same text": (
        [user({"type": "text", "text": "One?"})],
        [{"role": "user", "content": [{"type": "text", "text": "One?"}, IMAGE]}],
        False,
    ),
    "the same result": ([calling("a"), result("a")], [calling("a"), result("a", "4")], True),
    "another result": ([calling("a"), result("a")], [calling("b"), result("b")], False),
    "a result behind the same": ([ONE], [calling("a"), result("a")], False),
    "no messages": ([ONE], [], True),
    "only an answer": ([ONE], [SAID_ONE], True),
    "a run without a question": ([SAID_ONE], [ONE], True),
}


@pytest.mark.parametrize(("own", "sent", "repeats"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_run_that_is_sent_again_asks_the_same(own: list[Json], sent: list[Json], repeats: bool) -> None:
    messages = [{"id": f"id_{position}", **message} for position, message in enumerate(sent)]
    assert repeats_question(messages, read(*own)) is repeats
