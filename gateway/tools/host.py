"""The tools that the gateway can run, and which tools of a request it does."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

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
    from gateway.mcp.session import McpServer

_SECRET_HEADER: Final = "authorization"
_MAX_URL_CHARS: Final = 8192
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONNECTION_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers by which a client could have the gateway send another request than its own."""


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

        redactor = Redactor(list_credentials({"tools": list(turn.tools)}))
        servers = self._read_servers(turn.tools, redactor.redact)
        bounds = self.settings.bounds(max_tool_calls)
        return ToolLoopExchange(
            self.without_hosted(turn), servers, make_round, self, bounds, sees_images=sees_images, redactor=redactor
        )

    def runs_some(self, tools: Sequence[Json] | None) -> bool:
        """Whether the gateway runs one of these tools."""
        return any(map(self.runs, tools or ()))

    def without_hosted(self, turn: Turn) -> Turn:
        """Returns the turn without the tools that the gateway runs."""
        return replace(turn, tools=[tool for tool in turn.tools if not self.runs(tool)])

    def _read_servers(self, tools: Sequence[Json], scrub: Callable[[str], str]) -> list[RequestedServer]:
        from gateway.mcp.session import McpServer

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
            if tool.get("connector_id"):
                raise InvalidRequest(
                    "send `server_url` or `connector_id`, not both; the gateway has no connectors",
                    param=f"{param}.connector_id",
                )
            _check_url(tool["server_url"], f"{param}.server_url")
            headers = {**(tool.get("headers") or {})}
            _check_headers(headers, f"{param}.headers")
            if token := tool.get("authorization"):
                if any(name.lower() == _SECRET_HEADER for name in headers):
                    raise InvalidRequest(
                        "send the token in `authorization` or in `headers`, not in both", param=f"{param}.authorization"
                    )
                headers[_SECRET_HEADER] = f"Bearer {token}"
                _check_headers(headers, f"{param}.authorization")
            server = McpServer(
                label=label,
                url=tool["server_url"],
                headers=headers,
                max_result_bytes=self.settings.max_result_bytes,
                connect_deadline_s=self.settings.list_deadline_s,
                scrub=scrub,
            )
            servers[label] = RequestedServer(server, position, tool.get("allowed_tools"), tool.get("require_approval"))
        return list(servers.values())


def _check_url(url: str, param: str) -> None:
    """Raises InvalidRequest for a URL that no server can have. Whether it may be reached is found out later."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or len(url) > _MAX_URL_CHARS or not url.isprintable() or " " in url:
        raise InvalidRequest("server_url must be a valid URL that begins with http:// or https://", param=param)
    if "@" in parts.netloc:
        message = "server_url must not contain a user name or password: send them in `headers`"
        raise InvalidRequest(message, param=param)


def _check_headers(headers: Mapping[str, str], param: str) -> None:
    """Raises InvalidRequest for headers that cannot be sent, or that say how the request itself is sent."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest(f"{name[:100]!r} is not the name of a header", param=param)
        if name.lower() in _CONNECTION_HEADERS or name.lower().startswith("proxy-"):
            raise InvalidRequest(f"the header {name!r} cannot be set: the gateway sets it", param=param)
        if not (value.isascii() and value.isprintable()):
            raise InvalidRequest(f"the value of the header {name!r} must be printable ASCII text", param=param)
