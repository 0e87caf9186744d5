"""The checks of tools: whole, streamed, parallel and forced calls, and the use of their results."""

from collections.abc import Callable
from typing import Any, Final

from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.response_validation import check_response, describe_cutoff, message_text_of, parse_calls
from gateway.doctor.checks.verdicts import UNSUPPORTED_PARAMETER, CheckFailed, Inconclusive, RequestFailed, require
from translation.representation.json_types import Json

WEATHER_TOOL: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
SEARCH_TOOL: Final = {
    "type": "function",
    "name": "search",
    "description": "Search the notes",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "strict": False,
}
WEATHER_PROMPT: Final = "What is the weather in Paris?"
WEATHER_RESULT: Final = "sunny, 21 C"


def probe_call_and_result(session: CheckSession) -> str:
    """Checks a call of one tool, and the reply to its result."""
    question = _user_input(WEATHER_PROMPT)
    first, detail = request_tool_call(
        session, lambda **body: _create_response(session, **body), {"get_weather"}, input=question, tools=[WEATHER_TOOL]
    )
    second = _create_response(session, input=[*question, *continue_with_results(first)], tools=[WEATHER_TOOL])
    verify_continuation(second)
    return detail


def probe_parallel_calls(session: CheckSession) -> str:
    """Checks that several calls in one turn have different ids, and that their results are accepted."""
    question = _user_input("What is the weather in Paris and Rome?")
    request: Json = {"input": question, "tools": [WEATHER_TOOL], "parallel_tool_calls": True}
    first, detail = request_tool_call(
        session, lambda **body: _create_response(session, **body), {"get_weather"}, **request
    )
    calls = parse_calls(first, {"get_weather"})
    if len(calls) < 2:
        raise Inconclusive("it made one call, although the question needs two")
    check_response(session.create_response(**{**request, "input": [*question, *continue_with_results(first)]}))
    return ", ".join(filter(None, (f"{len(calls)} calls", detail)))


def probe_streamed_call(session: CheckSession) -> str:
    """Checks that the deltas of a streamed call add up to the call."""

    def send_request(**body: Any) -> Json:
        received = session.stream_response(**body)
        check_order(received.events, done=received.is_done)
        return check_response(received.response)

    _, detail = request_tool_call(session, send_request, {"get_weather"}, input=WEATHER_PROMPT, tools=[WEATHER_TOOL])
    return detail


def probe_forced_call(session: CheckSession) -> str:
    """Checks that the tool in `tool_choice` is called, although another one fits the question better."""
    choice = {"type": "function", "name": "search"}
    return verify_tool_choice(
        _create_response(session, input=WEATHER_PROMPT, tools=[WEATHER_TOOL, SEARCH_TOOL], tool_choice=choice)
    )


def verify_tool_choice(response: Json) -> str:
    """Checks a response to a request with two tools and `tool_choice` search. Returns "".

    Raises Inconclusive if the response was cut off before a call, and CheckFailed unless it calls search only.
    """
    names = {name for _, name, _ in parse_calls(response, {"get_weather", "search"})}
    if not names and response["status"] == "incomplete":
        raise Inconclusive(f"{describe_cutoff(response)} before it called")
    require(bool(names), "it was told to call search, but answered with text")
    require(names == {"search"}, f"it was told to call search, but called {', '.join(sorted(names))}")
    return ""


def verify_continuation(response: Json) -> None:
    """Raises CheckFailed if the response to the result of a get_weather call has neither a call nor text."""
    if not parse_calls(response, {"get_weather"}) and not message_text_of(response).strip():
        raise CheckFailed("the reply to the result of a call is empty")


def request_tool_call(
    session: CheckSession, send_request: Callable[..., Json], names: set[str], **body: Any
) -> tuple[Json, str]:
    """Sends a request until the response calls tools of these names. Returns the response and a remark.

    If the model makes no call by itself, a second request has `tool_choice: required`, and the remark reports this.
    Raises CheckFailed if that response has no call either, and Inconclusive if it was cut off or the upstream cannot
    require a call.
    """
    response = send_request(**body)
    if parse_calls(response, names):
        return response, ""
    message_text_of(response)  # raises UnparsedOutput if the text has unparsed calls
    try:
        response = send_request(**body, tool_choice="required")
    except RequestFailed as refusal:
        if refusal.code == UNSUPPORTED_PARAMETER:
            raise Inconclusive("it called no tool, and its upstream cannot require a call") from refusal
        raise
    if parse_calls(response, names):
        return response, "only with tool_choice: required"
    if response["status"] == "incomplete":
        raise Inconclusive(f"{describe_cutoff(response)} before it called")
    raise CheckFailed("it was told to call a tool, but answered with text")


def continue_with_results(response: Json) -> list[Json]:
    """Returns the output of a response as input items, followed by a result for each of its calls."""
    output: list[Json] = response["output"]
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    return [*output, *({"type": "function_call_output", "call_id": id, "output": WEATHER_RESULT} for id in calls)]


def _create_response(session: CheckSession, **body: Any) -> Json:
    return check_response(session.create_response(**body))


def _user_input(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]
