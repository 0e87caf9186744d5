"""Reads how a run answers the interrupts of its thread, which are requests for approvals of calls, and for input."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from translation.agui.agui_history import JoinedHistory, open_requests
from translation.agui.run import is_versioned
from translation.agui.tool_items import render_result
from translation.errors import InvalidRequest
from translation.hosted.approvals import read_input_answer
from translation.hosted.elicitation.forms import RequestedInput
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

DENIED: Final = "The call was not approved, and not run."
EXPIRED: Final = "The time to answer is over. The call was not run."
CHANGED: Final = "The tool has changed since it was put to the user. The call was not run."
_UNKNOWN: Final = "This approval is no longer valid. The outcome of the call is unknown."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStates:
    """The states of the requests for approvals of a thread that have no answer in its items. All keys are request ids.

    `open_ids` can be answered. `refused` has the requests whose calls will not be run, with the text for the client.
    `calls` has the calls of runs that failed afterwards, and so are no part of the thread. All other requests can no
    longer be answered. `inputs` has the requested input of requests for input.
    """

    open_ids: Container[str] = ()
    inputs: Mapping[str, RequestedInput] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, Item] = field(default_factory=dict)


NO_REQUEST_STATES: Final = RequestStates()


@dataclass(slots=True)
class ResumedRequests:
    """The answers of a run to the interrupts of its thread.

    `items` come first in its input; `sources` are the fields of the request that they come from. `results` are the
    results for the client of calls that are not run, by the ids of the calls. `unanswered` is not empty if the answers
    leave a request open: then the run must not start, and these are all open requests. `problems` describes invalid
    answers to them. `approved_ids` are the earlier calls that the run continues.
    """

    items: list[Item] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    unanswered: list[Item] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    approved_ids: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, item: Item, source: str = "resume") -> None:
        """Adds an item to the input."""
        self.items.append(item)
        self.sources.append(source)

    def deny(self, request: Item, result: str | None = DENIED) -> None:
        """Adds the denial of a request.

        `result` is the call's result for the client; None if the call will have its own.
        """
        self.add({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": False})
        if result is None:
            self.approved_ids.append(_call_id_of(request))
        else:
            self.results[_call_id_of(request)] = result


def read_resume(run_input: Json, joined: JoinedHistory, request_states: RequestStates) -> ResumedRequests:
    """Returns the answers of a validated run to the requests of its thread.

    Raises InvalidRequest for a malformed answer. An answer to a request that is not open is ignored: its client may
    have sent it before. A client of 0.0.x that continues without answers denies all requests, because it may not know
    interrupts.
    """
    resumed = ResumedRequests()
    requests = open_requests(joined.history)
    live = [item for item in requests if item["id"] in request_states.open_ids]
    answers = _read_answers(run_input, {item["id"] for item in live}, request_states.inputs, resumed)
    resume = run_input.get("resume")
    goes_on = resume is None and bool(joined.entries) and not is_versioned(run_input)
    for request in requests:
        request_id, call_id = request["id"], _call_id_of(request)
        requested = request_states.inputs.get(request_id)
        if (call := request_states.calls.get(request_id)) is not None:
            resumed.add(call)
            resumed.results[call_id] = render_result(call)
        elif (result := request_states.refused.get(request_id)) is not None:
            resumed.deny(request, result)
        elif request_id not in request_states.open_ids:
            resumed.results[call_id] = _UNKNOWN
        elif (indexed_answer := answers.get(request_id)) is not None:
            index, answer = indexed_answer
            resumed.add(answer, f"resume[{index}].interruptId")
            if answer["approve"] or requested is not None:
                resumed.approved_ids.append(call_id)
            else:
                resumed.results[call_id] = DENIED
        elif goes_on:
            resumed.deny(request, DENIED if requested is None else None)
        else:
            resumed.unanswered = live
    answered = {message["toolCallId"] for message in run_input["messages"] if message["role"] == "tool"}
    for call_id in resumed.results.keys() & answered:
        del resumed.results[call_id]
    return resumed


def _call_id_of(request: Item) -> str:
    """Returns the client's id of the call of a request."""
    return str(request.get("continues") or request["id"])


def _read_answers(
    run_input: Json, open_ids: Container[str], inputs: Mapping[str, RequestedInput], resumed: ResumedRequests
) -> dict[str, tuple[int, Item]]:
    """Returns the answers to open requests, with their positions, by the ids of the requests.

    An answer that does not fit the request is a problem, and the request stays open.
    """
    answers: dict[str, tuple[int, Item]] = {}
    entries: Sequence[Json] = run_input.get("resume") or ()
    for index, entry in enumerate(entries):
        interrupt_id = entry["interruptId"]
        if interrupt_id not in open_ids or interrupt_id in answers:
            resumed.losses.append(Loss(f"resume[{index}]", "dropped"))
        elif (requested := inputs.get(interrupt_id)) is None:
            answers[interrupt_id] = index, _read_answer(entry, index)
        else:
            answer = _read_input(entry, requested)
            try:
                read_input_answer(answer, requested)
            except InvalidRequest as error:
                resumed.problems[interrupt_id] = error.message
            else:
                answers[interrupt_id] = index, answer
    return answers


def _read_input(entry: Json, requested: RequestedInput) -> Item:
    """Returns the answer to a request for input. Its content is not validated.

    A payload in the form of an approval accepts or declines, unless the form has such a field itself. It may also have
    the content.
    """
    answer: Item = {"type": "mcp_approval_response", "approval_request_id": entry["interruptId"], "approve": False}
    if entry["status"] == "cancelled":
        return answer | {"action": "cancel"}
    payload = entry.get("payload")
    question = requested.describe()
    fields = (question.get("requested_schema") or {}).get("properties") or {}
    if isinstance(payload, dict) and "approved" not in fields and isinstance(payload.get("approved"), bool):
        filled = {name: value for name, value in payload.items() if name != "approved"}
        content = {"content": filled} if payload["approved"] and filled else {}
        return answer | {"approve": payload["approved"], **content}
    return answer | {"approve": True, "content": payload}


def _read_answer(entry: Json, index: int) -> Item:
    answer: Item = {"type": "mcp_approval_response", "approval_request_id": entry["interruptId"], "approve": False}
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
