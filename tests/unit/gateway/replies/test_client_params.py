"""Parameter names of a turn, translated to the names that the client used."""

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

TOOL: Json = {"type": "function", "name": "f"}
ASKING: list[Json] = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
CALLING: Json = {
    "role": "assistant",
    "content": "c",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
ADDING: Json = {"type": "additional_tools", "role": "developer", "tools": [TOOL]}

CHAT_NAMES: dict[str, tuple[list[Json], str | None, str | None]] = {
    "messages that are one item each are counted": (ASKING, "input[1].content[0].file_id", "messages[1]"),
    "messages that are several items are not": ([*ASKING, CALLING], "input[3].call_id", "messages"),
    "places the gateway counted are not trusted either": ([CALLING], "messages[1]", "messages"),
    "the format of the answer": (ASKING, "text.format.type", "response_format"),
    "the limit of the answer": (ASKING, "max_output_tokens", "max_completion_tokens"),
    "how much to reason": (ASKING, "reasoning.effort", "reasoning_effort"),
    "what both call the same": (ASKING, "tools[0].function.name", "tools[0].function.name"),
    "no parameter": (ASKING, None, None),
}


@pytest.mark.parametrize(("messages", "param", "expected"), CHAT_NAMES.values(), ids=CHAT_NAMES)
def test_chat_clients_get_the_parameter_names_of_chat(
    messages: list[Json], param: str | None, expected: str | None
) -> None:
    body = {"model": "m", "messages": messages}
    assert ClientParams(CHAT.param_names, body, CHAT.request.lift(body)).find_client_name(param) == expected


CUT_LOSSES: dict[str, tuple[Endpoint, list[Json], str, str]] = {
    "a key of a part": (CHAT, ASKING, "input[1].content[0].detail", "messages[1]=detail dropped"),
    "a key of an item": (CHAT, ASKING, "input[0].status", "messages[0]=status dropped"),
    "a part": (CHAT, ASKING, "input[0].content[1]", "messages[0]=content[1] dropped"),
    "a key of messages that are not counted": (CHAT, [*ASKING, CALLING], "input[3].status", "messages=status dropped"),
    "a key by the client's name": (CHAT, [*ASKING, CALLING], "messages.name", "messages=name dropped"),
    "a whole message": (CHAT, ASKING, "input[1]", "messages[1]=dropped"),
    "the whole input": (CHAT, [*ASKING, CALLING], "input[1]", "messages=dropped"),
    "a path that is not cut": (MESSAGES, ASKING, "input[1].content[0].detail", "messages[1].content[0].detail=dropped"),
    "another parameter": (CHAT, ASKING, "text.format", "response_format=dropped"),
    "a parameter without a path": (CHAT, ASKING, "seed", "seed=dropped"),
}


@pytest.mark.parametrize(("dialect", "messages", "param", "expected"), CUT_LOSSES.values(), ids=CUT_LOSSES)
def test_a_loss_inside_a_message_does_not_read_as_the_loss_of_the_message(
    dialect: Endpoint, messages: list[Json], param: str, expected: str
) -> None:
    body: Json = {"model": "m", "max_tokens": 5, "messages": messages}
    (renamed,) = ClientParams(dialect.param_names, body, dialect.request.lift(body)).rename_losses(
        [Loss(param, "dropped")]
    )
    assert str(renamed) == expected


MESSAGES_NAMES = {
    "input[1].content[0].file_id": "messages[1].content[0].source.file_id",
    "max_output_tokens": "max_tokens",
    "reasoning.max_tokens": "thinking.budget_tokens",
    "reasoning.effort": "output_config.effort",
    "reasoning": "output_config.effort",
    "input[0].content[0].file_data": "messages[0].content[0].source",
    "text.format.schema": "output_config.format",
    "stop": "stop_sequences",
    "tools[0].name": "tools[0].name",
    "tool_choice": "tool_choice",
}


@pytest.mark.parametrize(("param", "expected"), MESSAGES_NAMES.items())
def test_messages_clients_get_the_parameter_names_of_their_api(param: str, expected: str) -> None:
    body: Json = {"model": "m", "max_tokens": 5, "messages": ASKING, "tools": []}
    assert ClientParams(MESSAGES.param_names, body, MESSAGES.request.lift(body)).find_client_name(param) == expected


@pytest.mark.parametrize("param", ["input", "text", "reasoning.max_tokens"])
def test_parameters_that_a_chat_client_wrote_keep_their_names(param: str) -> None:
    sent: Json = {"model": "m", "messages": ASKING, "input": "x", "text": {}, "reasoning": {"max_tokens": 5}}
    assert ClientParams(CHAT.param_names, sent, CHAT.request.lift(sent)).find_client_name(param) == param


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_completion_tokens"),
    ],
)
def test_a_limit_is_refused_under_the_name_it_was_sent_by(sent: Json, expected: str) -> None:
    body: Json = {"model": "m", "messages": ASKING, **sent}
    params = ClientParams(CHAT.param_names, body, CHAT.request.lift(body))
    refused = InvalidRequest("'max_completion_tokens' is 5, which is too much", param="max_completion_tokens")
    params.rename_param_of(refused)
    message = f"'{expected}' is 5, which is too much"
    assert (refused.param, refused.message, str(refused)) == (expected, message, message)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(ASKING, "input[1].content"), ([ADDING, *ASKING], "input"), ("a", "input")],
    ids=["entries that are items are counted", "others put the count out of step", "a string has no entries"],
)
def test_responses_clients_get_a_place_only_if_it_is_exact(given: str | list[Json], expected: str) -> None:
    body: Json = {"model": "m", "input": given}
    assert (
        ClientParams(RESPONSES.param_names, body, RESPONSES.request.lift(body)).find_client_name("input[1].content")
        == expected
    )
