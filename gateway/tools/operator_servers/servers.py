"""The operator's MCP servers, by their labels. Each exists once in a process, from its first use on."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import structlog

from gateway.config.mcp_server_settings import McpServerSettings, find_server_problem
from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.sealing.sealer import Sealer
from gateway.state.operator_records import GrantStore
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import TokenSource
from gateway.tools.operator_servers.building import build_authorization_server, build_operator_egress, build_server
from translation.hosted.tools import ToolKey, model_name_of
from translation.representation.json_types import Json

if TYPE_CHECKING:
    from mcp_types import Tool

    from gateway.tools.mcp.operator_server import OperatorServer

_log = structlog.get_logger(__name__)


UnusableReason: TypeAlias = Literal["name_taken", "credentials_unavailable", "invalid_settings"]
"""Why an added server is not used: another server has its label or prefix, its credentials cannot be decrypted, or this
version does not know its settings."""


class UnknownServer(Exception):
    """No server has this label. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class _ServerSet:
    """All servers with their common settings. `added` are the labels of servers that were added over the API."""

    settings: McpSettings
    added: frozenset[str] = frozenset()

    def may_be_private(self, label: str) -> bool:
        """Whether a server may have an address outside the public internet."""
        return label not in self.added or self.settings.admin.private_hosts

    def describe(self, label: str) -> Any:
        """Returns all settings that a running server depends on."""
        settings = self.settings
        own = settings.servers.get(label)
        limits = (settings.max_list_pages, settings.list_deadline_s, settings.call_deadline_s, settings.max_result_mb)
        tool_limits = (settings.max_tools, settings.max_schema_kb, settings.max_schema_depth)
        return None if own is None else (own, limits, tool_limits, self.may_be_private(label))


class OperatorServers:
    """The servers of the configuration, and the servers that were added over the API. Both sets can be replaced at any
    time; servers that did not change keep running. A server of the configuration precedes an added one with its name.

    `grants` and `sealer` store the tokens of servers with logins, which need both.
    """

    def __init__(
        self,
        settings: McpSettings,
        egress: EgressSettings,
        grants: GrantStore | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._configured = settings
        self._names_others = True
        self._added: Mapping[str, McpServerSettings] = {}
        self._unreadable: Mapping[str, UnusableReason] = {}
        self.unusable: Mapping[str, UnusableReason] = {}
        """The added servers that are not used, by label."""
        self._set = _ServerSet(settings)
        self._grants: Final = grants
        self._sealer: Final = sealer
        self._egress: Final = egress
        self._running: dict[str, OperatorServer] = {}
        self._lock: Final = threading.Lock()  # large requests are planned in threads
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def configured(self) -> Mapping[str, McpServerSettings]:
        """The settings of the servers, by label."""
        return self._set.settings.servers

    def is_added(self, label: str) -> bool:
        """Whether the server of this label was added over the API, and is not one of the configuration."""
        return label in self._set.added or (label in self.unusable and label not in self._configured.servers)

    def find(self, label: str) -> "OperatorServer | None":
        """Returns the server of this label, without connecting it; None if there is none."""
        with self._lock:
            if label not in self.configured:
                return None
            if (server := self._running.get(label)) is None:
                server = self._running[label] = self._build(label)
            return server

    def require(self, label: str) -> "OperatorServer":
        """Returns the server of this label. Raises UnknownServer, whose message lists the existing servers."""
        if (server := self.find(label)) is None:
            known = ", ".join(self.configured) or "none"
            raise UnknownServer(f"no MCP server is named {label!r} in tools.mcp.servers; there are: {known}")
        return server

    def list_secrets(self, label: str) -> list[str]:
        """Returns the credentials of a server, which are redacted from every text that leaves the gateway."""
        own, server = self.configured.get(label), self._running.get(label)
        tokens = None if server is None else server.settings.server.tokens
        return [
            *(own.list_secrets() if own is not None else ()),
            *(tokens.list_secrets() if tokens is not None else ()),
        ]

    def use_configuration(self, settings: McpSettings, *, names_others: bool = True) -> None:
        """Replaces the configuration. Servers that changed or are no longer in it finish their calls, and end.

        New servers are connected at once, so that the log and `report_conditions` show unusable ones. `names_others`:
        errors of a server, which its users read, may name other servers.
        """
        combined = combine_servers(settings.servers, self._added)  # may fail, so nothing is replaced before
        self._configured, self._names_others = settings, names_others
        self._use_combined(*combined, connects=True)

    def use_added(
        self,
        added: Mapping[str, McpServerSettings],
        unreadable: Mapping[str, UnusableReason],
        *,
        connects: bool = True,
    ) -> None:
        """Replaces the added servers. `unreadable` are servers whose settings cannot be read. With `connects` new
        servers are connected at once."""
        combined = combine_servers(self._configured.servers, added)
        self._added, self._unreadable = added, unreadable
        self._use_combined(*combined, connects=connects)

    def find_name_problem(self, label: str, own: McpServerSettings) -> str | None:
        """Returns the reason why a server cannot be added with this label and prefix; None if it can."""
        if label in self._configured.servers:
            return f"{label} is a server of the configuration file: change it there, and reload"
        others = {name: other for name, other in self.configured.items() if name != label}
        return find_server_problem({**others, label: own})

    def _use_combined(
        self, servers: dict[str, McpServerSettings], name_conflicts: Mapping[str, str], *, connects: bool
    ) -> None:
        unusable: dict[str, UnusableReason] = {**self._unreadable, **dict.fromkeys(name_conflicts, "name_taken")}
        for label in unusable.keys() - self.unusable.keys():
            _log.warning("mcp_server_unusable", server=label, reason=unusable[label], problem=name_conflicts.get(label))
        self.unusable = unusable
        added = frozenset(servers.keys() - self._configured.servers.keys())
        after = _ServerSet(self._configured.model_copy(update={"servers": servers}), added)
        with self._lock:
            before, self._set = self._set, after
            changed = [label for label in self._running if after.describe(label) != before.describe(label)]
            removed = [self._running.pop(label) for label in changed]
        for server in removed:
            self._start(server.remove(self._configured.removal_grace_s))
        for label in servers if connects else ():
            if after.describe(label) != before.describe(label):
                self._start(self._examine(label))

    async def _examine(self, label: str) -> None:
        """Connects a server and lists its tools. Failures are reported where they occur."""
        if (server := self.find(label)) is not None:
            with suppress(McpFault):
                await server.list_tools()

    def report_conditions(self) -> Json:
        """Returns the last known state of each server: whether it is connected, and how many tools it has.

        Failures have only their kind, because the result is public.
        """
        return {label: self._describe_condition(label) for label in self._list_labels()}

    def describe_servers(self, allowed: Sequence[str] = ("*",)) -> list[Json]:
        """Returns the servers whose labels match a pattern of `allowed`, with the tools that are known now."""
        return [self.describe_server(label) for label in self._list_labels() if matches_any(label, allowed)]

    def describe_server(self, label: str) -> Json:
        """Returns one server in the form of `describe_servers`. It is configured, or was added."""
        server = self._running.get(label)
        tools: list[Json] = []
        if server is not None and (listing := server.listing) is not None:
            items = {each["name"]: each for each in listing.items}
            named = self._name_tools(label, listing.tools)
            tools = [{**items[tool.name], "model_name": name} for name, tool in named]
        source = "api" if self.is_added(label) else "configuration"
        condition = self._describe_condition(label)
        return {"object": "mcp_server", "server_label": label, "source": source, **condition, "tools": tools}

    def _list_labels(self) -> list[str]:
        """Returns the labels of all servers, including unusable ones."""
        return [*self.configured, *(label for label in self.unusable if label not in self.configured)]

    def list_names(self) -> Mapping[str, ToolKey]:
        """Returns all tools that are known now, by their names for models."""
        with self._lock:
            running = [*self._running.items()]
        return {
            name: ToolKey(label, tool.name)
            for label, server in running
            if (listing := server.listing) is not None
            for name, tool in self._name_tools(label, listing.tools)
        }

    async def aclose(self) -> None:
        """Ends all servers at once."""
        with self._lock:
            self._set = _ServerSet(self._configured.model_copy(update={"servers": {}}))
            servers = [*self._running.values()]
            self._running.clear()
        for server in servers:
            self._start(server.remove(0))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _describe_condition(self, label: str) -> Json:
        if label not in self.configured:
            return {"status": "failed", "reason": self.unusable[label]}
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
        from gateway.tools.mcp.operator_server import OperatorServer, OperatorServerSettings

        settings = self._set.settings
        own, may_be_private = settings.servers[label], self._set.may_be_private(label)
        return OperatorServer(
            OperatorServerSettings(
                server=build_server(label, settings, self._build_tokens(label, own, may_be_private=may_be_private)),
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
            build_operator_egress(own, self._egress, may_be_private=may_be_private),
            lambda tools: self._refuse_equal_names(label, tools),
        )

    def _build_tokens(self, label: str, own: McpServerSettings, *, may_be_private: bool) -> TokenSource | None:
        """Returns the source of the tokens for a server; None without OAuth."""
        if own.auth.oauth is None:
            return None
        issuer = build_authorization_server(own, self._egress, may_be_private=may_be_private)
        if own.auth.oauth.grant == "login":
            from gateway.tools.mcp.oauth.grants import GrantedTokens
            from gateway.tools.operator_servers.grant_vault import SealedGrant

            vault = None
            if self._grants is not None and self._sealer is not None:
                vault = SealedGrant(label, self._grants, self._sealer)
            return GrantedTokens(label, issuer, vault)
        from gateway.tools.mcp.oauth.tokens import OAuthTokens

        return OAuthTokens(issuer)

    def _refuse_equal_names(self, label: str, tools: "Sequence[Tool]") -> None:
        """Raises McpFault if two tools would have the same name for models.

        Servers of the configuration file have precedence. If one of them lists a name that an added server has, the
        added server loses its list of tools, and the fault is reported for it. This way an added server cannot disable
        a server of the file.
        """
        added = self._set.added
        others = {name.casefold(): key for name, key in self.list_names().items() if key.server != label}
        displaced: dict[str, McpFault] = {}
        for name, tool in self._name_tools(label, tools):
            if (other := others.get(name.casefold())) is None:
                continue
            own = ToolKey(label, tool.name)
            if label in added or other.server not in added:
                raise self._describe_collision(own, other, name)
            displaced[other.server] = self._describe_collision(other, own, name)
        for server, fault in displaced.items():
            if (running := self._running.get(server)) is not None:
                running.discard_list(fault)

    def _describe_collision(self, own: ToolKey, other: ToolKey, name: str) -> McpFault:
        """Returns the fault of a server whose tool has the name of another server's tool."""
        _log.warning("mcp_names_collide", server=own.server, tool=own.name, other=other.server, its=other.name)
        twin = f"the tool {other.name!r} of the server {other.server!r}"
        other_name = twin if self._names_others else "a tool of another server"
        return McpFault(
            "invalid_result",
            f"its tool {own.name!r} would be called {name!r}, like {other_name}: "
            "give one of the two servers another prefix",
        )

    def _name_tools(self, label: str, tools: "Iterable[Tool]") -> "Iterable[tuple[str, Tool]]":
        own = self.configured.get(label)  # a server that was just removed may still list its tools
        prefix = label if own is None else own.resolve_prefix(label)
        return ((model_name_of(ToolKey(label, tool.name), prefix), tool) for tool in tools)


def matches_any(label: str, patterns: Sequence[str]) -> bool:
    """Whether the label of a server matches one of the patterns of a key."""
    return any(fnmatchcase(label, pattern) for pattern in patterns)


def combine_servers(
    configured: Mapping[str, McpServerSettings], added: Mapping[str, McpServerSettings]
) -> tuple[dict[str, McpServerSettings], dict[str, str]]:
    """Returns all servers, and the labels of added servers that are left out, with the problem of their names."""
    servers, left_out = dict(configured), dict[str, str]()
    for label, own in added.items():
        if label in configured:
            left_out[label] = f"{label} is a server of the configuration file"
        elif (problem := find_server_problem({**servers, label: own})) is not None:
            left_out[label] = problem
        else:
            servers[label] = own
    return servers, left_out
