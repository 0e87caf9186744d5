"""The checks over the Messages API, as its clients use it.

Messages are converted to responses, so that all APIs share their validators and error messages.
"""

from typing import Any, Final

from gateway.doctor.checks import tool_probes
from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.expectations import GREETING_PROMPT
from gateway.doctor.checks.message_validation import check_message, check_message_events
from gateway.doctor.checks.response_validation import items_of_type, message_text_of, parse_calls, require_text
from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, RequestFailed, require
from translation.representation.json_types import Json

_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404

_TOOLS: Final[list[Json]] = [
    {
        "name": tool_probes.WEATHER_TOOL["name"],
        "description": tool_probes.WEATHER_TOOL["description"],
        "input_schema": tool_probes.WEATHER_TOOL["parameters"],
    }
]


def probe_text(session: CheckSession) -> str:
    """Checks a whole message."""
    require_text(check_message(session.create_message(messages=_user_messages(GREETING_PROMPT))))
    return ""


def probe_streaming(session: CheckSession) -> str:
    """Checks a stream: blocks begin and end one after the other, and the message begins and ends once."""
    received = session.stream_message(messages=_user_messages(GREETING_PROMPT))
    require_text(check_message_events(received.events))
    return f"{len(received.events)} events"


def probe_call_and_result(session: CheckSession) -> str:
    """Checks a tool call, streamed if the model can stream, and the reply to its result."""
    question = _user_messages(tool_probes.WEATHER_PROMPT)

    def send_request(tool_choice: str | None = None, **body: Any) -> Json:
        choice: Json = {} if tool_choice is None else {"tool_choice": {"type": "any"}}
        return _request_message(session, messages=question, tools=_TOOLS, **choice, **body)

    first, detail = tool_probes.request_tool_call(session, send_request, {"get_weather"})
    history = [*question, *_continue_with_results(first)]
    tool_probes.verify_continuation(check_message(session.create_message(messages=history, tools=_TOOLS)))
    return detail


def probe_several_calls(session: CheckSession) -> str:
    """Checks that several calls of one turn are blocks one after the other, and that their results are accepted."""
    question = _user_messages("What is the weather in Paris and Rome?")
    first = _request_message(session, messages=question, tools=_TOOLS)
    calls = parse_calls(first, {"get_weather"})
    if len(calls) < 2:
        raise Inconclusive("it did not make two calls, although the question needs two")
    history = [*question, *_continue_with_results(first)]
    check_message(session.create_message(messages=history, tools=_TOOLS))
    return f"{len(calls)} calls"


def probe_count(session: CheckSession) -> str:
    """Checks that the tokens of an input are counted, or that the upstream's lack of a count is reported."""
    try:
        count = session.count_message_tokens(messages=_user_messages(GREETING_PROMPT)).get("input_tokens")
    except RequestFailed as refusal:
        if refusal.status == _NOT_FOUND:
            raise Inconclusive("the upstream cannot count tokens, so that clients estimate them") from refusal
        raise
    require(type(count) is int and count > 0, f"the number of input tokens is {count}")
    return f"{count} tokens"


def probe_malformed_request(session: CheckSession) -> str:
    """Checks that a malformed request gets an error of the type that the API's clients know."""
    try:
        session.create_message(messages=[])
    except RequestFailed as refusal:
        kind = refusal.error["type"]
        require(refusal.status == _BAD_REQUEST, f"a malformed request is answered with {refusal.status}")
        require(kind == "invalid_request_error", f"the error of a malformed request has the type {kind}")
        require(bool(refusal.error["message"]), "an error has no message")
        return ""
    raise CheckFailed("a request without messages is answered")


def probe_thinking(session: CheckSession) -> str:
    """Checks that requested thinking is in blocks of its own, before the answer, and is accepted in the next turn."""
    question = _user_messages("What is 3 + 4?")
    request: Json = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    first = _request_message(session, messages=question, **request)
    message_text_of(first)  # raises UnparsedOutput if the text has thinking
    if not items_of_type(first, "reasoning"):
        raise Inconclusive("it did not think; if it cannot, write capabilities: {reasoning: false}")
    require(first["output"][0]["type"] == "reasoning", "the answer comes before the thinking")
    history = [*question, {"role": "assistant", "content": first["content"]}, *_user_messages(GREETING_PROMPT)]
    check_message(session.create_message(messages=history, **request))
    return ""


def _request_message(session: CheckSession, **body: Any) -> Json:
    if not session.subject.capabilities.streaming:
        return check_message(session.create_message(**body))
    return check_message_events(session.stream_message(**body).events)


def _continue_with_results(message: Json) -> list[Json]:
    """Returns a message as history, and a message with a result for each of its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": tool_probes.WEATHER_RESULT}
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    return [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]


def _user_messages(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]
