"""Rewrites past items of hosted tools as function calls with outputs, which every upstream accepts."""

from collections import deque
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Final, NamedTuple

from translation.hosted.approvals import NotRunReason
from translation.hosted.call_forms import MCP_FORM, MCP_FORMS, CallForm, PastHostedCall
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.tools import ToolKey
from translation.representation.json_types import Item, Json

_NOT_APPROVED: Final = "The user did not approve this call. It was not run."
_APPROVAL_UNKNOWN: Final = "This approval is not valid. The call was not run."
_OUTCOME_UNKNOWN: Final = "This call was approved before. Its outcome is not known, and it was not run again."

_UNANSWERED: Final[Mapping[NotRunReason, str]] = {
    "pending": "This call waits for the approval of the user. It was not run: do not make it again.",
    "used": _OUTCOME_UNKNOWN,
}
"""The output of a call whose request for an approval is not answered in the input."""

_UNFINISHED: Final = "This call was not finished. It has no result."

_NO_INPUT: Final[Mapping[NotRunReason | None, str]] = {
    None: "The tool asked the user for input and got none. The call was not finished.",
    "pending": "This call waits for input of the user. Do not make it again.",
    "used": "The user gave the input that this call asked for. Its outcome is not known, and it was not run again.",
    "expired": "The tool asked the user for input, and the answer came too late. The call was not finished.",
    "void": "The tool has changed since it asked the user for input. The call was not finished.",
}
"""The output of a call that asked for input, and has not continued."""

_UNUSABLE: Final[Mapping[NotRunReason, str]] = {
    "used": _OUTCOME_UNKNOWN,
    "expired": "The approval of this call came too late. It was not run.",
    "void": "The tool has changed since the user was asked about this call. It was not run.",
}
"""The output of a call whose approval is not valid."""


OUTPUTS_WITHOUT_RESULT: Final = (
    *(_NOT_APPROVED, _APPROVAL_UNKNOWN, _UNFINISHED),
    *_UNANSWERED.values(),
    *_NO_INPUT.values(),
    *_UNUSABLE.values(),
)
"""The beginnings of outputs of calls that were not run, or whose result is not known."""

_NO_REASONS: Final[Mapping[str, NotRunReason]] = {}


class ApprovedCall(NamedTuple):
    """A call that the request approves. It is run before the model is asked.

    `position` is the index in `ResolvedHistory.items` at which its output has to be inserted.
    """

    approval_request_id: str
    key: ToolKey
    arguments: str
    position: int


class ApprovedCalls(NamedTuple):
    """The calls that a request approves, in the order of their positions.

    The tools of `changed_ids` have changed since: their calls are put to the client again. `inputs` has the user's
    input for some of the calls, by the ids of their requests: these calls continue where they stopped.
    """

    calls: Sequence[ApprovedCall] = ()
    changed_ids: Collection[str] = ()
    inputs: Mapping[str, UserInput] = {}  # never changed


class ResolvedHistory(NamedTuple):
    """An input in terms of function calls.

    `listed` has the last list of tools of each server, by its label, without lists that failed. `sources` are the items
    that became function calls, by the `call_id`. `open_ids` are the ids of the calls that were neither run nor denied.
    """

    items: list[Item]
    approved: list[ApprovedCall]
    listed: Mapping[str, Item]
    sources: Mapping[str, Sequence[Item]]
    open_ids: frozenset[str]


def resolve_history(
    items: Sequence[Item],
    name_of: Callable[[ToolKey], str],
    *,
    approved_ids: Container[str] = (),
    continued_ids: Container[str] = (),
    not_run_reasons: Mapping[str, NotRunReason] = _NO_REASONS,
    adapt_call: Callable[[str, PastHostedCall], PastHostedCall] = lambda _, call: call,
    forms: Mapping[str, CallForm] = MCP_FORMS,
) -> ResolvedHistory:
    """Returns the items for the model. `name_of` returns the model's name of a tool.

    A call becomes a function call and its output. So does a request for an approval; its output says why the call was
    not run. If it was approved and has not been run, the items have only its function call, in the place of the answer,
    and the call is in `approved`. A call that asked for input, and continued in another item, becomes one call.

    `approved_ids` are the ids of the requests that were verified to be the gateway's own and to be open. An answer in
    the input approves no other, since a client can write both items itself. `continued_ids` are those of them whose
    calls go on with any answer, because they asked for input. `not_run_reasons` says why other calls are not run.
    `adapt_call` returns a call with its `call_id` as the model reads it here. `forms` are those of the response's
    tools, by the types of their items; calls of other types are not changed, nor are the other items of MCP servers
    without the form of their calls.
    """
    requests = {item["id"]: item for item in items if item["type"] == "mcp_approval_request" and item.get("id")}
    answered = {item["approval_request_id"] for item in items if item["type"] == "mcp_approval_response"}
    past = {item.get("approval_request_id") for item in items if item["type"] in forms} - {None}
    resolved: list[Item] = []
    approved: list[ApprovedCall] = []
    listed: dict[str, Item] = {}
    sources: dict[str, Sequence[Item]] = {}
    open_ids: set[str] = set()
    outputs = {form.output_type: form for form in forms.values() if form.output_type is not None}
    waiting: deque[tuple[str, int]] = deque()
    """Calls whose result is in an item of its own, and the places of their outputs."""
    for position, item in enumerate(items):
        if outputs and (form := outputs.get(item["type"])) is not None and form.reads(item):
            if waiting:
                call_id, place = waiting.popleft()
                sources[call_id] = [*sources[call_id], item]
                resolved[place] = {**resolved[place], "output": form.read_output(item)}
            continue
        match item["type"]:
            case "mcp_list_tools" | "mcp_approval_request" | "mcp_approval_response" if MCP_FORM.item_type not in forms:
                resolved.append(item)
            case "mcp_list_tools":
                if item["tools"] or not item.get("error"):  # an error may only name tools that were left out
                    listed[item["server_label"]] = item
            case item_type if (form := forms.get(item_type)) is not None and form.reads(item):
                if item.get("input_request_id") in requests:
                    continue  # the call continues where its request for input is answered
                call_id = _id_of(item, position)
                sources[call_id] = [item]
                past_call = form.read_past(item)
                if not past_call.output and item.get("status") == "incomplete":
                    past_call = past_call._replace(output=_UNFINISHED)
                adapted = adapt_call(call_id, past_call)
                resolved += _call_and_output(call_id, adapted, name_of, adapted.output)
                if form.output_type is not None:
                    waiting.append((call_id, len(resolved) - 1))
            case "mcp_approval_request":
                if item.get("id") not in answered and item.get("id") not in past:
                    output = _look_up(_UNANSWERED, not_run_reasons, item.get("id"), _NOT_APPROVED)
                    if item.get("elicitation"):
                        output = _NO_INPUT[not_run_reasons.get(item.get("id") or "")]
                    call_id = _id_of(item, position)
                    sources[call_id] = [item]
                    open_ids.add(call_id)
                    resolved += _call_and_output(call_id, _read_request(item), name_of, output)
            case "mcp_approval_response":
                request_id = item["approval_request_id"]
                request = requests.get(request_id)
                if request is None or request_id in past:
                    continue
                past.add(request_id)  # A second answer to a request has no effect.
                sources[request_id] = [request, item]
                if item["approve"] or request.get("elicitation"):
                    open_ids.add(request_id)
                if request_id in continued_ids or (item["approve"] and request_id in approved_ids):
                    key = ToolKey(request["server_label"], request["name"])
                    resolved += _call_and_output(request_id, _read_request(request), name_of, "")[:1]
                    approved.append(ApprovedCall(request_id, key, request["arguments"], len(resolved)))
                else:
                    output = _look_up(_UNUSABLE, not_run_reasons, request_id, _APPROVAL_UNKNOWN)
                    output = output if item["approve"] else _denial_of(item)
                    if request.get("elicitation"):
                        output = _NO_INPUT[not_run_reasons.get(request_id)]
                    resolved += _call_and_output(request_id, _read_request(request), name_of, output)
            case _:
                resolved.append(item)
    return ResolvedHistory(resolved, approved, listed, sources, frozenset(open_ids))


def _look_up(
    texts: Mapping[NotRunReason, str], not_run_reasons: Mapping[str, NotRunReason], request_id: str | None, default: str
) -> str:
    reason = not_run_reasons.get(request_id or "")
    return default if reason is None else texts.get(reason, default)


def _denial_of(answer: Item) -> str:
    return f"{_NOT_APPROVED} Reason: {answer['reason']}" if answer.get("reason") else _NOT_APPROVED


def _id_of(item: Item, position: int) -> str:
    """Returns the id of an item, which clients may leave out."""
    return item.get("id") or f"mcp_{position}"


def _read_request(request: Item) -> PastHostedCall:
    """Returns the call that a request for an approval is about."""
    return PastHostedCall(request["server_label"], request["name"], request.get("arguments") or "{}", "")


def _call_and_output(call_id: str, call: PastHostedCall, name_of: Callable[[ToolKey], str], output: str) -> list[Json]:
    name = name_of(ToolKey(call.server, call.name))
    return [
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]
