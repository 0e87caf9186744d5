"""The checks over chat completions: the same requirements as for responses, in the other dialect.

Completions are converted to responses, so that both share their validators and messages.
"""

from typing import Any, Final

from gateway.doctor.checks import tool_probes
from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.completion_validation import check_chunks, check_completion, check_completion_usage
from gateway.doctor.checks.expectations import (
    COUNT_PROMPT,
    GREETING_PROMPT,
    LONG_COUNT_PROMPT,
    STOP_PROMPT,
    STOP_SEQUENCE,
    SUM_FORMAT,
    SUM_PROMPT,
    TOKEN_LIMIT,
    verify_stop,
    verify_sum_format,
    verify_token_limit,
)
from gateway.doctor.checks.response_validation import require_text
from translation.representation.json_types import Json


def probe_text(session: CheckSession) -> str:
    """Checks a whole completion."""
    require_text(_create_completion(session, GREETING_PROMPT))
    return ""


def probe_streaming(session: CheckSession) -> str:
    """Checks a stream: chunks have the same id, the role comes before text, and there are one finish reason and end."""
    received = session.stream_completion(messages=_user_messages(GREETING_PROMPT))
    require_text(check_chunks(received.events, done=received.is_done))
    return f"{len(received.events)} chunks"


def probe_usage(session: CheckSession) -> str:
    """Checks that tokens are counted, in a whole completion and, with `include_usage`, at the end of a stream."""
    usage = check_completion_usage(session.create_completion(messages=_user_messages(GREETING_PROMPT)))
    if session.subject.capabilities.streaming:
        received = session.stream_completion(
            messages=_user_messages(GREETING_PROMPT), stream_options={"include_usage": True}
        )
        check_completion_usage(next((chunk for chunk in reversed(received.events) if chunk.get("usage")), {}))
    return f"{usage['prompt_tokens']} in, {usage['completion_tokens']} out"


def probe_length(session: CheckSession) -> str:
    """Checks that a completion that is cut off has the finish reason `length`."""
    return verify_token_limit(
        _create_completion(session, prompt, max_completion_tokens=TOKEN_LIMIT)
        for prompt in (COUNT_PROMPT, LONG_COUNT_PROMPT)
    )


def probe_stop(session: CheckSession) -> str:
    """Checks that a stop sequence ends the answer and is not part of it."""
    return verify_stop(
        _create_completion(session, STOP_PROMPT, stop=[STOP_SEQUENCE]), lambda: _create_completion(session, STOP_PROMPT)
    )


def probe_call_and_result(session: CheckSession) -> str:
    """Checks a tool call, streamed if the model can stream, and the reply to its result."""

    def send_request(**body: Any) -> Json:
        if not session.subject.capabilities.streaming:
            return _create_completion(session, tool_probes.WEATHER_PROMPT, **body)
        received = session.stream_completion(messages=_user_messages(tool_probes.WEATHER_PROMPT), **body)
        return check_chunks(received.events, done=received.is_done)

    tools = [_TOOLS["get_weather"]]
    first, detail = tool_probes.request_tool_call(session, send_request, {"get_weather"}, tools=tools)
    calls = [
        {"id": call["call_id"], "type": "function", "function": {key: call[key] for key in ("name", "arguments")}}
        for call in first["output"]
        if call["type"] == "function_call"
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": tool_probes.WEATHER_RESULT} for call in calls]
    later_messages = [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    tool_probes.verify_continuation(
        _create_completion(session, tool_probes.WEATHER_PROMPT, later_messages, tools=tools)
    )
    return detail


def probe_forced_call(session: CheckSession) -> str:
    """Checks that the tool in `tool_choice` is called, although another one fits the question better."""
    choice = {"type": "function", "function": {"name": "search"}}
    return tool_probes.verify_tool_choice(
        _create_completion(session, tool_probes.WEATHER_PROMPT, tools=list(_TOOLS.values()), tool_choice=choice)
    )


def probe_json_schema(session: CheckSession) -> str:
    """Checks that the answer fits its JSON schema."""
    return verify_sum_format(
        _create_completion(session, SUM_PROMPT, response_format={"type": "json_schema", "json_schema": {**SUM_FORMAT}})
    )


_TOOLS: Final = {
    tool["name"]: {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
    for tool in (tool_probes.WEATHER_TOOL, tool_probes.SEARCH_TOOL)
}


def _create_completion(
    session: CheckSession, question: str, later_messages: list[Json] | None = None, **body: Any
) -> Json:
    return check_completion(
        session.create_completion(messages=[*_user_messages(question), *(later_messages or ())], **body)
    )


def _user_messages(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]
