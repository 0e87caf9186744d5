"""The address of an MCP server, with its headers, tokens and limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from translation.hosted.bounds import DEFAULT_ANSWER_LIMITS, DEFAULT_SCHEMA_LIMITS, AnswerLimits, SchemaLimits

PROBE_S: Final = 3.0
"""The deadline of `server/discover`: a server that does not know it may not answer at all."""

MAX_OWN_REQUESTS: Final = 64
"""The number of requests that a server may send during one answer, or in a minute of a lasting connection."""

MAX_DROPPED: Final = 50_000
"""The number of messages that nothing reads, such as progress, during one answer, or in a minute of a lasting
connection."""

MAX_DROPPED_BYTES: Final = 64 * 1024 * 1024
"""The size of these messages together."""

MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCommand:
    """The command that starts a server. `env` is added to the few variables that it inherits."""

    arguments: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None


class TokenSource(Protocol):
    """Provides the tokens for a server."""

    async def get_token(self, rejected: str | None = None) -> str:
        """Returns a token, other than the one that the server rejected. Raises McpFault."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Returns the credentials, which are redacted from every text that leaves the gateway."""
        ...

    async def aclose(self) -> None:
        """Waits for tokens that were requested and must be stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """The address of a server, and how requests are sent to it. `headers` may hold credentials.

    `command` starts a server without a URL. `uses_sse`: the server has the older HTTP+SSE transport. `tokens` provides
    credentials that change. `scrub` removes credentials from texts of the server.
    """

    label: str
    url: str = ""
    command: StdioCommand | None = None
    uses_sse: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)
    limits: AnswerLimits = DEFAULT_ANSWER_LIMITS
    schema_limits: SchemaLimits = DEFAULT_SCHEMA_LIMITS
    connect_deadline_s: float = 10.0
    scrub: Callable[[str], str] = field(default=str, repr=False)

    @property
    def origin(self) -> str:
        """The address or the command of the server, as one text."""
        return self.url if self.command is None else f"stdio:{' '.join(self.command.arguments)}"
