"""Relays a JSON reply of a Responses upstream, as JSON or as a stream. The relay of streams uses its parts for the
response in an event."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeGuard

from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, FinishReason
from translation.representation.item_seal import ItemSeal
from translation.representation.items import CALL_TYPES, NewId
from translation.representation.json_types import Item, Json
from translation.representation.loss import LOSSES, MISSING_INCLUDED_LOGPROBS, render_reply_losses
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses import usage
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.item_forms import complete_item, complete_items, complete_part, rewrite_each
from translation.responses.relaying.calls import RelayedCalls
from translation.responses.summaries import rewrite_output
from translation.responses.upstream.decode import ResponsesDecoder, read_incomplete_reason
from translation.responses.upstream.response_failures import failure_in
from translation.tools.credentials import remove_credentials

TERMINAL_STATUSES: Final = ("completed", "incomplete", "failed", "cancelled")
"""The statuses of responses that have ended."""

_STORE_KEYS = ("id", "created_at", "store", "background", "previous_response_id", "conversation", "metadata")
"""Keys of a response whose values belong to the server that stores it."""

_UNFINISHED_FIELDS: Json = {
    "status": "in_progress",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
}
"""Fields of a response that has no output yet."""


class OwnResponse(NamedTuple):
    """The gateway's part of a relayed response."""

    model: str | None
    """The model's name that the client knows; None keeps the upstream's."""
    initial: Json
    """The object from `new_response`."""
    is_stored: bool = False
    """Whether the gateway stores the response. Then its id, time and state are those of `initial`."""


KEEPS_UPSTREAM: Final = OwnResponse(None, {})
"""A response of which the gateway has no part."""


def relay_response(
    body: Json,
    own: OwnResponse = KEEPS_UPSTREAM,
    *,
    seal: ItemSeal | None = None,
    calls: CallRules = DEFAULT_RULES,
    summarizes_reasoning: bool = False,
    wants_logprobs: bool = False,
) -> Json:
    """Returns a whole response of the upstream as the client gets it.

    Its items are sealed by `seal`, and its calls are normalized by `calls`, with `tool_warnings` as on a stream. With
    `summarizes_reasoning` readable reasoning becomes a summary, and with `wants_logprobs` texts without log
    probabilities are reported as a loss. The caller must first check with `failure_of_response` that the response
    did not fail. Its items get the members that they lack. Raises ProtocolViolation for a body that is not a
    response, and for a response to store that is not complete or has an item that cannot be read.
    """
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        raise ProtocolViolation("the upstream's reply is not a response")
    fields = build_own_fields(own)
    if (counts := usage.fill_counts(body.get("usage"))) is not body.get("usage"):
        fields["usage"] = counts
    relayed_calls = RelayedCalls(calls)
    output = rewrite_output(body["output"]) if summarizes_reasoning else body["output"]
    output = relayed_calls.rewrite_output(output)
    output = complete_output(output) if own.is_stored else complete_known_items(output)
    if (output := seal_output(output, seal)) is not body["output"]:
        fields["output"] = output
    if (tools := remove_credentials(body.get("tools"))) is not body.get("tools"):
        fields["tools"] = tools
    if relayed_calls.warnings:
        fields[TOOL_WARNINGS] = relayed_calls.warnings
    if wants_logprobs and _lacks_logprobs(body["output"]):
        fields[LOSSES] = render_reply_losses((MISSING_INCLUDED_LOGPROBS,))
    if own.is_stored:
        status = body.get("status") or "completed"
        if status not in TERMINAL_STATUSES:
            raise ProtocolViolation("the upstream's response is not complete")
        fields["status"] = status
        if not isinstance(body.get("usage"), dict):
            fields["usage"] = None
    return body | fields if fields else body


def complete_output(output: Any) -> list[Item]:
    """Returns the items of a response to store in the form that later turns read, the same list if they have it.

    Raises ProtocolViolation for items of another form, and for a value that is no list.
    """
    if not isinstance(output, list):
        raise ProtocolViolation("the upstream's reply is not a response")
    try:
        return complete_items(output)
    except TypeError as error:
        raise ProtocolViolation(f"the upstream's response has an item that cannot be read: {error}") from error


def complete_known_items(output: Any) -> Any:
    """Returns the items of a response that nobody stores, each as `complete_known_item` returns it, the same list if
    they lack nothing."""
    return rewrite_each(output, complete_known_item) if isinstance(output, list) else output


def complete_known_item(item: Any) -> Any:
    """Returns an item with the lists and texts that it lacks. One of another form is returned as it came: only the
    client can tell whether it is of use."""
    try:
        return complete_item(item)
    except TypeError:
        return item


def complete_known_part(part: Any) -> Any:
    """Returns a part of a message with what it lacks, and any other value as it came."""
    try:
        return complete_part("message", part)
    except TypeError:
        return part


def _lacks_logprobs(output: list[Any]) -> bool:
    """Returns whether there is text, and none of it has log probabilities."""
    contents = [item.get("content") for item in output if isinstance(item, dict) and item.get("type") == "message"]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return any(part.get("text") for part in parts) and not any(part.get("logprobs") for part in parts)


def has_items(output: object) -> bool:
    return isinstance(output, list) and all(map(is_item, output))


def seal_output(output: list[Any], seal: ItemSeal | None) -> list[Any]:
    """Returns the items of a whole response as the client gets them, the same list if nothing has to be sealed."""
    if seal is None or not isinstance(output, list):
        return output
    return rewrite_each(output, lambda item: seal.seal_done_item(item) if is_item(item) else item)


def failure_of_response(body: Json) -> Failed | None:
    """Returns the failure of a whole response, with the upstream's message; None if it did not fail."""
    if body.get("object") != "response" or body.get("status") not in ("failed", "cancelled"):
        return None
    default_message = "the upstream cancelled the response" if body["status"] == "cancelled" else None
    return failure_in(body.get("error") or default_message, body)


def build_own_fields(own: OwnResponse) -> Json:
    """Returns the fields that replace those of the upstream.

    They are the state of a stored response, and `truncation: auto`, because the gateway may do that itself.
    """
    initial = own.initial
    fields = {key: initial[key] for key in _STORE_KEYS if key in initial} if own.is_stored else {}
    if initial.get("truncation") == "auto":
        fields["truncation"] = "auto"
    return fields if own.model is None else {**fields, "model": own.model}


def is_item(item: object) -> TypeGuard[Item]:
    """Returns whether a value has the form of an item, so that it can be stored and sent again."""
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def scrub_failure(response: Json, scrub: Callable[[str], str]) -> Failed:
    """Returns the failure of a response, with the upstream's message redacted, also in `response`.

    If the upstream refused the gateway's key, the error in `response` becomes a plain `server_error`.
    """
    error = response.get("error")
    failed = failure_in(error, response)
    failed.redact(scrub)
    if failed.code == "upstream_unauthorized":
        response["error"] = {"code": "server_error", "message": failed.message}
    elif isinstance(error, dict):
        response["error"] = {**_scrub_texts(error, scrub), "message": failed.message}
    return failed


def _scrub_texts(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _scrub_texts(inner, scrub) for key, inner in value.items()}
    if isinstance(value, list):
        return [_scrub_texts(inner, scrub) for inner in value]
    return scrub(value) if isinstance(value, str) else value


def build_response_stream(response: Json, new_id: NewId) -> bytes:
    """Returns the frames of a stream that produces `response` and ends with it, for upstreams that reply with JSON
    although a stream was requested.

    Raises ProtocolViolation if `response` is not a response object.
    """
    events = ResponsesDecoder(new_id, DEFAULT_PROFILE).feed(response)
    completed_at: int = response.get("completed_at") or response.get("created_at") or 0
    encoder = ResponsesEncoder({**response, **_UNFINISHED_FIELDS}, clock=lambda: completed_at)
    return encoder.feed(events) + encoder.conclude()


def is_response_filtered(response: Json) -> bool:
    """Returns whether a content filter ended a response before it had content."""
    details = response.get("incomplete_details")
    if not isinstance(details, dict) or details.get("reason") != "content_filter":
        return False
    return all(isinstance(item, dict) and _is_empty_message(item) for item in response["output"])


def read_response_reason(response: Json) -> FinishReason | None:
    """Returns why a relayed response ended; None if it failed."""
    match response.get("status"):
        case "incomplete":
            details = response.get("incomplete_details")
            return read_incomplete_reason(details.get("reason") if isinstance(details, dict) else None)
        case "completed":
            output = response["output"]
            called = isinstance(output, list) and any(is_item(item) and item["type"] in CALL_TYPES for item in output)
            return "tool_calls" if called else "stop"
    return None


def _is_empty_message(item: Item) -> bool:
    return item.get("type") == "message" and not item.get("content")
