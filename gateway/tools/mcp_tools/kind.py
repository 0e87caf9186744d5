"""MCP servers as a kind of hosted tools: which ones the gateway runs, and how requests may name them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.tool_settings import McpSettings
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp_tools.requested_servers import RequestedServer
from gateway.tools.mcp_tools.session_limits import SessionLimits
from gateway.tools.operator_servers.server_bodies import check_headers
from gateway.tools.operator_servers.servers import OperatorServers, matches_any
from providers.egress import EgressClient
from translation.errors import InvalidRequest
from translation.hosted.call_forms import MCP_FORMS, CallForm
from translation.hosted.policy import may_need_approval
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_PLACES: Final = ("server_url", "connector_id", "tunnel_id")
"""Keys of an `mcp` tool with the address of its server. A tool without them names a server of the configuration."""

_SECRET_HEADER: Final = "authorization"
_MAX_URL_CHARS: Final = 8192


class _AddedTool(dict[str, Any]):
    """A tool that the configuration of the model adds to a turn."""


class McpTools:
    """The tools of MCP servers. `has_store` says whether approvals can be stored. If they cannot, a server is not used
    if the request gives its URL and its calls may need an approval."""

    def __init__(
        self, settings: McpSettings, egress: EgressClient, operator_servers: OperatorServers | None, *, has_store: bool
    ) -> None:
        self._settings: Final = settings
        self._egress: Final = egress
        self._operator_servers: Final = operator_servers
        self._has_store: Final = has_store
        self._sessions: Final = SessionLimits(settings.max_sessions)
        self._takes_urls = settings.request_servers == "public"
        self._allowed: Sequence[str] = ("*",)
        """Patterns of the labels of the operator's servers that the principal may use."""

    @property
    def forms(self) -> Mapping[str, CallForm]:
        return MCP_FORMS

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> "McpTools":
        restricted = copy(self)
        restricted._allowed = allowed_servers
        return restricted

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> "McpTools":
        return self

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> "McpTools":
        """Returns the kind for an upstream: one that calls MCP servers itself calls those whose URL a request gives."""
        if "mcp" not in hosted_tools or not self._takes_urls:
            return self
        without_urls = copy(self)
        without_urls._takes_urls = False
        return without_urls

    def runs_tool(self, tool: Json) -> bool:
        """Whether the gateway runs this tool: a server of the configuration, or one whose URL the request gives."""
        if tool.get("type") != "mcp":
            return False
        if not any(map(tool.get, _PLACES)):
            return True
        if not (self._takes_urls and tool.get("server_url")):
            return False
        return self._has_store or not may_need_approval(tool.get("require_approval"))

    def list_labels(self, tools: Sequence[Json]) -> list[str]:
        """Returns the labels of the servers whose tools the gateway runs."""
        return [tool["server_label"] for tool in tools if self.runs_tool(tool)]

    def list_usable_labels(self, labels: Sequence[str]) -> list[str]:
        """Returns the labels of a model's configuration whose servers the principal may use."""
        return [label for label in labels if matches_any(label, self._allowed)]

    def build_model_tools(self, tools: Sequence[Json] | None, labels: Sequence[str]) -> list[Json]:
        """Returns tools for the servers that a model's configuration names and `tools` does not name."""
        named = {tool.get("server_label") for tool in tools or () if tool.get("type") == "mcp"}
        usable = self.list_usable_labels(labels)
        return [_AddedTool(type="mcp", server_label=label) for label in usable if label not in named]

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        for position, tool in enumerate(tools):
            if not self.runs_tool(tool):
                continue
            if "direct" not in (tool.get("allowed_callers") or ("direct",)):
                yield Loss(f"tools[{position}].allowed_callers", "dropped")

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        from gateway.tools.mcp_tools.executors import open_executor  # it imports the library, which is large

        servers = self._read_servers(tools, context.scrub)
        return [
            open_executor(requested, self._settings, self._egress, self._sessions, context) for requested in servers
        ]

    def _read_servers(self, tools: Sequence[Json], scrub: Callable[[str], str]) -> list[RequestedServer]:
        """Returns the servers of the tools that the gateway runs. `scrub` removes the request's credentials from texts.

        Raises InvalidRequest for servers that cannot be used as the request names them.
        """
        servers: dict[str, RequestedServer] = {}
        for position, tool in enumerate(tools):
            if not self.runs_tool(tool):
                continue
            label = tool["server_label"]
            param = f"tools[{position}]"
            if label in servers:
                raise InvalidRequest(
                    f"two tools have the server_label {label!r}: give each server its own",
                    param=f"{param}.server_label",
                    code="duplicate_server_label",
                )
            if len(servers) >= self._settings.max_servers:
                raise InvalidRequest(
                    f"a request may name at most {self._settings.max_servers} MCP servers (tools.mcp.max_servers)",
                    param=param,
                    code="too_many_servers",
                )
            if not any(map(tool.get, _PLACES)):
                servers[label] = self._read_operator_server(tool, position, param)
                continue
            if tool.get("connector_id"):
                raise InvalidRequest(
                    "send `server_url` or `connector_id`, not both; the gateway has no connectors",
                    param=f"{param}.connector_id",
                )
            _check_url(tool["server_url"], f"{param}.server_url")
            headers = {**(tool.get("headers") or {})}
            check_headers(headers, f"{param}.headers")
            if token := tool.get("authorization"):
                if any(name.lower() == _SECRET_HEADER for name in headers):
                    raise InvalidRequest(
                        "send the token in `authorization` or in `headers`, not in both", param=f"{param}.authorization"
                    )
                headers[_SECRET_HEADER] = f"Bearer {token}"
                check_headers(headers, f"{param}.authorization")
            server = McpServer(
                label=label,
                url=tool["server_url"],
                headers=headers,
                limits=self._settings.answer_limits,
                schema_limits=self._settings.schema_limits,
                connect_deadline_s=self._settings.list_deadline_s,
                scrub=scrub,
            )
            servers[label] = RequestedServer(
                server,
                position,
                tool.get("allowed_tools"),
                tool.get("require_approval"),
                is_deferred=bool(tool.get("defer_loading")),
            )
        return list(servers.values())

    def _read_operator_server(self, tool: Json, position: int, param: str) -> RequestedServer:
        """Raises InvalidRequest for a label that the configuration does not have, and for keys of the operator's."""
        label = tool["server_label"]
        servers = self._operator_servers if matches_any(label, self._allowed) else None
        own = None if servers is None else servers.configured.get(label)
        operator = None if servers is None else servers.find(label)
        if servers is None or own is None or operator is None:
            raise InvalidRequest(
                f"the gateway's configuration has no MCP server {label!r}: send its `server_url`, or another label",
                param=f"{param}.server_label",
                code="unknown_server_label",
            )
        if key := next((key for key in ("authorization", "headers") if tool.get(key)), None):
            raise InvalidRequest(
                f"{label!r} is a server of the gateway's configuration, which has its credentials: leave `{key}` out",
                param=f"{param}.{key}",
            )
        return RequestedServer(
            operator.settings.server,
            position,
            tool.get("allowed_tools"),
            tool.get("require_approval"),
            operator,
            own.require_approval,
            own.prefix,
            is_added=isinstance(tool, _AddedTool),
            is_deferred=bool(tool.get("defer_loading")),
            list_secrets=partial(servers.list_secrets, label),
        )


def _check_url(url: str, param: str) -> None:
    """Raises InvalidRequest for a URL that no server can have. Whether it may be connected to is checked later."""
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
