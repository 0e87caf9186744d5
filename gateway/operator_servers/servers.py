"""The MCP servers of the configuration, by their labels. Each exists once in a process, from its first use on."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.sealing.sealer import Sealer
from gateway.state.grants import GrantStore
from providers.egress import EgressClient
from providers.redaction import Redactor
from translation.hosted.tools import ToolKey, model_name_of
from translation.representation.json_types import Json

if TYPE_CHECKING:
    from mcp_types import Tool

    from gateway.mcp.oauth.tokens import AuthorizationServer
    from gateway.mcp.operator_server import OperatorServer
    from gateway.mcp.server import McpServer, TokenSource


class OperatorServers:
    """The configured servers. `use` replaces them while others are in use; servers that did not change remain.

    `grants` and `sealer` keep the tokens of servers that somebody logged in to; such servers need both.
    """

    def __init__(
        self,
        settings: McpSettings,
        egress: EgressSettings,
        grants: GrantStore | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._settings = settings
        self._grants: Final = grants
        self._sealer: Final = sealer
        self._egress: Final = egress
        self._running: dict[str, OperatorServer] = {}
        self._lock: Final = threading.Lock()  # large requests are planned in threads
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def configured(self) -> Mapping[str, McpServerSettings]:
        """The settings of the servers, by label."""
        return self._settings.servers

    def find(self, label: str) -> "OperatorServer | None":
        """Returns the server of this label; None if none is configured. Nothing is connected by that."""
        if label not in self._settings.servers:
            return None
        with self._lock:
            if (server := self._running.get(label)) is None:
                server = self._running[label] = self._build(label)
            return server

    def require(self, label: str) -> "OperatorServer":
        """Returns the server of a label that is configured. Raises KeyError for any other."""
        if (server := self.find(label)) is None:
            raise KeyError(label)
        return server

    def list_secrets(self, label: str) -> list[str]:
        """Returns the credentials of a server, which must not be in any text that leaves the gateway."""
        own, server = self._settings.servers.get(label), self._running.get(label)
        tokens = None if server is None else server.settings.server.tokens
        return [
            *(own.list_secrets() if own is not None else ()),
            *(tokens.list_secrets() if tokens is not None else ()),
        ]

    def use(self, settings: McpSettings) -> None:
        """Replaces the configuration. Servers that changed or are no longer in it finish their calls, and end.

        New ones are connected at once, so that the log and `report_conditions` have those that cannot be used.
        """
        before, self._settings = self._settings, settings
        for label, server in [*self._running.items()]:
            if _describe(settings, label) != _describe(before, label):
                del self._running[label]
                self._start(server.remove(settings.removal_grace_s))
        for label in settings.servers:
            if _describe(settings, label) != _describe(before, label):
                self._start(self._examine(label))

    async def _examine(self, label: str) -> None:
        """Connects a server and lists its tools. What goes wrong is reported where it occurs."""
        from gateway.mcp.errors import McpFault

        if (server := self.find(label)) is not None:
            with suppress(McpFault):
                await server.list_tools()

    def report_conditions(self) -> Json:
        """Returns what is known of each server without asking it: whether it is connected, and how many tools it has.

        Of failures it has the kind alone, since anybody may read it.
        """
        return {label: self._condition_of(label) for label in self._settings.servers}

    def describe_servers(self, allowed: Sequence[str] = ("*",)) -> list[Json]:
        """Returns the servers whose labels match a pattern of `allowed`, with the tools that are known at the moment,
        without waiting."""
        described = []
        for label in self._settings.servers:
            if not matches_any(label, allowed):
                continue
            server = self._running.get(label)
            named = [] if server is None or server.listing is None else [*self._name_tools(label, server.listing.tools)]
            items = (
                {}
                if server is None or server.listing is None
                else {each["name"]: each for each in server.listing.items}
            )
            tools = [{**items[tool.name], "model_name": name} for name, tool in named]
            described.append(
                {"object": "mcp_server", "server_label": label, **self._condition_of(label), "tools": tools}
            )
        return described

    def list_names(self) -> Mapping[str, ToolKey]:
        """Returns all tools that are known at the moment, by the names by which models know them, without waiting."""
        return {
            name: ToolKey(label, tool.name)
            for label, server in self._running.items()
            if server.listing is not None
            for name, tool in self._name_tools(label, server.listing.tools)
        }

    async def aclose(self) -> None:
        """Ends all servers at once."""
        self._settings = self._settings.model_copy(update={"servers": {}})
        for server in self._running.values():
            self._start(server.remove(0))
        self._running.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _condition_of(self, label: str) -> Json:
        server = self._running.get(label)
        if server is None or (server.fault is None and server.listing is None):
            return {"status": "not_used"}
        tools = {"tools": len(server.listing.tools)} if server.listing is not None else {}
        if server.fault is not None:
            return {"status": "failed", "reason": server.fault.kind, **tools}
        return {"status": "ready", **tools}

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _build(self, label: str) -> "OperatorServer":
        # Imported here, because the library is large and most processes never call a tool.
        from gateway.mcp.operator_server import OperatorServer, OperatorServerSettings

        settings, own = self._settings, self._settings.servers[label]
        return OperatorServer(
            OperatorServerSettings(
                server=build_server(label, settings, self._build_tokens(label, own)),
                allows=own.allows,
                repeats_calls=own.repeat == "safe",
                is_trusted=own.trusted,
                max_list_pages=settings.max_list_pages,
                max_tools=settings.max_tools,
                list_deadline_s=own.list_deadline_s or settings.list_deadline_s,
                call_deadline_s=own.call_deadline_s or settings.call_deadline_s,
                list_ttl_s=own.list_ttl_s,
                pins=own.pins,
            ),
            build_operator_egress(own, self._egress),
            lambda tools: self._refuse_equal_names(label, tools),
        )

    def _build_tokens(self, label: str, own: McpServerSettings) -> "TokenSource | None":
        """Returns the source of the tokens of a server; None if it has none that change."""
        if own.auth.oauth is None:
            return None
        issuer = build_authorization_server(own, self._egress)
        if own.auth.oauth.grant == "login":
            from gateway.mcp.oauth.grants import GrantedTokens
            from gateway.operator_servers.grant_vault import SealedGrant

            vault = None
            if self._grants is not None and self._sealer is not None:
                vault = SealedGrant(label, self._grants, self._sealer)
            return GrantedTokens(label, issuer, vault)
        from gateway.mcp.oauth.tokens import OAuthTokens

        return OAuthTokens(issuer)

    def _refuse_equal_names(self, label: str, tools: "Sequence[Tool]") -> None:
        """Raises McpFault if models would know two tools by one name."""
        from gateway.mcp.errors import McpFault

        others = {name.casefold(): key for name, key in self.list_names().items() if key.server != label}
        for name, tool in self._name_tools(label, tools):
            if (other := others.get(name.casefold())) is not None:
                message = (
                    f"its tool {tool.name!r} would be called {name!r}, like the tool {other.name!r} of the server "
                    f"{other.server!r}: give one of the two servers another prefix"
                )
                raise McpFault("invalid_result", message)

    def _name_tools(self, label: str, tools: "Iterable[Tool]") -> "Iterable[tuple[str, Tool]]":
        own = self._settings.servers.get(label)  # a server that was just removed may still list its tools
        prefix = label if own is None or own.prefix is None else own.prefix
        return ((model_name_of(ToolKey(label, tool.name), prefix), tool) for tool in tools)


def matches_any(label: str, patterns: Sequence[str]) -> bool:
    """Whether the label of a server matches one of the patterns of a key."""
    return any(fnmatchcase(label, pattern) for pattern in patterns)


def build_server(label: str, settings: McpSettings, tokens: "TokenSource | None") -> "McpServer":
    """Returns where the server of a label is. `tokens` has those that change."""
    from gateway.mcp.server import McpServer, StdioCommand

    own = settings.servers[label]
    headers = {name: value.get_secret_value() for name, value in own.headers.items()}
    if own.auth.bearer is not None:
        headers["authorization"] = f"Bearer {own.auth.bearer.get_secret_value()}"
    env = {name: value.get_secret_value() for name, value in own.env.items()}
    secrets = own.list_secrets()
    return McpServer(
        label=label,
        url=own.address,
        command=None if own.stdio is None else StdioCommand(arguments=own.stdio, env=env, cwd=own.cwd),
        uses_sse=own.sse is not None,
        headers=headers,
        tokens=tokens,
        max_result_bytes=settings.max_result_bytes,
        schema_limits=settings.schema_limits,
        connect_deadline_s=own.start_deadline_s,
        scrub=lambda text: Redactor([*secrets, *(tokens.list_secrets() if tokens is not None else ())]).redact(text),
    )


def build_authorization_server(own: McpServerSettings, egress: EgressSettings) -> "AuthorizationServer":
    """Returns what issues the tokens of a server with `auth.oauth`."""
    from gateway.mcp.oauth.tokens import AuthorizationServer, OAuthClient

    oauth = own.auth.oauth
    assert oauth is not None
    client = OAuthClient(
        client_id=oauth.client_id,
        client_secret=None if oauth.client_secret is None else oauth.client_secret.get_secret_value(),
        resource=own.address,
        token_url=oauth.token_url,
        authorization_url=oauth.authorization_url,
        scope=oauth.scope,
        client_auth=oauth.client_auth,
    )
    token_host = urlsplit(oauth.token_url or "").hostname
    written = [host for host in (own.host, token_host) if host]
    return AuthorizationServer(client, EgressClient(allow=[*egress.allow, *written]), EgressClient(allow=egress.allow))


def build_operator_egress(server: McpServerSettings, egress: EgressSettings) -> EgressClient:
    """Returns the guard of connections to a server: it may have a private address, and no other host may."""
    host = server.host
    return EgressClient(allow=[*egress.allow, *([host] if host else ())])


def _describe(settings: McpSettings, label: str) -> Any:
    """Returns all that a running server depends on."""
    own = settings.servers.get(label)
    limits = (settings.max_list_pages, settings.list_deadline_s, settings.call_deadline_s, settings.max_result_mb)
    tool_limits = (settings.max_tools, settings.max_schema_kb, settings.max_schema_depth)
    return None if own is None else (own, limits, tool_limits)
