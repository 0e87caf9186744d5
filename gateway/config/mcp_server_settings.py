"""The configuration of the MCP servers that the operator offers to models and requests."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.mapped_tools.settings import MappedToolSettings
from providers.config import is_loopback
from providers.overrides import Number
from translation.hosted.policy import needs_approval

_Text = Annotated[str, Field(min_length=1)]

_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{0,32}")
LABEL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""The labels of servers. A label is the default of `prefix`, and requests name servers by label."""

_PLACES: Final = ("url", "sse", "stdio")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolFilterSettings(_Section):
    """Selects tools of a server by name or by the server's declarations. A tool must match all keys that are set."""

    tool_names: tuple[_Text, ...] | None = Field(
        default=None, description="Names of tools as the server lists them, without the prefix."
    )
    read_only: bool | None = Field(
        default=None,
        description="Whether the server declares the tool as read-only. Only declarations of a `trusted` server count.",
    )


class ApprovalSettings(_Section):
    """The calls that need an approval of the client, as in `require_approval` of the Responses API."""

    never: ToolFilterSettings | None = Field(default=None, description="Tools whose calls need no approval.")
    always: ToolFilterSettings | None = Field(default=None, description="Tools whose calls need an approval.")


class OAuthSettings(_Section):
    """Access tokens by OAuth. They are fetched when they are first needed, and again before they expire."""

    grant: Literal["client_credentials", "login"] = Field(
        default="client_credentials",
        description="`client_credentials`: the gateway identifies itself by its secret. `login`: a person logs in with "
        "`responses-gateway mcp login NAME`, and the tokens are stored encrypted.",
    )
    client_id: _Text = Field(description="The name by which the authorization server knows the gateway.")
    client_secret: SecretStr | None = Field(
        default=None,
        description="The gateway's secret at the authorization server. With `client_secret_env` it is read from the "
        "environment instead. With `login` it may be left out.",
    )
    client_secret_env: str | None = Field(default=None, description="The environment variable that holds the secret.")
    token_url: _Text | None = Field(
        default=None,
        description="The address of the token endpoint: https, or on this machine. If left out, it is taken from the "
        "metadata of the MCP server, whose addresses must be https, and on the public internet or in `egress.allow`.",
    )
    authorization_url: _Text | None = Field(
        default=None,
        description="The address of the login page for `login`. If left out, it is taken from the same metadata.",
    )
    scope: _Text | None = Field(default=None, description="The scopes to request, separated by spaces.")
    client_auth: Literal["basic", "post"] = Field(
        default="basic", description="How the secret is sent: in a header (`basic`) or in the form (`post`)."
    )

    @model_validator(mode="after")
    def _require_what_is_used(self) -> "OAuthSettings":
        if self.grant == "client_credentials" and self.client_secret is None:
            raise PydanticCustomError("oauth", "write client_secret or client_secret_env")
        if self.grant == "client_credentials" and self.authorization_url is not None:
            raise PydanticCustomError("oauth", "authorization_url is for grant: login")
        if self.grant == "login" and self.token_url is not None and self.authorization_url is None:
            raise PydanticCustomError("oauth", "write authorization_url too, or neither of the two addresses")
        return self

    @field_validator("token_url", "authorization_url")
    @classmethod
    def _refuse_plain_urls(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
            is_valid = bool(parts.hostname) and (parts.scheme == "https" or is_local) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise PydanticCustomError("url", "write an https address: the secret and the tokens go there")
        if "@" in parts.netloc:
            raise PydanticCustomError(
                "url", "write the address without a user: `client_id` and `client_secret` are sent"
            )
        return url


class McpAuthSettings(_Section):
    """The credentials that the gateway sends to a server."""

    bearer: SecretStr | None = Field(default=None, description="A token, sent as `Authorization: Bearer`.")
    bearer_env: str | None = Field(default=None, description="The environment variable that holds the token.")
    oauth: OAuthSettings | None = Field(default=None, description="OAuth, instead of a fixed token.")

    @model_validator(mode="after")
    def _refuse_two_tokens(self) -> "McpAuthSettings":
        if self.bearer is not None and self.oauth is not None:
            raise PydanticCustomError("auth", "write bearer or oauth, not both")
        return self


class ProbeSettings(_Section):
    """A call without side effects."""

    tool: _Text = Field(description="The name of the tool as the server lists it, without the prefix.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments of the call.")


class McpServerSettings(_Section):
    """One MCP server. Exactly one of `url`, `sse` and `stdio` is required. The address may be private."""

    url: _Text | None = Field(
        default=None,
        description="The address of a server with the streamable HTTP transport. Values in its query are treated as "
        "credentials.",
    )
    sse: _Text | None = Field(default=None, description="The address of a server with the older HTTP+SSE transport.")
    stdio: tuple[_Text, ...] | None = Field(
        default=None,
        min_length=1,
        description="The command of a server that the gateway starts itself, once per server process: the program and "
        "its arguments. It is started when a request first needs it, and again after it ends.",
    )
    env: dict[_Text, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables of the command. The command gets these and `HOME`, `LOGNAME`, `PATH`, "
        "`SHELL`, `TERM` and `USER`, and no others.",
    )
    cwd: _Text | None = Field(default=None, description="The working directory of the command.")
    auth: McpAuthSettings = Field(
        default=McpAuthSettings(), description="The credentials that the gateway sends to the server."
    )
    headers: dict[_Text, SecretStr] = Field(
        default_factory=dict, description="Headers that are added to every request to the server."
    )
    allow: tuple[_Text, ...] = Field(
        default=("*",),
        description="Names or patterns, with `*` and `?`, of the tools that may be used. Requests can allow fewer, but "
        "not more.",
    )
    approval: Literal["always", "never"] | ApprovalSettings = Field(
        default="always",
        description="The calls that need an approval of the client: `always`, `never`, or filters. A request can "
        "require more approvals than this, but not fewer.",
    )
    prefix: str | None = Field(
        default=None,
        description="The prefix of the tools' names for models, which see `PREFIX_NAME`: up to 32 letters, digits, `_` "
        "and `-`. If left out, the prefix is the server's name in this configuration. With an empty text models see "
        "`NAME`.",
    )
    repeat: Literal["safe", "unsafe"] = Field(
        default="unsafe",
        description="`safe`: a call whose outcome is unknown may be sent a second time. `unsafe`: it is never sent "
        "again.",
    )
    trusted: bool = Field(
        default=False,
        description="Whether to trust the server's declarations about its tools: read-only tools may need no approval, "
        "and calls of tools that are declared as safe to repeat may be repeated.",
    )
    start_deadline_s: Annotated[Number, Field(gt=0)] = Field(
        default=30.0, description="Seconds in which a connection must be open, including the start of the command."
    )
    list_deadline_s: Annotated[Number, Field(gt=0)] | None = Field(
        default=None,
        description="Seconds in which the server must list its tools. If left out, `tools.mcp.list_deadline_s`.",
    )
    call_deadline_s: Annotated[Number, Field(gt=0, le=900)] | None = Field(
        default=None, description="Seconds in which one call must end. If left out, `tools.mcp.call_deadline_s`."
    )
    list_ttl_s: Annotated[Number, Field(gt=0)] = Field(
        default=300.0,
        description="Seconds after which the list of the server's tools is read again, unless the server reports a "
        "change before.",
    )

    pins: dict[_Text, _Text] | None = Field(
        default=None,
        description="The [accepted definitions](mcp.md#pins) of tools, by their names: digests that `responses-gateway "
        "mcp pin NAME` prints. Tools with other definitions, and tools that are not named here, are held back. If left "
        "out, all definitions may be used.",
    )
    probe: ProbeSettings | None = Field(
        default=None, description="A call that [`doctor`](doctor.md#mcp-servers) may make to examine the server."
    )
    mapped_tools: dict[_Text, MappedToolSettings] = Field(
        default_factory=dict,
        alias="as",  # a word that Python has for itself
        description="Tools of the server, by the names that it lists, that are [run as a hosted tool]"
        "(mcp.md#tools-as-hosted-tools), such as `web_search`.",
    )

    @field_validator("prefix")
    @classmethod
    def _refuse_odd_prefixes(cls, prefix: str | None) -> str | None:
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            raise PydanticCustomError("prefix", "write up to 32 letters, digits, _ and -")
        return prefix

    @field_validator("url", "sse")
    @classmethod
    def _refuse_invalid_urls(cls, url: str | None) -> str | None:
        try:
            parts = urlsplit(url or "http://host")
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or "@" in parts.netloc:
            raise PydanticCustomError(
                "url", "write an address such as https://mcp.example.com/mcp, and credentials in auth"
            )
        return url

    @model_validator(mode="after")
    def _require_one_place(self) -> "McpServerSettings":
        places = [name for name in _PLACES if getattr(self, name) is not None]
        if len(places) != 1:
            raise PydanticCustomError("place", "write exactly one of url, sse and stdio")
        if self.stdio is None and (self.env or self.cwd):
            raise PydanticCustomError("place", "env and cwd are for servers with stdio: leave them out")
        if self.stdio is not None and (self.headers or self.auth != McpAuthSettings()):
            raise PydanticCustomError("place", "auth and headers are for servers with url or sse: use env for stdio")
        return self

    @model_validator(mode="after")
    def _refuse_equal_headers(self) -> "McpServerSettings":
        # Names of headers have no case (RFC 9110, section 5.1), and servers differ in which of two they read.
        names = [name.lower() for name in self.headers]
        if len({*names}) < len(names):
            raise PydanticCustomError("headers", "headers has one name twice, in upper and lower case: remove one")
        if "authorization" in names and self.auth != McpAuthSettings():
            raise PydanticCustomError("headers", "write auth or the header Authorization, not both")
        return self

    @model_validator(mode="after")
    def _refuse_unusable_mappings(self) -> "McpServerSettings":
        for name in self.mapped_tools:
            problem = None
            if not self.allows(name):
                problem = f"`allow` leaves the tool {name!r} out, which `as` names: add it to `allow`"
            elif self.pins is not None and name not in self.pins:
                problem = f"`pins` hold the tool {name!r} back, which `as` names: add its definition to `pins`"
            # Whether a tool is read-only is only known once its server is connected.
            elif any(needs_approval(self.require_approval, name, is_read_only=each) for each in (True, False)):
                problem = (
                    f"`as` names {name!r}, whose calls may need an approval (`approval`), and the client of a hosted "
                    f"tool is not asked for one: write `approval: {{never: {{tool_names: [{name}]}}}}`"
                )
            if problem is not None:
                raise PydanticCustomError("mapped_tool", "{problem}", {"problem": problem})
        return self

    @property
    def address(self) -> str:
        """The URL of the server; empty for a command."""
        return self.url or self.sse or ""

    @property
    def host(self) -> str | None:
        """The host of its address; None for a command."""
        return urlsplit(self.address).hostname

    @property
    def addresses(self) -> Mapping[tuple[str, ...], str]:
        """All configured addresses, by the path of their key. Their queries may contain credentials."""
        urls: dict[tuple[str, ...], str | None] = {("url",): self.url, ("sse",): self.sse}
        if (oauth := self.auth.oauth) is not None:
            urls["auth", "oauth", "token_url"] = oauth.token_url
            urls["auth", "oauth", "authorization_url"] = oauth.authorization_url
        return {path: url for path, url in urls.items() if url}

    @property
    def require_approval(self) -> Any:
        """The approvals in the form of `require_approval` of a request."""
        return self.approval if isinstance(self.approval, str) else self.approval.model_dump(exclude_none=True)

    def allows(self, name: str) -> bool:
        """Whether a tool of this name may be used."""
        return any(fnmatchcase(name, pattern) for pattern in self.allow)

    def resolve_prefix(self, label: str) -> str:
        """Returns the prefix of the names of a server with this label; an empty text for none."""
        return label if self.prefix is None else self.prefix

    def list_secrets(self) -> list[str]:
        """Returns the credentials, which are redacted from every text that leaves the gateway."""
        in_queries = [secret for url in self.addresses.values() for secret in _list_query_values(url)]
        secrets = [*self.headers.values(), *self.env.values()]
        if self.auth.bearer is not None:
            secrets.append(self.auth.bearer)
        if self.auth.oauth is not None and self.auth.oauth.client_secret is not None:
            secrets.append(self.auth.oauth.client_secret)
        return [*in_queries, *(secret.get_secret_value() for secret in secrets)]


def _list_query_values(url: str) -> list[str]:
    """Returns the values in the query of an address, and the parameters without one."""
    return [value or name for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)]


class ModelFileSearch(_Section):
    """A search in files of the operator, for all clients of a model."""

    vector_store_ids: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=16)] = Field(
        description="The vector stores, of whatever key. Every key that may use the model can search them."
    )


class ModelToolSettings(_Section):
    """Tools that the gateway adds to every request for a model."""

    mcp: tuple[_Text, ...] = Field(default=(), description="Servers of `tools.mcp.servers` whose tools are added.")
    web_search: bool = Field(
        default=False,
        description="Whether a web search is added, which the engine of `tools.web_search` runs, or a tool of an MCP "
        "server (`as`).",
    )

    file_search: ModelFileSearch | None = Field(
        default=None,
        description="A search in vector stores that is added. Requests with a file search of their own do not get it.",
    )

    code_interpreter: bool = Field(
        default=False,
        description="Whether a code interpreter is added, which a tool of an MCP server (`as`) runs.",
    )

    def list_added_tools(self) -> list[dict[str, Any]]:
        """Returns the tools besides those of MCP servers, as tools of the Responses API."""
        added: list[dict[str, Any]] = [{"type": "web_search"}] if self.web_search else []
        if self.file_search is not None:
            added.append({"type": "file_search", "vector_store_ids": list(self.file_search.vector_store_ids)})
        if self.code_interpreter:
            added.append({"type": "code_interpreter", "container": {"type": "auto"}})
        return added


def find_server_problem(servers: Mapping[str, McpServerSettings]) -> str | None:
    """Returns the problem with the names of the servers; None if there is none."""
    prefixes: dict[str, str] = {}
    for label, server in servers.items():
        if not LABEL.fullmatch(label):
            return f"{label!r} is not a valid name: write up to 32 letters, digits, _ and -, beginning with a letter"
        prefix = server.resolve_prefix(label)
        if not prefix:
            continue  # equal names of their tools are found when they are listed
        if (other := prefixes.setdefault(prefix.casefold(), label)) != label:
            return f"{other} and {label} have the same prefix {prefix!r}: give one of them another"
    return None
