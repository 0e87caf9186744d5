"""What a model is examined for over chat completions: the same promises, in the other dialect.

A completion is read as the response it would be, so that both are judged by the same words.
"""

from typing import Any, Final

from gateway.doctor.checks import tool_probes
from gateway.doctor.checks.check_session import Visit
from gateway.doctor.checks.completions import check_chunks, check_completion, check_counts
from gateway.doctor.checks.expectations import (
    COUNT,
    COUNT_FURTHER,
    COUNT_TO_STOP,
    GREETING,
    LIMIT,
    STOP,
    SUM_FORM,
    SUM_QUESTION,
    held_to_limit,
    held_to_stop,
    held_to_sum,
)
from gateway.doctor.checks.response_shape import answer_of
from translation.representation.json_types import Json


def text(visit: Visit) -> str:
    """A whole completion."""
    answer_of(_whole(visit, GREETING))
    return ""


def streaming(visit: Visit) -> str:
    """Every chunk of one completion, a role before its text, one reason to finish, one end."""
    heard = visit.chat_stream(messages=_said(GREETING))
    answer_of(check_chunks(heard.events, done=heard.done))
    return f"{len(heard.events)} chunks"


def usage(visit: Visit) -> str:
    """Tokens are counted, in a whole completion and, where it is asked for, at the end of a stream."""
    counted = check_counts(visit.chat(messages=_said(GREETING)))
    if visit.subject.capabilities.streaming:
        heard = visit.chat_stream(messages=_said(GREETING), stream_options={"include_usage": True})
        check_counts(next((chunk for chunk in reversed(heard.events) if chunk.get("usage")), {}))
    return f"{counted['prompt_tokens']} in, {counted['completion_tokens']} out"


def length(visit: Visit) -> str:
    """An answer that is cut off says so."""
    return held_to_limit(_whole(visit, prompt, max_completion_tokens=LIMIT) for prompt in (COUNT, COUNT_FURTHER))


def stop(visit: Visit) -> str:
    """A stop sequence ends the answer, and is no part of it."""
    return held_to_stop(_whole(visit, COUNT_TO_STOP, stop=[STOP]))


def call_and_result(visit: Visit) -> str:
    """A call comes in pieces that add up to it, where there are streams; its result is read."""

    def ask(**body: Any) -> Json:
        if not visit.subject.capabilities.streaming:
            return _whole(visit, tool_probes.QUESTION, **body)
        heard = visit.chat_stream(messages=_said(tool_probes.QUESTION), **body)
        return check_chunks(heard.events, done=heard.done)

    offered = [_TOOLS["get_weather"]]
    first, detail = tool_probes.called(visit, ask, {"get_weather"}, tools=offered)
    calls = [
        {"id": call["call_id"], "type": "function", "function": {key: call[key] for key in ("name", "arguments")}}
        for call in first["output"]
        if call["type"] == "function_call"
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": tool_probes.RESULT} for call in calls]
    followed = [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    tool_probes.hold_continued(_whole(visit, tool_probes.QUESTION, followed, tools=offered))
    return detail


def forced_call(visit: Visit) -> str:
    """The tool that is asked for is called, though another one would fit better."""
    choice = {"type": "function", "function": {"name": "search"}}
    return tool_probes.held_to_choice(
        _whole(visit, tool_probes.QUESTION, tools=list(_TOOLS.values()), tool_choice=choice)
    )


def json_schema(visit: Visit) -> str:
    """The answer is what its schema says."""
    return held_to_sum(
        _whole(visit, SUM_QUESTION, response_format={"type": "json_schema", "json_schema": {**SUM_FORM}})
    )


_TOOLS: Final = {
    tool["name"]: {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
    for tool in (tool_probes.WEATHER, tool_probes.SEARCH)
}


def _whole(visit: Visit, question: str, followed: list[Json] | None = None, **body: Any) -> Json:
    return check_completion(visit.chat(messages=[*_said(question), *(followed or ())], **body))


def _said(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]
