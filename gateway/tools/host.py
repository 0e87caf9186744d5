"""The tools that the gateway can run, and which tools of a request it does."""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.operator_servers.server_headers import check_headers
from gateway.operator_servers.servers import OperatorServers, matches_any
from gateway.tools.catalogue_cache import CatalogueCache
from gateway.tools.tool_run import ToolRun
from providers.base import Exchange
from providers.egress import EgressClient
from providers.redaction import Redactor
from translation.errors import InvalidRequest
from translation.hosted.policy import is_allowed, may_need_approval, needs_approval
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.json_types import Json
from translation.representation.turn import Turn
from translation.tools.credentials import list_credentials

if TYPE_CHECKING:
    from gateway.mcp.operator_server import OperatorServer
    from gateway.mcp.server import McpServer
    from gateway.tools.approvals import ResponseApprovals
    from gateway.tools.context_compactor import ContextCompactor
    from gateway.tools.loop_exchange import ToolLoopExchange

_PLACES: Final = ("server_url", "connector_id", "tunnel_id")
"""Keys of an `mcp` tool that say where its server is. Without any, it is one of the configuration."""

_SECRET_HEADER: Final = "authorization"
_MAX_URL_CHARS: Final = 8192


@dataclass(frozen=True, slots=True)
class RequestedServer:
    """An MCP server of a request, and what the request says of its tools. `position` is that in `tools`.

    `operator` is the server if it is one of the configuration: then the request says nothing of where it is, and its
    `allowed_tools` and `require_approval` only narrow what the operator allows. `operator_approval` is the
    `require_approval` of the operator. `is_added` is whether the model's configuration names it, and the request does
    not.
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
        """What the request and the configuration say of all tools of the server, as JSON."""
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
        """Whether a call of a tool may be sent again if its outcome is not known. Only an operator can say so."""
        return self.operator is not None and self.operator.may_repeat(name)

    def allows(self, name: str, *, is_read_only: bool) -> bool:
        """Whether the request may use a tool. The operator's own rules have been applied to the list before."""
        return is_allowed(self.allowed_tools, name, is_read_only=is_read_only)

    def needs_approval(self, name: str, *, is_read_only: bool) -> bool:
        """Whether a call of a tool needs an approval. `is_read_only` is what the server says of the tool."""
        if self.operator is None:
            return needs_approval(self.require_approval, name, is_read_only=is_read_only)
        believed = is_read_only and self.operator.settings.is_trusted
        if needs_approval(self.operator_approval, name, is_read_only=believed):
            return True
        own = self.require_approval
        return own is not None and needs_approval(own, name, is_read_only=is_read_only)


class _AddedTool(dict[str, Any]):
    """A tool that the configuration of the model adds to a turn."""


def build_egress(settings: EgressSettings) -> EgressClient:
    """Returns the guard of all connections to addresses that requests name."""
    return EgressClient(
        allow=settings.allow, max_bytes=int(settings.max_mb * 1024 * 1024), deadline_s=settings.deadline_s
    )


class ToolHost:
    """Runs the hosted tools of requests. There is one per configuration.

    `has_store` says whether approvals can be stored. Without that, a server that a request gives the URL of is not used
    if its calls may need one.
    """

    def __init__(
        self,
        settings: McpSettings,
        egress: EgressClient,
        operator_servers: OperatorServers | None = None,
        *,
        has_store: bool,
    ) -> None:
        self.settings: Final = settings
        self.egress: Final = egress
        self.operator_servers: Final = operator_servers
        self.catalogues: Final = CatalogueCache()
        self._bounds: Final = settings.bounds(None)
        self._schema_limits: Final = settings.schema_limits
        self._has_store = has_store
        self._takes_urls = settings.request_servers == "public"
        self._without_urls: ToolHost | None = None
        self._allowed: Sequence[str] = ("*",)
        """Patterns of the labels of the operator's servers that the principal may use."""

    def for_key(self, allowed: Sequence[str]) -> "ToolHost":
        """Returns the host for a key that may use the operator's servers whose labels match one of these patterns."""
        if "*" in allowed:
            return self
        host = copy(self)
        host._allowed = allowed
        return host

    def for_upstream(self, hosted_tools: Collection[str]) -> "ToolHost":
        """Returns the host for an upstream that runs these kinds of tools itself: it leaves those to it."""
        if "mcp" not in hosted_tools or not self._takes_urls:
            return self
        if self._without_urls is None:
            self._without_urls = ToolHost(self.settings, self.egress, self.operator_servers, has_store=self._has_store)
            self._without_urls._takes_urls = False
        return self._without_urls

    def runs(self, tool: Json) -> bool:
        """Whether the gateway runs this tool: a server of the configuration, or one whose URL the request gives."""
        if tool.get("type") != "mcp":
            return False
        if not any(map(tool.get, _PLACES)):
            return True
        if not (self._takes_urls and tool.get("server_url")):
            return False
        return self._has_store or not may_need_approval(tool.get("require_approval"))

    def servers_of_model(self, tools: Sequence[Json] | None, labels: Sequence[str]) -> list[Json]:
        """Returns tools for the servers that a model's configuration names, without those that `tools` has already."""
        named = {tool.get("server_label") for tool in tools or () if tool.get("type") == "mcp"}
        return [_AddedTool(type="mcp", server_label=label) for label in self.list_usable(labels) if label not in named]

    def list_usable(self, labels: Sequence[str]) -> list[str]:
        """Returns those of the labels of a model's configuration that the principal may use."""
        return [label for label in labels if matches_any(label, self._allowed)]

    def make_exchange(
        self,
        turn: Turn,
        make_round: Callable[[Turn], Exchange],
        *,
        max_tool_calls: int | None,
        in_background: bool,
        sees_images: bool,
        approvals: "ResponseApprovals | None",
        runs_with_client_calls: bool,
        compactor: "ContextCompactor | None" = None,
        tool_run: ToolRun,
    ) -> "ToolLoopExchange":
        """Returns the exchange that runs the turn with its hosted tools. `make_round` makes the exchange of one round.

        `max_tool_calls` is that of the request; `in_background` is whether nobody waits for the reply. `approvals` may
        be None if none can be stored. `runs_with_client_calls` is whether calls of a round in which the client has
        to answer some are run. `compactor` compacts its context; None if the request does not want that. `tool_run` is
        read when the exchange is opened. Raises InvalidRequest for servers that
        cannot be named so.
        """
        # Imported here, because most processes never call a tool. Requests have it loaded before (`load_tool_library`).
        from gateway.tools.loop_exchange import ToolLoopExchange
        from gateway.tools.redacted_results import ResultRedactor

        credentials = list_credentials({"tools": list(turn.tools)})
        servers = self._read_servers(turn.tools, Redactor(credentials).redact if credentials else str)
        redactor = ResultRedactor([*credentials, *self._list_secrets(servers)], lambda: _list_tokens(servers))
        bounds = self._bounds
        if in_background or max_tool_calls is not None:
            bounds = self.settings.bounds(max_tool_calls, in_background=in_background)
        if not runs_with_client_calls:
            bounds = replace(bounds, runs_with_client_calls=False)
        return ToolLoopExchange(
            self.without_hosted(turn),
            servers,
            make_round,
            self,
            bounds,
            sees_images=sees_images,
            redactor=redactor,
            approvals=approvals,
            compactor=compactor,
            tool_run=tool_run,
        )

    def list_labels(self, tools: Sequence[Json]) -> list[str]:
        """Returns the labels of the servers whose tools the gateway runs."""
        return [tool["server_label"] for tool in tools if self.runs(tool)]

    def runs_some(self, tools: Sequence[Json] | None) -> bool:
        """Whether the gateway runs one of these tools."""
        return any(map(self.runs, tools or ()))

    def without_hosted(self, turn: Turn) -> Turn:
        """Returns the turn without the tools that the gateway runs."""
        return replace(turn, tools=[tool for tool in turn.tools if not self.runs(tool)])

    def _list_secrets(self, servers: Sequence[RequestedServer]) -> list[str]:
        """Returns the operator's credentials for these servers."""
        if self.operator_servers is None:
            return []
        labels = [requested.label for requested in servers if requested.operator is not None]
        return [secret for label in labels for secret in self.operator_servers.list_secrets(label)]

    def _read_operator_server(self, tool: Json, position: int, param: str) -> RequestedServer:
        """Raises InvalidRequest for a label that the configuration does not have, and for keys of the operator's."""
        label = tool["server_label"]
        servers = self.operator_servers if matches_any(label, self._allowed) else None
        own = None if servers is None else servers.configured.get(label)
        operator = None if servers is None else servers.find(label)
        if own is None or operator is None:
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
        )

    def _read_servers(self, tools: Sequence[Json], scrub: Callable[[str], str]) -> list[RequestedServer]:
        from gateway.mcp.server import McpServer

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
                max_result_bytes=self.settings.max_result_bytes,
                schema_limits=self._schema_limits,
                connect_deadline_s=self.settings.list_deadline_s,
                scrub=scrub,
            )
            servers[label] = RequestedServer(server, position, tool.get("allowed_tools"), tool.get("require_approval"))
        return list(servers.values())


def _list_tokens(servers: Sequence[RequestedServer]) -> list[str]:
    """Returns the tokens of the operator's servers among these, as they are now."""
    sources = [each.server.tokens for each in servers]
    return [token for source in sources if source is not None for token in source.list_secrets()]


def forces_server(choice: Json, label: str) -> bool:
    """Whether a tool choice demands a tool of a server, and can be met by no other tool."""
    if choice["type"] != "allowed_tools":
        return choice.get("server_label") == label
    return choice.get("mode") == "required" and all(tool.get("server_label") == label for tool in choice["tools"])


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
