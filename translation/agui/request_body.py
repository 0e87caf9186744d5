"""Builds the body of a Responses request for a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.agui.history import JoinedHistory, join_history, open_requests
from translation.agui.messages import read_messages
from translation.agui.run import is_versioned
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

_OWN_PROPS: Final = frozenset({"model", "tools", "include_state", "raw_events"})
"""Forwarded properties that are no parameters of the Responses API, or are built from more than the property."""

_CLIENT_TOOL_TYPES: Final = frozenset({"function", "custom"})

_SEALED_REASONING: Final = "reasoning.encrypted_content"


class RunRequest(NamedTuple):
    """A run as a Responses request. `history` are the stored items before its input."""

    body: Json
    history: Sequence[Item]
    losses: Sequence[Loss]
    names: "RunParamNames"
    denied_ids: Sequence[str]
    """The interrupts that the run answers by refusing their calls."""
    unanswered: Sequence[Item]
    """The requests for approvals that stay open: the run answers none of them."""


class RunParamNames(Mapping[str, str]):
    """Maps a parameter of the Responses body to the client's. `positions` are the messages that the input came from."""

    def __init__(self, positions: Sequence[int], tool_count: int) -> None:
        self._positions = positions
        self._tool_count = tool_count

    def __getitem__(self, param: str) -> str:
        head, bracket, rest = param.partition("[")
        number, _, tail = rest.partition("]")
        if bracket and number.isdecimal():
            index = int(number)
            if head == "input" and index < len(self._positions):
                return f"messages[{self._positions[index]}]"
            if head == "tools" and index >= self._tool_count:
                return f"forwardedProps.tools[{index - self._tool_count}]{tail}"
        if head.partition(".")[0] in FORWARDED_PARAMS:
            return f"forwardedProps.{param}"
        raise KeyError(param)

    def __iter__(self) -> Iterator[str]:
        return iter(FORWARDED_PARAMS)

    def __len__(self) -> int:
        return len(FORWARDED_PARAMS)


def build_run_request(run_input: Json, *, model: str, stored: Sequence[Item] = ()) -> RunRequest:
    """Returns the request for a validated run whose thread has these stored items.

    Raises InvalidRequest, with the client's names, for what no request can have.
    """
    joined = join_history(stored, read_messages(run_input["messages"]))
    losses = [Loss(f"messages[{entry.position}]", "dropped") for entry in joined.dropped]
    answers, denied_ids, unanswered = _read_resume(run_input, joined, losses)
    props = run_input.get("forwardedProps") or {}
    tools, hosted = _read_tools(run_input.get("tools") or (), props.get("tools"))
    body: Json = {name: value for name, value in props.items() if name in FORWARDED_PARAMS and value is not None}
    losses += [
        Loss(f"forwardedProps.{name}"[:200], "dropped")
        for name, value in props.items()
        if name not in FORWARDED_PARAMS | _OWN_PROPS and value is not None
    ]
    body |= {"model": model, "stream": True, "input": [*answers, *(entry.item for entry in joined.entries)]}
    if instructions := _build_instructions(run_input, props, losses):
        body["instructions"] = instructions
    if tools or hosted:
        body["tools"] = [*tools, *hosted]
    if isinstance(include := body.get("include") or [], list) and _SEALED_REASONING not in include:
        # The client keeps the messages, so it also has to keep what their reasoning was.
        body["include"] = [*include, _SEALED_REASONING]
    positions = [*([0] * len(answers)), *(entry.position for entry in joined.entries)]
    return RunRequest(body, joined.history, losses, RunParamNames(positions, len(tools)), denied_ids, unanswered)


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


def _build_instructions(run_input: Json, props: Json, losses: list[Loss]) -> str:
    """Returns the instructions of a run: the forwarded ones, and what its client says about the situation.

    These are no messages, because they hold for this run only.
    """
    texts = [given] if isinstance(given := props.get("instructions"), str) and given else []
    facts = [f"{fact['description']}: {_text_of(fact['value'])}" for fact in run_input.get("context") or ()]
    state = run_input.get("state")
    if state and props.get("include_state"):
        facts.append(f"State of the application: {_text_of(state)}")
    elif state:
        losses.append(Loss("state", "not sent"))
    if facts:
        texts.append("\n".join(["Context from the application:", *facts]))
    return "\n\n".join(texts)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _read_resume(
    run_input: Json, joined: JoinedHistory, losses: list[Loss]
) -> tuple[list[Item], list[str], list[Item]]:
    """Returns the answers to requests for approvals, the ids of those denied, and the requests that stay open.

    An answer to a request that is not open is left out: its client may have sent it before. A client of 0.0.x that goes
    on without answers denies all of them, because it may not know interrupts.
    """
    requests = {item["id"]: item for item in open_requests(joined.history)}
    answers: list[Item] = []
    denied: list[str] = []
    answered: set[str] = set()
    for index, entry in enumerate(run_input.get("resume") or ()):
        interrupt_id = entry["interruptId"]
        if interrupt_id not in requests or interrupt_id in answered:
            losses.append(Loss(f"resume[{index}]", "dropped"))
            continue
        answered.add(interrupt_id)
        answer = _read_answer(entry, index)
        answers.append(answer)
        if not answer["approve"]:
            denied.append(interrupt_id)
    unanswered = {request_id: request for request_id, request in requests.items() if request_id not in answered}
    if unanswered and run_input.get("resume") is None and joined.entries and not is_versioned(run_input):
        answers += [_denial(request_id) for request_id in unanswered]
        denied += unanswered
        unanswered = {}
    return answers, denied, list(unanswered.values())


def _read_answer(entry: Json, index: int) -> Item:
    answer = _denial(entry["interruptId"])
    if entry["status"] == "cancelled":
        return answer
    payload = entry.get("payload")
    param = f"resume[{index}].payload"
    if not isinstance(payload, dict) or not isinstance(payload.get("approved"), bool):
        raise InvalidRequest('the payload must be {"approved": true} or {"approved": false}', param=param)
    if payload.get("editedArgs") is not None:
        message = "an approval holds for the arguments as the model wrote them: leave out editedArgs, or deny the call"
        raise InvalidRequest(message, param=f"{param}.editedArgs")
    answer["approve"] = payload["approved"]
    if isinstance(reason := payload.get("reason"), str) and reason:
        answer["reason"] = reason
    return answer


def _denial(request_id: str) -> Item:
    return {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": False}
