"""Reads the requests of calls for input, and sends the input of users."""

from dataclasses import dataclass
from typing import Any, Final, cast

from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    RequestParamsMeta,
)

from gateway.tools.mcp.elicitation.declaration import TAKES_INPUT
from gateway.tools.mcp.errors import McpFault
from translation.hosted.bounds import DEFAULT_SCHEMA_LIMITS, SchemaLimits
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.elicitation.forms import InputForm, RequestedInput, find_form_fault
from translation.hosted.outcomes import ToolOutcome

_NOT_OFFERED: Final = (
    "the tool requests input, which this client did not offer: set `elicitation: true` in the request, which needs the "
    "store"
)


class InputRequired(McpFault):
    """A call did not end, because its server asks for input first. It is a fault if the client cannot answer."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("input_required", _NOT_OFFERED)
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRules:
    """The limits of requests for input by the calls of a response. `takes_input`: the client can answer them.

    One call may ask `max_rounds` times. `max_bytes` limits the size of a request and of its state.
    """

    takes_input: bool = False
    max_rounds: int = 10
    max_bytes: int = 64 * 1024
    schema_limits: SchemaLimits = DEFAULT_SCHEMA_LIMITS

    def build_call_input(self, given: UserInput | None) -> "CallInput":
        """Returns the input of a call after the user's answer `given`, if there was one."""
        return CallInput(self.takes_input, given)

    def build_outcome(self, required: InputRequired, given: UserInput | None) -> ToolOutcome:
        """Returns the outcome of a call that asks for input. `given` is the input that it already got."""
        try:
            return ToolOutcome(requested_input=self._read(required, given))
        except McpFault as fault:
            return fault.as_outcome()

    def _read(self, required: InputRequired, given: UserInput | None) -> RequestedInput:
        if not self.takes_input:
            raise required
        rounds_before = 0 if given is None else given.round
        if rounds_before >= self.max_rounds:
            raise McpFault(
                "input_required", f"the tool asked for input more than {self.max_rounds} times (tools.mcp.input_rounds)"
            )
        requested = _read_requested(required.result, rounds_before + 1)
        if (
            fault := find_form_fault(requested, max_bytes=self.max_bytes, schema_limits=self.schema_limits)
        ) is not None:
            raise McpFault("input_required", f"the tool's request for input is not valid: {fault}")
        return requested


@dataclass(frozen=True, slots=True)
class CallInput:
    """The input of one call: whether its client can be asked for input, and the input that it gave already."""

    takes_input: bool = False
    given: UserInput | None = None

    def build_params(self, name: str, arguments: dict[str, Any]) -> CallToolRequestParams:
        """Returns the parameters of the call."""
        params = CallToolRequestParams(name=name, arguments=arguments)
        if self.takes_input:
            params.meta = cast(RequestParamsMeta, {TAKES_INPUT: True})
        if self.given is not None:
            params.request_state = self.given.state
            params.input_responses = {
                key: ElicitResult.model_validate(response) for key, response in self.given.responses.items()
            }
        return params


NO_INPUT: Final = CallInput()


def _read_requested(result: InputRequiredResult, number: int) -> RequestedInput:
    forms: list[InputForm] = []
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, ElicitRequest):
            raise McpFault("input_required", f"the tool asks for {request.method}, which is refused")
        params = request.params
        if isinstance(params, ElicitRequestURLParams):
            forms.append(InputForm(key=key, message=params.message, url=params.url))
        else:
            forms.append(InputForm(key=key, message=params.message, schema=params.requested_schema))
    return RequestedInput(forms=tuple(forms), state=result.request_state, round=number)
