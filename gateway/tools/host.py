"""The tools that the gateway can run, and which tools of a request it does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from providers.base import Exchange
from providers.egress import EgressClient
from providers.redaction import Redactor
from translation.errors import InvalidRequest
from translation.hosted.policy import may_need_approval
from translation.representation.json_types import Json
from translation.representation.turn import Turn
from translation.tools.credentials import list_credentials

if TYPE_CHECKING:
    from gateway.mcp.connection import McpServer

_SECRET_HEADER: Final = "authorization"


@dataclass(frozen=True, slots=True)
class RequestedServer:
    """An MCP server that a request names, and what the request says of its tools. `position` is that in `tools`."""

    server: "McpServer"
    position: int
    allowed_tools: Any
    require_approval: Any

    @property
    def label(self) -> str:
        return self.server.label


def build_egress(settings: EgressSettings) -> EgressClient:
    """Returns the guard of all connections to addresses that requests name."""
    return EgressClient(
        allow=settings.allow, max_bytes=int(settings.max_mb * 1024 * 1024), deadline_s=settings.deadline_s
    )


class ToolHost:
    """Runs the hosted tools of requests. There is one per configuration."""

    def __init__(self, settings: McpSettings, egress: EgressClient) -> None:
        self.settings: Final = settings
        self.egress: Final = egress

    def runs(self, tool: Json) -> bool:
        """Whether the gateway runs this tool: an MCP server that a request names, and whose calls need no approval."""
        return (
            tool.get("type") == "mcp"
            and self.settings.request_servers == "public"
            and bool(tool.get("server_url"))
            and not may_need_approval(tool.get("require_approval"))
        )

    def make_exchange(
        self,
        turn: Turn,
        make_round: Callable[[Turn], Exchange],
        *,
        max_tool_calls: int | None,
        sees_images: bool,
    ) -> Exchange:
        """Returns the exchange that runs the turn with its hosted tools. `make_round` makes the exchange of one round.

        `max_tool_calls` is that of the request. Raises InvalidRequest for servers that cannot be named so.
        """
        # Imported here, because the library is large and most processes never call a tool.
        from gateway.tools.loop_exchange import ToolLoopExchange

        servers = self._read_servers(turn.tools)
        bounds = self.settings.bounds(max_tool_calls)
        scrub = Redactor(list_credentials({"tools": list(turn.tools)})).redact
        return ToolLoopExchange(
            self.without_hosted(turn), servers, make_round, self, bounds, sees_images=sees_images, scrub=scrub
        )

    def runs_some(self, tools: Sequence[Json] | None) -> bool:
        """Whether the gateway runs one of these tools."""
        return any(map(self.runs, tools or ()))

    def without_hosted(self, turn: Turn) -> Turn:
        """Returns the turn without the tools that the gateway runs."""
        return replace(turn, tools=[tool for tool in turn.tools if not self.runs(tool)])

    def _read_servers(self, tools: Sequence[Json]) -> list[RequestedServer]:
        from gateway.mcp.connection import McpServer

        servers: dict[str, RequestedServer] = {}
        for position, tool in enumerate(tools):
            if not self.runs(tool):
                continue
            label = tool["server_label"]
            param = f"tools[{position}]"
            if label in servers:
                raise InvalidRequest(
                    f"two tools have the server_label {label!r}: give each server its own",
                    param=f"{param}.server_label",
                    code="duplicate_server_label",
                )
            if len(servers) >= self.settings.max_servers:
                raise InvalidRequest(
                    f"a request may name at most {self.settings.max_servers} MCP servers (tools.mcp.max_servers)",
                    param=param,
                    code="too_many_servers",
                )
            headers = {**(tool.get("headers") or {})}
            if token := tool.get("authorization"):
                if any(name.lower() == _SECRET_HEADER for name in headers):
                    raise InvalidRequest(
                        "send the token in `authorization` or in `headers`, not in both", param=f"{param}.authorization"
                    )
                headers[_SECRET_HEADER] = f"Bearer {token}"
            server = McpServer(
                label=label, url=tool["server_url"], headers=headers, max_result_bytes=self.settings.max_result_bytes
            )
            servers[label] = RequestedServer(server, position, tool.get("allowed_tools"), tool.get("require_approval"))
        return list(servers.values())
