"""Decides which calls of hosted tools are run, and when the tools are withdrawn so that the model has to answer."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import orjson

from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import INVALID_JSON, HostedCall, describe_unknown_tool, is_json_object
from translation.hosted.loop.repetitions import RepetitionCounter
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_skip
from translation.hosted.tools import ToolCatalogue
from translation.representation.json_types import Json
from translation.tools.call_validator import CallValidator

_TOO_LARGE: Final = "result_too_large: the tool was run, but the results of this response have more than {}"

_NOT_CHOSEN: Final = "Tool call skipped: the tool_choice of the request does not allow it"


class CallChecks:
    """Checks and counts the calls of one response."""

    def __init__(self, catalogue: ToolCatalogue, bounds: LoopBounds) -> None:
        self.max_argument_bytes = bounds.argument_bytes
        """The longest arguments of a call."""
        self.runs_with_client_calls = bounds.runs_with_client_calls
        """Whether calls are run although the reply ends with their round."""
        self._bounds = bounds
        self._catalogue = catalogue
        self._validator: CallValidator | None = None
        """Made for the first call, since most responses have none."""
        self.is_late = False
        """Whether the time of the loop is over."""
        self.allowed_names: frozenset[str] | None = None
        """The names of the tools that the tool choice of the round allows; None if it allows all."""
        self._result_bytes = 0
        self._call_count = 0
        self._request_count = 0
        """The number of calls that wait for an approval."""
        self._error_count = 0
        """The number of calls that failed since the last success."""
        self._repetitions = RepetitionCounter(bounds.identical_calls)

    def settle_unless_runnable(self, call: HostedCall, *, withdrawal: str | None = None) -> None:
        """Gives a call that is not to be run its outcome: the model reads why.

        `withdrawal` is the reason why the model was not offered the hosted tools in this round; None if it was.
        """
        fault = self._find_defect(call) or withdrawal or self._find_exclusion(call) or self._find_exceeded(call)
        if fault is None:
            self._call_count += 1
            return
        self._error_count += 1
        call.outcome = build_skip(fault)

    def limit_outcome(self, outcome: ToolOutcome) -> ToolOutcome:
        """Returns the outcome of a call that was run.

        It becomes an error if all results together would be too large, or if the call requests too much from the
        client.
        """
        if outcome.requested_input is not None:
            if self._request_count >= self._bounds.open_approvals:
                return build_execution_error(f"input_required: {self._request_limit_text}")
            self._request_count += 1
        size = len(orjson.dumps([outcome.output, outcome.error, [*outcome.media]]))
        limit = self._bounds.total_result_bytes
        if self._result_bytes + size > limit:
            limit_mb = limit / (1024 * 1024)
            too_large = build_execution_error(_TOO_LARGE.format(f"{limit_mb:g} MiB (tools.mcp.total_result_mb)"))
            return replace(too_large, elapsed_ms=outcome.elapsed_ms, notes=(*outcome.notes, "cut"))
        self._result_bytes += size
        return outcome

    def count_outcome(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Counts the outcome of a call that was run, and adds a note for the model to the call if one is due."""
        self._error_count = self._error_count + 1 if outcome.failed else 0
        call.model_note = self._repetitions.end_call(call, outcome)

    def find_withdrawal(self, round_number: int) -> str | None:
        """Returns why the hosted tools are not offered in a round, which counts from 1; None if they are."""
        bounds = self._bounds
        if round_number > bounds.rounds:
            return f"Tool call skipped: limit of {bounds.rounds} rounds reached"
        if self.is_late:
            return f"Tool call skipped: limit of {bounds.seconds:g} s reached"
        if self._call_count >= bounds.calls:
            return self._call_limit_text
        if self._error_count >= bounds.errors_in_a_row:
            return f"Tool call skipped: {self._error_count} calls in a row failed"
        if self._repetitions.is_exceeded:
            return "Tool call skipped: the same call was made too often"
        return None

    def save(self) -> Json:
        """Returns the counts as JSON."""
        return {
            "calls": self._call_count,
            "errors": self._error_count,
            "bytes": self._result_bytes,
            "repetitions": self._repetitions.save(),
        }

    def restore(self, saved: Json, running: Iterable[HostedCall]) -> None:
        """Restores the counts that `save` returned. `running` are the calls that have not ended."""
        self._call_count, self._error_count, self._result_bytes = saved["calls"], saved["errors"], saved["bytes"]
        self._repetitions.restore(saved["repetitions"], running)

    @property
    def _call_limit_text(self) -> str:
        return f"Tool call skipped: limit of {self._bounds.calls} calls reached"

    @property
    def _request_limit_text(self) -> str:
        return f"limit of {self._bounds.open_approvals} open approvals reached"

    def _find_defect(self, call: HostedCall) -> str | None:
        if call.tool is None:
            return describe_unknown_tool(call.model_name)
        if not is_json_object(call.arguments):
            return INVALID_JSON
        if not call.tool.checks_arguments:
            return None
        if self._validator is None:
            self._validator = CallValidator(self._catalogue.all_functions, self._bounds.argument_bytes)
        if (fault := self._validator.fault_of(call.model_name, call.arguments)) is not None:
            return f"The call was not run: {fault}"
        return None

    def _find_exclusion(self, call: HostedCall) -> str | None:
        # Some upstreams ignore the choice, and some models call what they were not offered.
        is_allowed = self.allowed_names is None or call.model_name in self.allowed_names
        return None if is_allowed else _NOT_CHOSEN

    def _find_exceeded(self, call: HostedCall) -> str | None:
        if self._call_count >= self._bounds.calls:
            return self._call_limit_text
        if call.needs_approval:
            if self._request_count >= self._bounds.open_approvals:
                return f"Tool call skipped: {self._request_limit_text}"
            self._request_count += 1
            return None
        return self._repetitions.begin_call(call)
