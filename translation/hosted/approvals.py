"""Approvals of calls: verifies the answers in an input by the gateway's records of the requests.

A client can write every item itself. So an answer approves a call only if the gateway has a record that this client was
asked, that there was no answer yet, and that arguments and tool are still the same. The same holds for requests for
input: they are items of the same type, with records in the same table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from translation.errors import InvalidRequest
from translation.hosted.elicitation.answers import InvalidInputContent, UserInput, accept_input, decline_input
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.tools import HostedTool, digest_arguments
from translation.representation.json_types import Item, Json

ApprovalState: TypeAlias = Literal["open", "used", "denied", "expired", "void"]
"""`void`: the tool had changed when the call was approved, so that the call was not run."""

NotRunReason: TypeAlias = Literal["pending", "used", "expired", "void"]
"""Why a call of the input is not run, although it is not denied. `pending`: other requests of its reply were
answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """One request for an approval, or for input. It has digests only, because the input with the answer has the call.

    `response_id` is the response that made the request, `answered_by` the response whose input answered it. `origin` is
    the address of the server without path and query. `expires_us` is in epoch microseconds. `requested_input` is the
    input that the call needs to continue; None for an approval. It is stored as `sealed_input`.
    """

    id: str
    response_id: str
    server_label: str
    tool_name: str
    origin: str
    arguments_digest: str
    definition_digest: str
    expires_us: int
    state: ApprovalState = "open"
    answered_by: str | None = None
    sealed_input: str | None = None
    requested_input: RequestedInput | None = None


@dataclass(slots=True, eq=False)
class ApprovalRequest:
    """A request of the reply for the approval of a call, or for the `requested_input`. The client gets the item, at
    this index of the output, when the request `is_stored`.
    """

    item: Item
    index: int
    tool: HostedTool
    requested_input: RequestedInput | None = None
    is_stored: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalAnswers:
    """The valid answers of one request. They are stored when its response begins.

    `approved` has the digest of the definition that the client approved. `not_run_reasons` says why other calls of the
    input are not run. `inputs` has the user's input, or the refusal of it, for the calls in `approved` that asked for
    it. `places` has the positions of the answers in the request's own input. All are keyed by the id of the request.
    """

    approved: Mapping[str, str] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    not_run_reasons: Mapping[str, NotRunReason] = field(default_factory=dict)
    inputs: Mapping[str, UserInput] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be stored."""
        return not (self.approved or self.denied)

    def find_param(self, request_id: str) -> str:
        """Returns the parameter that an error about the answer to a request names."""
        position = self.places.get(request_id)
        return "input" if position is None else f"input[{position}].approval_request_id"

    def find_changed(self, tools: Mapping[str, HostedTool | None]) -> list[str]:
        """Returns the approvals whose tool has changed. `tools` are the current tools, by the id of the approval.

        A missing tool has not changed: its call fails because of its name.
        """
        return [
            request_id
            for request_id, digest in self.approved.items()
            if (tool := tools.get(request_id)) is not None and tool.definition_digest != digest
        ]

    def to_json(self) -> Json:
        """Returns the answers that a job needs, as JSON."""
        inputs = {request_id: given.to_json() for request_id, given in self.inputs.items()}
        return {"approved": dict(self.approved), "standings": dict(self.not_run_reasons), "inputs": inputs}

    @classmethod
    def from_json(cls, fields: Json) -> "ApprovalAnswers":
        """Returns the answers from the result of `to_json`, which has no denials."""
        inputs = {request_id: UserInput.from_json(given) for request_id, given in fields.get("inputs", {}).items()}
        return cls(fields["approved"], (), fields["standings"], inputs)


NO_ANSWERS: Final = ApprovalAnswers()


def replace_nul(text: str) -> str:
    """Returns a text without NUL, for a record: PostgreSQL cannot store NUL in text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def list_request_ids(items: Iterable[Item]) -> list[str]:
    """Returns the ids of all requests for approvals that items make or answer, each of them once."""
    ids: dict[str, None] = {}
    for item in items:
        if item["type"] == "mcp_approval_request" and item.get("id"):
            ids[item["id"]] = None
        elif item["type"] == "mcp_approval_response":
            ids[item["approval_request_id"]] = None
    return [*ids]


def verify_answers(
    items: Sequence[Item],
    own_items: Sequence[Item],
    records: Mapping[str, ApprovalRecord],
    server_labels: Iterable[str],
) -> ApprovalAnswers:
    """Returns the valid answers of an input. `items` is everything that the model reads, including the history.

    `own_items` are the items of the request itself, in the order of its `input`: an invalid answer among them raises
    InvalidRequest. An invalid answer in the history is ignored, because the client can no longer change it. An answer
    is obsolete if its call is in the input too. `records` are the existing records of `list_request_ids(items)`.
    `server_labels` are the servers of the request.
    """
    requests = {item["id"]: item for item in items if item["type"] == "mcp_approval_request" and item.get("id")}
    obsolete = {item.get("approval_request_id") for item in items if item["type"] == "mcp_call"}
    first = {item["approval_request_id"]: item for item in reversed(items) if item["type"] == "mcp_approval_response"}
    own = _read_own_answers(own_items)
    labels = frozenset(map(replace_nul, server_labels))
    approved: dict[str, str] = {}
    denied: list[str] = []
    inputs: dict[str, UserInput] = {}
    # `first` was filled from the end, so that the first answer to each request remains. Reversed, it has their order.
    for request_id in reversed(first):
        if request_id in obsolete:
            continue
        record, (answer, position) = records.get(request_id), own.get(request_id, (first[request_id], None))
        param = None if position is None else f"input[{position}].approval_request_id"
        refusal = _find_refusal(request_id, answer, param, requests.get(request_id), record, labels)
        if refusal is not None:
            if position is not None:
                raise refusal
        elif record is not None and record.state == "open":
            _require_fitting(answer, record, position)
            if answer["approve"] != first[request_id]["approve"]:
                raise _build_conflict_error(request_id, param)
            if record.requested_input is not None and (answer["approve"] or record.server_label in labels):
                approved[request_id] = record.definition_digest
                inputs[request_id] = read_input_answer(answer, record.requested_input, position)
            elif answer["approve"]:
                approved[request_id] = record.definition_digest
            else:
                denied.append(request_id)
    answered = {records[request_id].response_id for request_id in [*approved, *denied]}
    not_run_reasons: dict[str, NotRunReason] = {}
    for request_id in requests.keys() - obsolete - approved.keys() - {*denied}:
        if (record := records.get(request_id)) is None or record.state == "denied":
            continue
        if record.state != "open":
            not_run_reasons[request_id] = record.state
        elif request_id not in first and record.response_id in answered:
            not_run_reasons[request_id] = "pending"
    places = {request_id: position for request_id, (_, position) in own.items()}
    return ApprovalAnswers(approved, tuple(denied), not_run_reasons, inputs, places)


def read_input_answer(answer: Item, requested: RequestedInput, position: int | None = None) -> UserInput:
    """Returns the input from an answer to a call that asked for it. `position` is the index of the answer in the input.

    Raises InvalidRequest for content that does not fit the form.
    """
    if not answer["approve"]:
        return decline_input(requested, "cancel" if answer.get("action") == "cancel" else "decline")
    try:
        return accept_input(requested, answer.get("content"))
    except InvalidInputContent as error:
        raise InvalidRequest(
            f"The answer does not fit what the tool asks for: {error}. Send `content` that follows the "
            "`requested_schema`, or decline with `approve: false`.",
            param="input" if position is None else f"input[{position}].content",
            code="invalid_elicitation_content",
        ) from None


def build_used_approval_error(record: ApprovalRecord, param: str | None = "input") -> InvalidRequest:
    """Returns the error for an answer to a request that was answered before."""
    what = "denied" if record.state == "denied" else "used"
    return InvalidRequest(
        f"The approval '{record.id:.80}' was {what} already, by the response '{record.answered_by}'. It counts once: "
        "continue with that response, or leave the answer out.",
        param=param,
        code="approval_already_used",
    )


def build_expired_approval_error(request_id: str, param: str | None = "input") -> InvalidRequest:
    """Returns the error for an answer to an expired request."""
    return InvalidRequest(
        f"The request for the approval '{request_id:.80}' has expired. Leave the answer out, and let the model make "
        "the call again.",
        param=param,
        code="approval_expired",
    )


def build_unknown_approval_error(request_id: str, param: str | None = "input") -> InvalidRequest:
    """Returns the error for an answer to a request that is unknown, another owner's, or not in the input."""
    return InvalidRequest(
        f"No request for the approval '{request_id:.80}' was found. Send the item 'mcp_approval_request' as it was "
        "received, or the 'previous_response_id' of its response.",
        param=param,
        code="approval_not_found",
    )


def _require_fitting(answer: Item, record: ApprovalRecord, position: int | None) -> None:
    """Raises InvalidRequest for an answer with an action that contradicts it, or with content for an approval."""
    action, place = answer.get("action"), "" if position is None else f"input[{position}]."
    if action is not None and (action == "accept") != answer["approve"]:
        raise InvalidRequest(
            f"The answer has `approve: {str(answer['approve']).lower()}` and the action {action!r}, which contradict.",
            param=f"{place}action",
            code="approval_conflict",
        )
    if answer.get("content") is not None and record.requested_input is None:
        raise InvalidRequest(
            f"'{record.id:.80}' asks for an approval and takes no content: the call is run as the model made it.",
            param=f"{place}content",
        )


def _build_conflict_error(request_id: str, param: str | None) -> InvalidRequest:
    return InvalidRequest(
        f"The input both approves and denies '{request_id:.80}'. Send one answer.",
        param=param,
        code="approval_conflict",
    )


def _read_own_answers(own_items: Sequence[Item]) -> dict[str, tuple[Item, int]]:
    """Returns the first answer to each request, and its position. Raises InvalidRequest if two are not the same."""
    answers: dict[str, tuple[Item, int]] = {}
    for position, item in enumerate(own_items):
        if item["type"] == "mcp_approval_response":
            request_id = item["approval_request_id"]
            answer, _ = answers.setdefault(request_id, (item, position))
            if answer["approve"] != item["approve"]:
                raise _build_conflict_error(request_id, f"input[{position}].approval_request_id")
    return answers


def _find_refusal(
    request_id: str,
    answer: Item,
    param: str | None,
    request: Item | None,
    record: ApprovalRecord | None,
    server_labels: frozenset[str],
) -> InvalidRequest | None:
    """Returns the error for an invalid answer; None if it is valid, or a denial without effect."""
    state = None if record is None else record.state
    if not answer["approve"] and state in ("denied", "expired", "void"):
        return None  # Clients send their denials again with every later history.
    if request is None or (record is None and answer["approve"]):
        return build_unknown_approval_error(request_id, param)
    if record is None or record.state == "void":
        return None
    if record.state in ("used", "denied"):
        return build_used_approval_error(record, param)
    if record.state == "expired":
        return build_expired_approval_error(request_id, param)
    if _differs(request, record):
        return InvalidRequest(
            f"The item '{request_id:.80}' is not as it was sent: its arguments, name or server_label were changed. "
            "Send it as it was received.",
            param=param,
            code="approval_mismatch",
        )
    if answer["approve"] and record.server_label not in server_labels:
        return InvalidRequest(
            f"'tools' has no MCP server with the label '{record.server_label:.80}', which the approved call needs. "
            "Send the tool again.",
            param="tools",
            code="approval_server_missing",
        )
    return None


def _differs(request: Item, record: ApprovalRecord) -> bool:
    """Whether a request that a client sent back differs from its record."""
    named = replace_nul(request["server_label"]), replace_nul(request["name"])
    return (
        named != (record.server_label, record.tool_name)
        or digest_arguments(request["arguments"]) != record.arguments_digest
    )
