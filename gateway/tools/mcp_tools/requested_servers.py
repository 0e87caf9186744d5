"""The MCP servers that a request names, and what the request and the configuration allow of their tools."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from translation.hosted.policy import is_allowed, needs_approval
from translation.representation.json_types import Json

if TYPE_CHECKING:
    from gateway.tools.mcp.operator_server import OperatorServer
    from gateway.tools.mcp.server import McpServer


@dataclass(frozen=True, slots=True)
class RequestedServer:
    """An MCP server of a request, and the request's rules for its tools. `position` is its index in `tools`.

    `operator` is set for a server of the configuration. The request then has no address for it, and its `allowed_tools`
    and `require_approval` only narrow what the operator allows. `operator_approval` is the operator's
    `require_approval`. `is_added`: the model's configuration names the server, and the request does not.
    """

    server: "McpServer"
    position: int
    allowed_tools: Any
    require_approval: Any
    operator: "OperatorServer | None" = None
    operator_approval: Any = None
    prefix: str | None = None
    is_added: bool = False
    is_deferred: bool = False
    """Whether the model sees its tools only once a search has loaded them, if there is such a search."""
    list_secrets: Callable[[], Sequence[str]] = tuple
    """Returns the operator's current credentials for the server."""

    @property
    def label(self) -> str:
        return self.server.label

    @property
    def identity(self) -> Json:
        """What its tools are built from besides their list, as JSON."""
        return {"label": self.label, "origin": self.server.origin, "deferred": self.is_deferred}

    @property
    def approval_rule(self) -> Json:
        """The rules of the request and of the configuration for approvals, as JSON."""
        return {"require_approval": self.require_approval, "operator_approval": self.operator_approval}

    def may_repeat(self, name: str) -> bool:
        """Whether a call of a tool may be sent again if its outcome is unknown. Only an operator can allow it."""
        return self.operator is not None and self.operator.may_repeat(name)

    def allows(self, name: str, is_read_only: bool) -> bool:
        """Whether the request may use a tool. The operator's rules have already been applied to the list."""
        return is_allowed(self.allowed_tools, name, is_read_only=is_read_only)

    def needs_approval(self, name: str, is_read_only: bool) -> bool:
        """Whether a call of a tool needs an approval. `is_read_only`: the server declares the tool as read-only."""
        if self.operator is None:
            return needs_approval(self.require_approval, name, is_read_only=is_read_only)
        is_trusted = is_read_only and self.operator.settings.is_trusted
        if needs_approval(self.operator_approval, name, is_read_only=is_trusted):
            return True
        own = self.require_approval
        return own is not None and needs_approval(own, name, is_read_only=is_read_only)
