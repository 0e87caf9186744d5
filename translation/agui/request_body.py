"""Builds the body of a Responses request for a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.agui.agui_history import join_history
from translation.agui.interrupts import NO_REQUEST_STATES, RequestStates, read_resume
from translation.agui.messages import read_messages
from translation.agui.run import is_empty_state
from translation.agui.schema import find_unknown_in_run
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

FORWARDED_PARAMS: Final = frozenset(
    {
        "frequency_penalty",
        "include",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "temperature",
        "text",
        "thinking",
        "tool_choice",
        "top_k",
        "top_p",
        "truncation",
        "user",
    }
)
"""Parameters of the Responses API that a client may set in `forwardedProps`, besides `model` and `tools`."""

_OWN_PROPS: Final = frozenset({"model", "tools", "include_state", "reset_state", "raw_events"})
"""Forwarded properties that are no parameters of the Responses API, or are built from more than the property."""

_CLIENT_TOOL_TYPES: Final = ("function", "custom")
"""A tuple, because a type that is not validated yet may be a value that no set can be asked for."""

_SEALED_REASONING: Final = "reasoning.encrypted_content"


class RunRequest(NamedTuple):
    """A run as a Responses request. `history` are the stored items before its input."""

    body: Json
    history: Sequence[Item]
    losses: Sequence[Loss]
    names: "RunParamNames"
    results: Mapping[str, str]
    """The results of calls that wait for an approval and will not be run, by the ids of the calls."""
    unanswered: Sequence[Item]
    """All open requests for approvals and input, if the run does not answer each of them. It must not begin then."""
    approved_ids: Sequence[str]
    """The earlier calls that the run continues."""
    problems: Mapping[str, str]
    """Descriptions of invalid answers to open requests, by the ids of the requests."""


class RunParamNames(Mapping[str, str]):
    """Maps a parameter of the Responses body to the client's.

    `sources` are the fields that the items of its input come from.
    """

    def __init__(self, sources: Sequence[str], tool_count: int) -> None:
        self._sources = sources
        self._tool_count = tool_count

    def __getitem__(self, param: str) -> str:
        if param == "input":
            return "messages"
        head, bracket, rest = param.partition("[")
        number, _, tail = rest.partition("]")
        if bracket and number.isdecimal():
            index = int(number)
            if head == "input" and index < len(self._sources):
                return self._sources[index]
            if head == "tools" and index >= self._tool_count:
                return f"forwardedProps.tools[{index - self._tool_count}]{tail}"
        if head.partition(".")[0] in FORWARDED_PARAMS:
            return f"forwardedProps.{param}"
        raise KeyError(param)

    def __iter__(self) -> Iterator[str]:
        return iter(FORWARDED_PARAMS)

    def __len__(self) -> int:
        return len(FORWARDED_PARAMS)


def build_run_request(
    run_input: Json,
    *,
    model: str,
    stored: Sequence[Item] = (),
    request_states: RequestStates = NO_REQUEST_STATES,
    stores_state: bool = False,
) -> RunRequest:
    """Returns the request for a validated run whose thread has these stored items.

    `request_states` has the states of the requests for approvals among them. With `stores_state` the state of the run
    is not lost if the model does not get it. Raises InvalidRequest, with the client's names, for what no request can
    have.
    """
    answered_ids = {entry["interruptId"] for entry in run_input.get("resume") or ()}
    joined = join_history(stored, read_messages(run_input["messages"]), answered_ids)
    losses = [Loss(f"messages[{entry.position}]", "dropped") for entry in joined.dropped]
    resumed = read_resume(run_input, joined, request_states)
    losses += resumed.losses
    losses += [Loss(path, "dropped") for path in find_unknown_in_run(run_input)]
    props = run_input.get("forwardedProps") or {}
    tools, hosted = _read_tools(run_input.get("tools") or (), props.get("tools"))
    body: Json = {name: value for name, value in props.items() if name in FORWARDED_PARAMS and value is not None}
    losses += [
        Loss(f"forwardedProps.{name}"[:200], "dropped")
        for name, value in props.items()
        if name not in FORWARDED_PARAMS | _OWN_PROPS and value is not None
    ]
    body |= {"model": model, "stream": True, "input": [*resumed.items, *(entry.item for entry in joined.entries)]}
    if instructions := _build_instructions(run_input, props):
        body["instructions"] = instructions
    if not (stores_state or props.get("include_state") or is_empty_state(run_input.get("state"))):
        losses.append(Loss("state", "not sent"))
    if tools or hosted:
        body["tools"] = [*tools, *hosted]
    if isinstance(include := body.get("include") or [], list) and _SEALED_REASONING not in include:
        # The client keeps the messages, so it also has to keep their reasoning.
        body["include"] = [*include, _SEALED_REASONING]
    sources = [*resumed.sources, *(f"messages[{entry.position}]" for entry in joined.entries)]
    names = RunParamNames(sources, len(tools))
    return RunRequest(
        body,
        joined.history,
        losses,
        names,
        resumed.results,
        resumed.unanswered,
        resumed.approved_ids,
        resumed.problems,
    )


def _read_tools(tools: Sequence[Json], forwarded: Any) -> tuple[list[Json], list[Json]]:
    """Returns the client's tools as functions, and the hosted tools. Raises InvalidRequest."""
    functions = [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool.get("description") or "",
            "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
            "strict": False,
        }
        for tool in tools
    ]
    hosted = forwarded or []
    if not isinstance(hosted, list):
        raise InvalidRequest("forwardedProps.tools must be an array", param="forwardedProps.tools", code="invalid_type")
    for index, tool in enumerate(hosted):
        if not isinstance(tool, dict) or tool.get("type") in _CLIENT_TOOL_TYPES:
            message = "send tools that the client runs in `tools`; forwardedProps.tools are hosted tools, such as mcp"
            raise InvalidRequest(message, param=f"forwardedProps.tools[{index}]")
    return functions, hosted


def _build_instructions(run_input: Json, props: Json) -> str:
    """Returns the instructions of a run: the forwarded ones, and the client's description of the situation.

    These are no messages, because they are valid for this run only.
    """
    texts = [given] if isinstance(given := props.get("instructions"), str) and given else []
    facts = [f"{fact['description']}: {_text_of(fact['value'])}" for fact in run_input.get("context") or ()]
    state = run_input.get("state")
    if props.get("include_state") and not is_empty_state(state):
        facts.append(f"State of the application: {_text_of(state)}")
    if facts:
        texts.append("\n".join(["Context from the application:", *facts]))
    return "\n\n".join(texts)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
