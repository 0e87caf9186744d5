"""The check of tools that the gateway runs: the model has to call one, and its answer has to use the result."""

from typing import Final

from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.response_validation import check_response, describe_cutoff, items_of_type, message_text_of
from gateway.doctor.checks.tool_probes import WEATHER_PROMPT
from gateway.doctor.checks.verdicts import UNSUPPORTED_PARAMETER, CheckFailed, Inconclusive, RequestFailed
from translation.hosted.call_forms import output_text_of
from translation.representation.json_types import Json

WEATHERS: Final = ("cloudy", "rainy", "windy", "snowy", "foggy", "stormy")
"""The results of the tool. The demo model knows these words."""

_MAX_EXCERPT_CHARS: Final = 60
_WITHOUT_TOOLS: Final = "if it cannot use tools, write capabilities: {tools: false}, and no tools.mcp, for the model"


def probe_hosted_tools(session: CheckSession) -> str:
    """Checks that the gateway runs a call of the model, and that the model continues with its result.

    Raises Inconclusive if the answer does not contain the result, because it may have been used nevertheless.
    """
    response, remark = _request_call(session)
    calls = items_of_type(response, "mcp_call")
    results = [call["output"] for call in calls if call.get("status") == "completed" and call.get("output")]
    if not results:
        raise CheckFailed(f"it called the tool, but no call succeeded: {output_text_of(calls[-1])[:200]}")
    answer = message_text_of(response)
    if not answer.strip():
        if response["status"] == "incomplete":
            raise Inconclusive(f"{describe_cutoff(response)} before it answered")
        raise CheckFailed("it called the tool, but the answer to its result is empty")
    if not any(result in answer.lower() for result in results):
        excerpt = " ".join(answer.split())[:_MAX_EXCERPT_CHARS]
        raise Inconclusive(
            f"it called the tool, but the result {results[-1]!r} is not in its answer {excerpt!r}; {_WITHOUT_TOOLS}"
        )
    return ", ".join(filter(None, ("it called, and used the result", remark)))


def _request_call(session: CheckSession) -> tuple[Json, str]:
    """Sends the request until the model calls the tool. Returns the response and a remark.

    If the model makes no call by itself, a second request has `tool_choice: required`, and the remark reports this.
    Raises CheckFailed if that response has no call either, and Inconclusive if it was cut off or the upstream cannot
    require a call.
    """
    response = _create_response(session)
    if items_of_type(response, "mcp_call"):
        return response, ""
    message_text_of(response)  # raises UnparsedOutput if the text has unparsed calls
    try:
        response = _create_response(session, tool_choice="required")
    except RequestFailed as refusal:
        if refusal.code == UNSUPPORTED_PARAMETER:
            raise Inconclusive(
                f"it called no tool, and its upstream cannot require a call; {_WITHOUT_TOOLS}"
            ) from refusal
        raise
    if items_of_type(response, "mcp_call"):
        return response, "but called only with tool_choice: required"
    if response["status"] == "incomplete":
        raise Inconclusive(f"{describe_cutoff(response)} before it called")
    raise CheckFailed("it was told to call a tool, but answered with text")


def _create_response(session: CheckSession, **body: object) -> Json:
    subject = session.subject
    tools = [{"type": "mcp", "server_label": subject.sample_server}]
    return check_response(
        session.create_response(model=subject.sample_model, input=WEATHER_PROMPT, tools=tools, **body)
    )
