"""Builds the last event of a run: that it finished, was interrupted, was stopped or failed, and its usage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from translation.agui.client_messages import ClientMessages
from translation.agui.run import RunHead, is_empty_state
from translation.agui.tool_items import require_call
from translation.representation.events import Failed, Finished, FinishReason, Usage
from translation.representation.json_types import Item, Json
from translation.representation.loss import LOSSES, render_reply_losses

CANCELLED: Final = "cancelled"
"""The code of a Failed event that stands for a run that was stopped."""

_INCOMPLETE_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}

_APPROVAL_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The schema of the payload that answers an interrupt for an approval, or for an address that the user has to open."""


class RunEnd:
    """The data of the last event of a run. It grows during the run.

    `requests` are the requests for approvals and input that remain open. `problems` describes invalid answers to them.
    `expiry_of` returns the time at which a request expires, as text in the format of ISO 8601, or None.
    """

    def __init__(
        self,
        head: RunHead,
        *,
        model: str,
        expiry_of: Callable[[Item], str | None],
        requests: Iterable[Item] = (),
        problems: Mapping[str, str] | None = None,
    ) -> None:
        self.usage: Usage | None = None
        self.reason: FinishReason = "stop"
        self.unknown_reason: str | None = None
        self.explanation: str | None = None
        """The upstream's own words on why it cut the reply off."""
        self.lacks: Sequence[str] = ()
        """What the client does not get of the reply, by the names that losses have for it."""
        self.limit: str | None = None
        """The limit of the gateway that ended the run, as text."""
        self.pending_ids: list[str] = []
        """The calls that the client has to run."""
        self.requests = list(requests)
        self.client_messages: Final = ClientMessages(head.sent)
        """The messages that the client has."""
        self._head = head
        self._model = model
        self._expiry_of = expiry_of
        self._problems = problems or {}

    def finish(self, event: Finished) -> None:
        """Records the end of the reply."""
        self.usage = event.usage or self.usage
        self.reason, self.unknown_reason = event.reason, event.unknown_reason
        self.lacks, self.explanation = event.lacks, event.explanation
        details = (event.response or {}).get("incomplete_details") if event.reason == "length" else None
        message = details.get("message") if isinstance(details, dict) else None
        self.limit = message if isinstance(message, str) else None

    def build_error(self, failed: Failed) -> Sequence[Json]:
        """Returns the end of a run that failed or was stopped. Clients of 0.0.x know no run that was stopped."""
        if failed.code == CANCELLED and self._head.is_versioned:
            return [self._finished() | {"outcome": {"type": "cancelled"}} | self._build_usage()]
        return [{"type": "RUN_ERROR", "message": failed.message, "code": failed.code} | self._build_usage()]

    def build_finish(self) -> Sequence[Json]:
        """Returns the end of a run that did not fail.

        Before an interrupt come the events that its client needs to restore it: the state, and for clients of 1.x the
        messages.
        """
        events: list[Json] = []
        finished = self._finished()
        if self.requests:
            events += self.build_state()
            if self._head.is_versioned and (snapshot := self.client_messages.build_snapshot()) is not None:
                events.append(snapshot)
            interrupts = [self._build_interrupt(request) for request in self.requests]
            finished["outcome"] = {"type": "interrupt", "interrupts": interrupts}
        elif self.limit and self._head.is_versioned:
            finished["outcome"] = {"type": "cancelled"}
        elif self._head.is_versioned:
            # Clients of 0.0.x refuse a success with further members, and some refuse an outcome altogether.
            pending = {"pendingToolCallIds": self.pending_ids} if self.pending_ids else {}
            finished["outcome"] = {"type": "success", **pending}
        if (reason := _INCOMPLETE_REASONS.get(self.reason)) is not None:
            message = self.limit or self.explanation
            details = {"reason": reason} | ({"message": message} if message else {})
            if self.unknown_reason is not None:
                details["nativeFinishReason"] = self.unknown_reason
            finished["result"] = {"status": "incomplete", "incompleteDetails": details}
        elif self.unknown_reason is not None:
            finished["result"] = {"status": "completed", "nativeFinishReason": self.unknown_reason}
        if self.lacks:
            finished["result"] = {"status": "completed"} | finished.get("result", {})
            finished["result"][LOSSES] = render_reply_losses(self.lacks)
        return [*events, finished | self._build_usage()]

    def build_state(self) -> Sequence[Json]:
        """Returns the event with the state of the run, if it has one."""
        state = self._head.state
        return () if is_empty_state(state) else ({"type": "STATE_SNAPSHOT", "snapshot": state},)

    def _finished(self) -> Json:
        return {"type": "RUN_FINISHED", "threadId": self._head.thread_id, "runId": self._head.run_id}

    def _build_interrupt(self, request: Item) -> Json:
        call = require_call(request)
        interrupt: Json = {
            "id": request["id"],
            "reason": "tool_call",
            "message": f"Allow the call of {call.name}?",
            "toolCallId": call.call_id,
            "responseSchema": _APPROVAL_SCHEMA,
        }
        if (question := request.get("elicitation")) is not None:
            interrupt |= {"reason": "input_required", "message": question["message"]}
            interrupt["responseSchema"] = question.get("requested_schema") or _APPROVAL_SCHEMA
            facts = {key: question[key] for key in ("mode", "url", "host") if key in question}
            if (problem := self._problems.get(request["id"])) is not None:
                facts["problem"] = problem
            interrupt["metadata"] = facts
        # A client of 0.0.x cannot leave a thread whose interrupt has expired: it refuses every further run.
        if self._head.is_versioned and (expiry := self._expiry_of(request)) is not None:
            interrupt["expiresAt"] = expiry
        return interrupt

    def _build_usage(self) -> Json:
        usage = self.usage
        if usage is None:
            return {}
        has_total = usage.input is not None and usage.output is not None
        counts = {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "totalTokens": (usage.input or 0) + (usage.output or 0) if has_total else None,
            "reasoningTokens": usage.reasoning,
            "cachedInputTokens": usage.cache_read,
            # Clients of 0.0.x do not know this count.
            "cacheWriteInputTokens": usage.cache_write if self._head.is_versioned else None,
        }
        known = {key: count for key, count in counts.items() if count is not None}
        return {"usage": [{"model": self._model, **known}]}
