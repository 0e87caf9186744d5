"""The MCP servers that a request names, and what the request and the configuration allow of their tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from translation.hosted.policy import is_allowed, needs_approval
from translation.hosted.tools import HostedTool, ToolKey
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

    @property
    def label(self) -> str:
        return self.server.label

    @property
    def rules(self) -> Json:
        """The rules of the request and of the configuration for the tools of the server, as JSON."""
        return {
            "label": self.label,
            "origin": self.server.origin,
            "prefix": self.prefix,
            "allowed_tools": self.allowed_tools,
            "require_approval": self.require_approval,
            "operator_approval": self.operator_approval,
        }

    def build_tools(self, listed: Sequence[Json]) -> list[HostedTool]:
        """Returns the tools of an `mcp_list_tools` item that the request may use."""
        tools: list[HostedTool] = []
        for tool in listed:
            name = tool["name"]
            is_read_only = bool((tool.get("annotations") or {}).get("read_only"))
            if self.allows(name, is_read_only=is_read_only):
                tools.append(
                    HostedTool(
                        key=ToolKey(self.label, name),
                        parameters=tool["input_schema"],
                        description=tool.get("description"),
                        is_read_only=is_read_only,
                        needs_approval=self.needs_approval(name, is_read_only=is_read_only),
                        origin=self.server.origin,
                        prefix=self.prefix,
                        is_repeatable=self.may_repeat(name),
                    )
                )
        return tools

    def may_repeat(self, name: str) -> bool:
        """Whether a call of a tool may be sent again if its outcome is unknown. Only an operator can allow it."""
        return self.operator is not None and self.operator.may_repeat(name)

    def allows(self, name: str, *, is_read_only: bool) -> bool:
        """Whether the request may use a tool. The operator's rules have already been applied to the list."""
        return is_allowed(self.allowed_tools, name, is_read_only=is_read_only)

    def needs_approval(self, name: str, *, is_read_only: bool) -> bool:
        """Whether a call of a tool needs an approval. `is_read_only`: the server declares the tool as read-only."""
        if self.operator is None:
            return needs_approval(self.require_approval, name, is_read_only=is_read_only)
        is_trusted = is_read_only and self.operator.settings.is_trusted
        if needs_approval(self.operator_approval, name, is_read_only=is_trusted):
            return True
        own = self.require_approval
        return own is not None and needs_approval(own, name, is_read_only=is_read_only)


def forces_server(choice: Json, label: str) -> bool:
    """Whether a tool choice demands a call that only tools of this server can meet."""
    if choice["type"] != "allowed_tools":
        return choice.get("server_label") == label
    return choice.get("mode") == "required" and all(tool.get("server_label") == label for tool in choice["tools"])
