"""Approvals of calls: what the answers in an input are worth, by the records of the requests that they answer.

A client can write every item itself. So an answer approves a call only if a record of the gateway's own says that the
call was put to this client, that nobody has answered yet, and that arguments and tool are still the same. The same
holds for input that a call asked for: such a request is an item of the same type, and has a record in the same table.
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

Standing: TypeAlias = Literal["pending", "used", "expired", "void"]
"""Why a call is not run now that is not plainly denied. `pending`: others of the same reply were answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """One request for an approval, or for input. It has digests only: the call is in the input that answers it.

    `response_id` is the response that made the request, `answered_by` the one whose input answered it. `origin` is
    where the server is, without path and query. `expires_us` is in epoch microseconds. `requested_input` is what a call
    needs before it goes on; None for an approval. It is stored as `sealed_input`.
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
    """A call that the reply asks an approval for, or the `requested_input`: the item that the client gets, its index,
    and the tool.

    The item is sent when the request `is_stored`.
    """

    item: Item
    index: int
    tool: HostedTool
    requested_input: RequestedInput | None = None
    is_stored: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalAnswers:
    """The answers of one request that count. They are stored when its response begins.

    `approved` has the digest of the definition by which each call was put to the client, `standings` why others of the
    input are not run. `inputs` is what the user gave, or refused to give, to those of `approved` that asked for input.
    All are keyed by the id of the request.
    """

    approved: Mapping[str, str] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)
    inputs: Mapping[str, UserInput] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be stored."""
        return not (self.approved or self.denied)

    def find_changed(self, tools: Mapping[str, HostedTool | None]) -> list[str]:
        """Returns the approvals whose tool is another one now. `tools` are the tools now, by the id of the approval.

        A tool that is gone has not changed: its call fails by its name.
        """
        return [
            request_id
            for request_id, digest in self.approved.items()
            if (tool := tools.get(request_id)) is not None and tool.definition_digest != digest
        ]

    def to_json(self) -> Json:
        """Returns what a job needs of them, as JSON."""
        inputs = {request_id: given.to_json() for request_id, given in self.inputs.items()}
        return {"approved": dict(self.approved), "standings": dict(self.standings), "inputs": inputs}

    @classmethod
    def from_json(cls, fields: Json) -> "ApprovalAnswers":
        """Returns the answers that `to_json` was called on, without those that denied."""
        inputs = {request_id: UserInput.from_json(given) for request_id, given in fields.get("inputs", {}).items()}
        return cls(fields["approved"], (), fields["standings"], inputs)


NO_ANSWERS: Final = ApprovalAnswers()


def recorded_text(text: str) -> str:
    """Returns a text as a record has it: PostgreSQL's text cannot hold NUL."""
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
    """Returns the answers of an input that count. `items` is all that the model reads, the history included.

    `own_items` are those of the request itself, in the order of its `input`: a wrong answer among them raises
    InvalidRequest. One in the history is left out, since the client can no longer change it. An answer is past if the
    call is in the input too. `records` are those of `list_request_ids(items)` that there are; `server_labels` are the
    servers of the request.
    """
    requests = {item["id"]: item for item in items if item["type"] == "mcp_approval_request" and item.get("id")}
    past = {item.get("approval_request_id") for item in items if item["type"] == "mcp_call"}
    first = {item["approval_request_id"]: item for item in reversed(items) if item["type"] == "mcp_approval_response"}
    own = _read_own_answers(own_items)
    labels = frozenset(map(recorded_text, server_labels))
    approved: dict[str, str] = {}
    denied: list[str] = []
    inputs: dict[str, UserInput] = {}
    for request_id in reversed(first):
        if request_id in past:
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
                raise _conflict_error(request_id, param)
            if record.requested_input is not None and (answer["approve"] or record.server_label in labels):
                approved[request_id] = record.definition_digest
                inputs[request_id] = read_input_answer(answer, record.requested_input, position)
            elif answer["approve"]:
                approved[request_id] = record.definition_digest
            else:
                denied.append(request_id)
    answered = {records[request_id].response_id for request_id in [*approved, *denied]}
    standings: dict[str, Standing] = {}
    for request_id in requests.keys() - past - approved.keys() - {*denied}:
        if (found := records.get(request_id)) is None or found.state == "denied":
            continue
        if found.state != "open":
            standings[request_id] = found.state
        elif request_id not in first and found.response_id in answered:
            standings[request_id] = "pending"
    return ApprovalAnswers(approved, tuple(denied), standings, inputs)


def read_input_answer(answer: Item, requested: RequestedInput, position: int | None = None) -> UserInput:
    """Returns what an answer gives to a call that asked for input. `position` is that of the answer in the input.

    Raises InvalidRequest for content that the form does not take.
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


def used_approval_error(record: ApprovalRecord, param: str | None = "input") -> InvalidRequest:
    """Returns the error for an answer to a request that was answered before."""
    what = "denied" if record.state == "denied" else "used"
    return InvalidRequest(
        f"The approval '{record.id:.80}' was {what} already, by the response '{record.answered_by}'. It counts once: "
        "continue with that response, or leave the answer out.",
        param=param,
        code="approval_already_used",
    )


def expired_approval_error(request_id: str, param: str | None = "input") -> InvalidRequest:
    """Returns the error for an answer that comes too late."""
    return InvalidRequest(
        f"The request for the approval '{request_id:.80}' has expired. Leave the answer out, and let the model make "
        "the call again.",
        param=param,
        code="approval_expired",
    )


def unknown_approval_error(request_id: str, param: str | None = "input") -> InvalidRequest:
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


def _conflict_error(request_id: str, param: str | None) -> InvalidRequest:
    return InvalidRequest(
        f"The input both approves and denies '{request_id:.80}'. Send one answer.",
        param=param,
        code="approval_conflict",
    )


def _read_own_answers(own_items: Sequence[Item]) -> dict[str, tuple[Item, int | None]]:
    """Returns the first answer to each request, and its position. Raises InvalidRequest if two are not the same."""
    answers: dict[str, tuple[Item, int | None]] = {}
    for position, item in enumerate(own_items):
        if item["type"] == "mcp_approval_response":
            request_id = item["approval_request_id"]
            answer, _ = answers.setdefault(request_id, (item, position))
            if answer["approve"] != item["approve"]:
                raise _conflict_error(request_id, f"input[{position}].approval_request_id")
    return answers


def _find_refusal(
    request_id: str,
    answer: Item,
    param: str | None,
    request: Item | None,
    record: ApprovalRecord | None,
    server_labels: frozenset[str],
) -> InvalidRequest | None:
    """Returns what is wrong with an answer; None if it counts, or has no effect and does no harm."""
    state = None if record is None else record.state
    if not answer["approve"] and state in ("denied", "expired", "void"):
        return None  # A history that a client keeps has its denials for ever.
    if request is None or (record is None and answer["approve"]):
        return unknown_approval_error(request_id, param)
    if record is None or record.state == "void":
        return None
    if record.state in ("used", "denied"):
        return used_approval_error(record, param)
    if record.state == "expired":
        return expired_approval_error(request_id, param)
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
    """Whether a request that a client sent back is another call than the one in the record."""
    named = recorded_text(request["server_label"]), recorded_text(request["name"])
    return (
        named != (record.server_label, record.tool_name)
        or digest_arguments(request["arguments"]) != record.arguments_digest
    )
