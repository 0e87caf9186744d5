"""gateway/doctor/checks/completion_validation.py: which completions are complete, and the faults of the others."""

from typing import Any

import pytest

from gateway.doctor.checks.completion_validation import check_chunks, check_completion, check_completion_usage
from gateway.doctor.checks.response_validation import parse_calls, require_text
from gateway.doctor.checks.verdicts import CheckFailed
from tests.upstream.builders import CHAT_USAGE, chat_chunk, text_chunks, whole_chat

Json = dict[str, Any]


def call(index: int = 0, call_id: str | None = None, name: str | None = None, arguments: str = "") -> Json:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    piece = {"index": index, "function": function, **({"id": call_id, "type": "function"} if call_id else {})}
    return chat_chunk({"tool_calls": [piece]})


ROLE = chat_chunk({"role": "assistant", "content": None})
END = chat_chunk({}, "stop")
CALLED = chat_chunk({}, "tool_calls")


def test_a_stream_is_read_as_the_response_it_would_be() -> None:
    response = check_chunks(text_chunks("po", "ng"), done=True)
    assert require_text(response) == "pong"
    assert (response["status"], response["incomplete_details"]) == ("completed", None)
    assert response["usage"] == {"output_tokens": CHAT_USAGE["completion_tokens"]}


def test_calls_in_pieces_are_joined() -> None:
    pieces = [call(0, "a", "f"), call(0, arguments='{"x":'), call(0, "a", arguments="1}"), call(1, "b", "f", "{}")]
    response = check_chunks([ROLE, *pieces, CALLED], done=True)
    assert parse_calls(response, {"f"}) == [("a", "f", {"x": 1}), ("b", "f", {})]


def test_an_answer_that_is_cut_off_is_incomplete() -> None:
    response = check_completion(whole_chat("1, 2", finish_reason="length"))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_whole_completion_is_read_with_its_calls_and_its_refusal() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    response = check_completion(whole_chat(None, finish_reason="tool_calls", tool_calls=calls, refusal="No."))
    assert parse_calls(response, {"f"}) == [("a", "f", {})]
    assert require_text(response) == "No."


def other(chunk: Json, **changes: Any) -> Json:
    return {**chunk, **changes}


@pytest.mark.parametrize(
    ("chunks", "complaint"),
    [
        ([], "the stream has no chunks"),
        ([other(ROLE, object="chat.completion")], "chunk 0 is not a chat.completion.chunk"),
        ([ROLE, other(END, id="another")], "the completion's id changed"),
        ([other(ROLE, id="")], "has no id"),
        ([other(ROLE, model=None)], "has no model"),
        ([other(ROLE, created="now")], "has no creation time"),
        ([other(ROLE, choices=None)], "choices is not a list of objects"),
        ([other(ROLE, choices=[{"index": 0}, {"index": 1}])], "more than one choice"),
        ([chat_chunk({"content": "po"}), END], "content precedes the role"),
        ([chat_chunk({"role": "user"})], "the message has the role user"),
        ([ROLE, END, chat_chunk({"content": "ng"})], "content follows the finish_reason"),
        ([ROLE, END, END], "there are two finish_reasons"),
        ([ROLE], "the stream ends without a finish_reason"),
        ([ROLE, chat_chunk({}, "over")], "the finish_reason is over"),
        ([ROLE, CALLED], "the finish_reason is tool_calls, but there are no tool calls"),
        ([ROLE, call(0, None, "f")], "call 0 starts without an id or a name"),
        ([ROLE, call(1, "a", "f")], "call 1 starts, but 0 is next"),
        ([ROLE, call(0, "a", "f"), call(0, "b")], "a call's id changed"),
        ([ROLE, chat_chunk({"tool_calls": [{}]})], "chunk 1 is malformed"),
    ],
)
def test_an_unexpected_chunk_is_reported(chunks: list[Json], complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint):
        check_chunks(chunks, done=True)


def test_a_stream_without_its_last_frame_is_not_whole() -> None:
    with pytest.raises(CheckFailed, match=r"without \[DONE\]"):
        check_chunks(text_chunks("pong"), done=False)


@pytest.mark.parametrize(
    ("completion", "complaint"),
    [
        ({"object": "response"}, "the reply is not a chat completion"),
        (other(whole_chat("pong"), choices=[]), "the completion has no choices"),
        (whole_chat("pong", role="user"), "the message has the role user"),
    ],
)
def test_an_invalid_completion_is_reported(completion: Json, complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint):
        check_completion(completion)


def test_tokens_are_counted_under_the_names_of_chat() -> None:
    assert check_completion_usage({"usage": CHAT_USAGE}) == CHAT_USAGE
    with pytest.raises(CheckFailed, match=r"usage\.completion_tokens is 0"):
        check_completion_usage({"usage": {**CHAT_USAGE, "completion_tokens": 0}})
    with pytest.raises(CheckFailed, match="no usage"):
        check_completion_usage({})
