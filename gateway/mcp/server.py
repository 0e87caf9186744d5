"""Where an MCP server is, and how it is addressed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from translation.hosted.bounds import DEFAULT_SCHEMA_LIMITS, SchemaLimits

PROBE_S: Final = 3.0
"""How long a server may think about `server/discover`: one that does not know it may not answer at all."""

MAX_OWN_REQUESTS: Final = 64
"""How many requests of its own a server may send while it answers one, or in a minute of a lasting connection."""

MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCommand:
    """The command of a server that is started here. `env` is added to the few variables that it inherits."""

    arguments: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None


class TokenSource(Protocol):
    """Has the tokens for a server."""

    async def get_token(self, rejected: str | None = None) -> str:
        """Returns a token, other than the one that the server rejected. Raises McpFault."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Returns what must not be in any text that leaves the gateway."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """Where a server is, and with which headers it is addressed. `headers` may hold credentials.

    `command` is that of a server without a URL. `uses_sse` is whether it has the older HTTP+SSE transport. `tokens`
    has those that change. `scrub` removes credentials from texts of the server.
    """

    label: str
    url: str = ""
    command: StdioCommand | None = None
    uses_sse: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)
    max_result_bytes: int = 5 * 1024 * 1024
    schema_limits: SchemaLimits = DEFAULT_SCHEMA_LIMITS
    connect_deadline_s: float = 10.0
    scrub: Callable[[str], str] = field(default=str, repr=False)

    @property
    def origin(self) -> str:
        """Where the server is, as one text."""
        return self.url if self.command is None else f"stdio:{' '.join(self.command.arguments)}"
