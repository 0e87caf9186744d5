"""The checks of tools: calls whole and streamed, several at once, forced, and what is made of their results."""

from collections.abc import Callable
from typing import Any, Final

from gateway.doctor.checks.check_session import Visit
from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.response_shape import calls_of, check_response, cut, text_of
from gateway.doctor.checks.verdicts import REFUSED_BY_NAME, Refusal, Untold, Wrong, hold
from translation.representation.json_types import Json

WEATHER: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
SEARCH: Final = {
    "type": "function",
    "name": "search",
    "description": "Search the notes",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "strict": False,
}
QUESTION: Final = "What is the weather in Paris?"
RESULT: Final = "sunny, 21 C"


def call_and_result(visit: Visit) -> str:
    """One tool is called, and its result is read."""
    asked = _said(QUESTION)
    first, detail = called(visit, lambda **body: _whole(visit, **body), {"get_weather"}, input=asked, tools=[WEATHER])
    second = _whole(visit, input=[*asked, *answered(first)], tools=[WEATHER])
    hold_continued(second)
    return detail


def several_calls(visit: Visit) -> str:
    """Several calls in one turn have ids of their own, and their results are told apart by them."""
    asked = _said("What is the weather in Paris and Rome?")
    request: Json = {"input": asked, "tools": [WEATHER], "parallel_tool_calls": True}
    first, detail = called(visit, lambda **body: _whole(visit, **body), {"get_weather"}, **request)
    calls = calls_of(first, {"get_weather"})
    if len(calls) < 2:
        raise Untold("it made one call where two would have fitted")
    check_response(visit.whole(**{**request, "input": [*asked, *answered(first)]}))
    return ", ".join(filter(None, (f"{len(calls)} calls", detail)))


def streamed_call(visit: Visit) -> str:
    """A call comes in pieces that add up to it."""

    def ask(**body: Any) -> Json:
        heard = visit.stream(**body)
        check_order(heard.events, done=heard.done)
        return check_response(heard.response)

    _, detail = called(visit, ask, {"get_weather"}, input=QUESTION, tools=[WEATHER])
    return detail


def forced_call(visit: Visit) -> str:
    """The tool that is asked for is called, though another one would fit better."""
    choice = {"type": "function", "name": "search"}
    return held_to_choice(_whole(visit, input=QUESTION, tools=[WEATHER, SEARCH], tool_choice=choice))


def held_to_choice(response: Json) -> str:
    """A response that was told to call search, of two tools. Raises Untold where it was cut off before."""
    names = {name for _, name, _ in calls_of(response, {"get_weather", "search"})}
    if not names and response["status"] == "incomplete":
        raise Untold(f"{cut(response)} before it called")
    hold(bool(names), "it was told to call search, and answered in text")
    hold(names == {"search"}, f"it was told to call search, and called {', '.join(sorted(names))}")
    return ""


def hold_continued(response: Json) -> None:
    """Raises Wrong where the response to the result of a call of get_weather says nothing."""
    if not calls_of(response, {"get_weather"}) and not text_of(response).strip():
        raise Wrong("nothing comes back for the result of a call")


def called(visit: Visit, ask: Callable[..., Json], names: set[str], **body: Any) -> tuple[Json, str]:
    """A response that calls tools of these names, and what had to be done for it: models that call nothing when they
    are free to are told to. Raises Wrong where even that has none."""
    response = ask(**body)
    if calls_of(response, names):
        return response, ""
    text_of(response)  # calls that nobody read are in there
    try:
        response = ask(**body, tool_choice="required")
    except Refusal as refusal:
        if refusal.code == REFUSED_BY_NAME:
            raise Untold("it called nothing, and cannot be told to") from refusal
        raise
    if calls_of(response, names):
        return response, "only when told to"
    if response["status"] == "incomplete":
        raise Untold(f"{cut(response)} before it called")
    raise Wrong("it was told to call a tool, and answered in text")


def answered(response: Json) -> list[Json]:
    """The output of a response as input, and a result for each of its calls."""
    output: list[Json] = response["output"]
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    return [*output, *({"type": "function_call_output", "call_id": id, "output": RESULT} for id in calls)]


def _whole(visit: Visit, **body: Any) -> Json:
    return check_response(visit.whole(**body))


def _said(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]
