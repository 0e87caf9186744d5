"""Decides which calls of hosted tools are run, and when the tools are withdrawn so that the model has to answer."""

from collections import Counter
from typing import Final

from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import INVALID_JSON, HostedCall, is_json_object, unknown_tool_error
from translation.hosted.outcomes import execution_error
from translation.hosted.tools import ToolCatalogue, ToolKey
from translation.tools.call_validator import CallValidator

_REPETITION_HINT: Final = (
    "This call was not run: the same call with the same arguments was made {count} times already. "
    "Use its result, or do something else."
)


class CallChecks:
    """Checks and counts the calls of one response."""

    def __init__(self, catalogue: ToolCatalogue, bounds: LoopBounds) -> None:
        self.max_argument_bytes = bounds.argument_bytes
        """The longest arguments of a call."""
        self._bounds = bounds
        self._validator = CallValidator(catalogue.functions(), bounds.argument_bytes)
        self._call_count = 0
        self._error_count = 0
        """How many calls failed since the last one that did not."""
        self._made: Counter[tuple[ToolKey, str]] = Counter()

    def settle_unless_runnable(self, call: HostedCall, *, withdrawal: str | None = None) -> None:
        """Gives a call that is not to be run its outcome: the model reads why.

        `withdrawal` is the reason why the model was not offered the hosted tools in this round; None if it was.
        """
        fault = self._find_defect(call) or withdrawal or self._find_exceeded(call)
        if fault is None:
            self._call_count += 1
            return
        self._error_count += 1
        call.outcome = execution_error(fault)

    def count_outcome(self, *, failed: bool) -> None:
        """Counts the outcome of a call that was run."""
        self._error_count = self._error_count + 1 if failed else 0

    def find_withdrawal(self, round_number: int) -> str | None:
        """Returns why the hosted tools are not offered in a round, which counts from 1; None if they are."""
        bounds = self._bounds
        if round_number > bounds.rounds:
            return f"Tool call skipped: limit of {bounds.rounds} rounds reached"
        if self._call_count >= bounds.calls:
            return self._call_limit_text
        if self._error_count >= bounds.errors_in_a_row:
            return f"Tool call skipped: {self._error_count} calls in a row failed"
        if any(count >= bounds.identical_calls for count in self._made.values()):
            return "Tool call skipped: the same call was made too often"
        return None

    @property
    def _call_limit_text(self) -> str:
        return f"Tool call skipped: limit of {self._bounds.calls} calls reached"

    def _find_defect(self, call: HostedCall) -> str | None:
        if call.tool is None:
            return unknown_tool_error(call.model_name)
        if not is_json_object(call.arguments):
            return INVALID_JSON
        if (fault := self._validator.fault_of(call.model_name, call.arguments)) is not None:
            return f"The call was not run: {fault}"
        return None

    def _find_exceeded(self, call: HostedCall) -> str | None:
        if self._call_count >= self._bounds.calls:
            return self._call_limit_text
        self._made[call.fingerprint] += 1
        if (made := self._made[call.fingerprint]) >= self._bounds.identical_calls:
            return _REPETITION_HINT.format(count=made - 1)
        return None
