"""Faults between the gateway and an MCP server."""

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from dataplane.sharing.descriptors import is_lack_of_descriptors
from gateway.tools.executors.executor import ToolFault
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_http_error, build_protocol_error

FaultKind: TypeAlias = Literal[
    "authorization_expired",
    "authorization_failed",
    "connection_closed",
    "credentials_unavailable",
    "egress_refused",
    "http_error",
    "input_required",
    "invalid_result",
    "list_too_long",
    "protocol_error",
    "result_too_large",
    "server_removed",
    "session_lost",
    "timeout",
    "too_many_sessions",
]

TOO_LARGE: Final = "result_too_large"

_CODES: Final = {"connection_closed": -32000, "timeout": -32001, "session_lost": -32600}
"""Codes of faults that have none from the server. The official libraries use the same codes."""


_FAULTS_OF_RESULTS: Final = (
    "authorization_failed",
    "credentials_unavailable",
    "egress_refused",
    "input_required",
    "invalid_result",
    TOO_LARGE,
    "server_removed",
    "too_many_sessions",
)
"""Faults that are neither HTTP errors nor protocol errors."""


SESSION_LOST: Final = "the server ended the session; the outcome of the call is unknown, and it was not repeated"


NOT_THE_PROTOCOL: Final = "the server's answer does not follow the protocol"


def describe_unreachable(error: Exception, server: str = "server") -> str:
    """Returns the message for a server to which no connection could be opened."""
    if is_lack_of_descriptors(error):
        return f"the gateway has no free file descriptor for a connection to the {server}: try again later"
    return f"the {server} cannot be reached"


def describe_too_large(max_bytes: int) -> str:
    """Returns the message for an answer of more than `max_bytes` bytes."""
    return f"the server's answer is larger than {max_bytes / (1024 * 1024):g} MiB (tools.mcp.max_result_mb)"


INPUT_DECLINED: Final = (
    "input_declined: the tool asked for more input while the call was open, in an older revision of the protocol. The "
    "gateway cannot wait for it."
)


class McpFault(ToolFault):
    """A request to an MCP server has no result. `code` is the server's JSON-RPC code, or its HTTP status.

    `beginning` is the beginning of the text of a result that is too large.
    """

    def __init__(self, kind: FaultKind, message: str, *, code: int | None = None, beginning: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.has_declined_input = False
        """Whether the server asked for input before, which was declined."""
        self.beginning = beginning
        self.code = _CODES.get(kind, -32603) if code is None else code

    def as_outcome(self) -> ToolOutcome:
        """Returns the outcome of a call that ended in this fault, in one of the three forms of the API."""
        message = f"{self}; {INPUT_DECLINED}" if self.has_declined_input else str(self)
        return replace(self._describe(message), has_declined_input=self.has_declined_input)

    def _describe(self, message: str) -> ToolOutcome:
        if self.kind == "http_error":
            return build_http_error(self.code, message)
        if self.kind in _FAULTS_OF_RESULTS:
            cut = f"\n[The beginning of the result, which was cut:]\n{self.beginning}" if self.beginning else ""
            return build_execution_error(f"{self.kind}: {message}{cut}")
        text = f"{self.kind}: {message}" if self.kind == "timeout" else message
        return build_protocol_error(self.code, text)
