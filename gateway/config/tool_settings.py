"""The configuration of the tools that the gateway runs itself."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.mcp_server_settings import McpServerSettings, find_server_problem
from gateway.config.yaml_file import Problem
from providers.overrides import Number, WholeNumber
from translation.hosted.bounds import AnswerLimits, LoopBounds, SchemaLimits
from translation.representation.json_types import mapping_or_empty

SearchEngineName = Literal["searxng", "brave", "tavily"]

_MB: Final = 1024 * 1024
_KEYLESS: Final = "searxng"

_PARSERS: Final = frozenset({"builtin", "markitdown", "docling"})
_DOCLING_URL: Final = "http://127.0.0.1:5001"
_PARSER_PACKAGE: Final = "markitdown"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AdminServerSettings(_Section):
    """Servers that keys with `admin: true` [add over the API](mcp.md#add-servers-over-the-api)."""

    private_hosts: bool = Field(
        default=False,
        description="Whether added servers may have addresses outside the public internet. Hosts in `egress.allow` are "
        "always allowed.",
    )
    poll_s: Annotated[Number, Field(ge=0.05, le=3600)] = Field(
        default=2.0, description="Seconds between two polls for servers that other processes added or removed."
    )
    max_servers: Annotated[WholeNumber, Field(ge=0)] = Field(
        default=64, description="The most servers that can be added."
    )


class McpSettings(_Section):
    """MCP servers whose tools the gateway runs for models."""

    request_servers: Literal["off", "public"] = Field(
        default="public",
        description="The servers that a request may name by their address. `public`: servers on the public internet, "
        "and hosts in `egress.allow`. `off`: none.",
    )
    servers: dict[str, McpServerSettings] = Field(
        default_factory=dict,
        description="Your own servers, each with a name of your choice. A request selects one by `server_label` "
        "without `server_url`, and a model by its key `tools`.",
    )
    admin: AdminServerSettings = Field(
        default=AdminServerSettings(), description="Servers that are added over the API while the gateway runs."
    )
    list_deadline_s: Annotated[Number, Field(gt=0)] = Field(
        default=10.0, description="Seconds in which a server must list its tools."
    )
    call_deadline_s: Annotated[Number, Field(gt=0)] = Field(
        default=60.0, description="Seconds in which one call must end."
    )
    max_servers: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=16, description="The most servers that one request may name."
    )
    max_sessions: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=1000,
        description="The most connections that the requests of one key have open at once to servers that they name by "
        "their address, in one process.",
    )
    max_tools: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=512, description="The most tools of all servers of one request."
    )
    max_list_pages: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=32, description="The most pages of a server's list of tools."
    )
    max_schema_kb: Annotated[Number, Field(gt=0)] = Field(
        default=64.0, description="The largest schema of a tool, in KiB. A tool with a larger one is left out."
    )
    max_schema_depth: Annotated[WholeNumber, Field(ge=1, le=200)] = Field(
        default=32, description="How deep objects may be nested in the schema of a tool."
    )
    max_result_mb: Annotated[Number, Field(gt=0)] = Field(
        default=5.0, description="The largest reply of a server, in MiB."
    )
    max_result_values: Annotated[WholeNumber, Field(ge=100)] = Field(
        default=80_000,
        description="The most JSON values in one reply of a server: objects, lists, and what they contain. Replies are "
        "weighed before they are parsed.",
    )
    max_result_depth: Annotated[WholeNumber, Field(ge=8, le=150)] = Field(
        default=100,
        description="How deep objects and lists may be nested in one tool of a server's list, or in one result. A "
        "deeper tool or result is left out.",
    )
    max_result_parts: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=2_000, description="The most parts (texts, images, links) in the content of one result."
    )
    max_listed_tools: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=10_000, description="The most tools on one page of a server's list."
    )
    total_result_mb: Annotated[Number, Field(gt=0)] = Field(
        default=20.0, description="The largest size of all results of one response together, in MiB."
    )
    result_chars: Annotated[WholeNumber, Field(ge=100)] = Field(
        default=100_000, description="The most characters of a result that the model reads. More is cut in the middle."
    )
    removal_grace_s: Annotated[Number, Field(ge=0)] = Field(
        default=10.0,
        description="Seconds in which open calls may end after their server was removed from the configuration.",
    )
    rounds: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=32,
        description="The most requests to the model with tools in one response. After them, the model gets one more "
        "request without tools, so that it answers.",
    )
    calls: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=64, description="The most calls in one response. `max_tool_calls` of a request can lower this limit."
    )
    identical_calls: Annotated[WholeNumber, Field(ge=2)] = Field(
        default=3,
        description="The limit of identical calls with identical results in one response. The call that reaches it is "
        "not run: it gets a hint as its result, and the model has to answer.",
    )
    errors_in_a_row: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=5, description="After this many failed calls in a row, the model has to answer."
    )
    argument_kb: Annotated[Number, Field(gt=0)] = Field(
        default=200.0,
        description="The longest arguments of a call, in kB (1000 bytes). A response with longer arguments is "
        "`incomplete`.",
    )
    loop_deadline_s: Annotated[Number, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds after which the model gets no more tools in a response, so that it answers. Background "
        "responses have no such limit.",
    )
    parallel_calls: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=8, description="The most calls of one response that run at once."
    )
    open_approvals: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=32, description="The most approvals and user inputs that one response may request."
    )
    approval_days: Annotated[Number, Field(gt=0)] = Field(
        default=7.0, description="Days until a request for an approval, or for input, can no longer be answered."
    )

    input_rounds: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=10, description="The most times that one call may request input from the user."
    )
    max_input_kb: Annotated[Number, Field(gt=0)] = Field(
        default=64.0,
        description="The largest request of one call for user input, in KiB, and the largest state that its server "
        "gets back with the answer.",
    )

    @field_validator("servers")
    @classmethod
    def _refuse_equal_prefixes(cls, servers: dict[str, McpServerSettings]) -> dict[str, McpServerSettings]:
        if (problem := find_server_problem(servers)) is not None:
            raise PydanticCustomError("servers", "{problem}", {"problem": problem})
        return servers

    @property
    def answer_limits(self) -> AnswerLimits:
        """The bounds of one reply of a server."""
        return AnswerLimits(
            max_bytes=int(self.max_result_mb * _MB),
            max_values=self.max_result_values,
            max_depth=self.max_result_depth,
            max_parts=self.max_result_parts,
            max_listed=self.max_listed_tools,
        )

    @property
    def schema_limits(self) -> SchemaLimits:
        """The limits of a tool's schema."""
        return SchemaLimits(max_bytes=int(self.max_schema_kb * 1024), max_depth=self.max_schema_depth)

    def build_bounds(self, max_tool_calls: int | None, *, in_background: bool = False) -> LoopBounds:
        """Returns the bounds of a response. `max_tool_calls` is the limit that its request sets, if any."""
        calls = self.calls if max_tool_calls is None else min(self.calls, max_tool_calls)
        seconds = None if in_background else self.loop_deadline_s
        return LoopBounds(
            rounds=self.rounds,
            calls=calls,
            identical_calls=self.identical_calls,
            errors_in_a_row=self.errors_in_a_row,
            argument_bytes=int(self.argument_kb * 1000),
            seconds=seconds,
            open_approvals=self.open_approvals,
            total_result_bytes=int(self.total_result_mb * _MB),
            result_chars=self.result_chars,
        )


class WebSearchSettings(_Section):
    """Web searches ([tools.md](tools.md#web-search)). Without an engine there are none."""

    engine: SearchEngineName | None = Field(
        default=None,
        description="The search engine: `searxng` (a server of yours, with `url`), `brave` or `tavily` (with a key). "
        "Without one, the tool `web_search` is left to upstreams that have it.",
    )
    url: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The address of the engine, which may be private. SearXNG needs it, and its format `json`. "
        "The others have one by default.",
    )
    key: SecretStr | None = Field(default=None, description="The key of the engine.")
    key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
    deadline_s: Annotated[Number, Field(gt=0, le=120)] = Field(
        default=8.0, description="Seconds in which the engine must answer a search."
    )
    max_queries: Annotated[WholeNumber, Field(ge=1, le=20)] = Field(
        default=4, description="The most queries of one call. Each is a request to the engine."
    )
    max_reply_mb: Annotated[Number, Field(gt=0, le=64)] = Field(
        default=2.0, description="The largest reply of the engine, in MiB."
    )
    pages: bool = Field(
        default=True,
        description="Whether the model may open pages of the web, and search in them: only addresses on the public "
        "internet, and hosts in `egress.allow`. An address that the model makes up can carry data out.",
    )
    page_deadline_s: Annotated[Number, Field(gt=0, le=120)] = Field(
        default=10.0, description="Seconds in which a page must be complete, with its redirects."
    )
    max_page_mb: Annotated[Number, Field(gt=0, le=64)] = Field(
        default=5.0, description="The most of a page that is read, in MiB. The model is informed of the cut."
    )
    page_chars: Annotated[WholeNumber, Field(ge=1000, le=1_000_000)] = Field(
        default=50_000, description="The most characters of an opened page that the model reads."
    )

    @model_validator(mode="after")
    def _require_what_the_engine_needs(self) -> "WebSearchSettings":
        if self.engine is None:
            return self
        if self.engine == _KEYLESS and self.url is None:
            raise PydanticCustomError("web_search", "write the url of the SearXNG server")
        if self.engine != _KEYLESS and self.key is None:
            raise PydanticCustomError("web_search", "write key_env, the environment variable with the key")
        if self.url is not None and not _is_address(self.url):
            raise PydanticCustomError("web_search", "write a url that begins with http:// or https://, without a user")
        return self

    @property
    def max_page_bytes(self) -> int:
        """The most bytes of a page that are read."""
        return int(self.max_page_mb * _MB)

    @property
    def max_reply_bytes(self) -> int:
        """The most bytes of a reply of the engine."""
        return int(self.max_reply_mb * _MB)


class ToolSearchSettings(_Section):
    """Searches for tools, so that models need not read all of them ([tools.md](tools.md#tool-search))."""

    results: Annotated[WholeNumber, Field(ge=1, le=50)] = Field(
        default=5, description="The most tools that one search loads."
    )
    auto: Annotated[WholeNumber, Field(ge=0)] | None = Field(
        default=None,
        description="A request with more tools of MCP servers than this is served as if it had the tool `tool_search`, "
        "and `defer_loading` for all of them. Without a number, requests decide themselves.",
    )
    max_tools: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=10_000, description="The most tools of one request that a search can find."
    )


class EmbeddingSettings(_Section):
    """The model whose vectors let searches also find texts with other words."""

    provider: Annotated[str, Field(min_length=1)] = Field(description="A provider that has `/v1/embeddings`.")
    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="Its name at the provider.")
    dimensions: WholeNumber | None = Field(
        default=None, ge=1, le=16_000, description="The size that is requested, for models with several."
    )


class FileSearchSettings(_Section):
    """Vector stores, and the reading of the files in them."""

    max_files: WholeNumber = Field(default=10_000, ge=1, description="The most files of one vector store.")
    max_file_tokens: WholeNumber = Field(
        default=5_000_000, ge=1, description="The most tokens of one file in a vector store. A token is about a word."
    )
    parse_s: Number = Field(
        default=60.0, gt=0, description="Seconds that reading one file may take. It happens in a process of its own."
    )
    parse_mb: WholeNumber = Field(default=1024, ge=64, description="Memory that reading one file may take, in MiB.")
    parse_chars: WholeNumber = Field(
        default=20_000_000, ge=1, description="The most characters of the text of one file."
    )
    parser: str = Field(
        default="builtin",
        description="What reads files that are more than a text ([file-search.md](file-search.md#other-parsers)): "
        "`builtin`, `markitdown` (needs the extra `markitdown`), `docling` (a docling-serve on this machine, at its "
        "port 5001), or the address of a docling-serve.",
    )
    parser_key: SecretStr | None = Field(default=None, description="The key of the docling-serve, if it has one.")
    parser_key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
    workers: WholeNumber = Field(
        default=2,
        ge=1,
        le=64,
        description="The most files that one server process reads at once, and one more of an owner without any of "
        "them.",
    )
    tries: WholeNumber = Field(
        default=12,
        ge=1,
        le=100,
        description="How often the indexing of a file is tried if the model of embeddings, the parser service or the "
        "storage of the file fails for a reason that may pass: status 429 or 5xx, no connection, no reply in time. "
        "Meanwhile the file is `in_progress`. The waits double from one second to five minutes, or are as long as the "
        "upstream says: a quarter of an hour together with the default.",
    )
    embeddings: EmbeddingSettings | None = Field(
        default=None,
        description="A model of embeddings, so that searches go by words and by meaning. Without one they go by words. "
        "PostgreSQL needs the extension `vector` (pgvector) for it.",
    )

    @field_validator("parser")
    @classmethod
    def _refuse_unknown_parsers(cls, parser: str) -> str:
        if parser in _PARSERS or _is_address(parser):
            return parser
        raise PydanticCustomError(
            "parser",
            "write builtin, markitdown, docling, or a url that begins with http:// or https://, without a user",
        )

    @property
    def parser_url(self) -> str | None:
        """The address of the parser service; None if files are read without one."""
        return _DOCLING_URL if self.parser == "docling" else None if self.parser in _PARSERS else self.parser


class ToolSettings(_Section):
    """Tools that the gateway runs itself."""

    mcp: McpSettings = Field(default=McpSettings(), description="Tools of MCP servers.")
    web_search: WebSearchSettings = Field(
        default=WebSearchSettings(), description="Web searches that the gateway runs for models."
    )
    tool_search: ToolSearchSettings = Field(
        default=ToolSearchSettings(), description="Searches for tools that models do not see at first."
    )
    file_search: FileSearchSettings = Field(
        default=FileSearchSettings(), description="Vector stores, and the reading of the files in them."
    )
    events: bool = Field(
        default=False,
        description="Adds events about tools (`gateway.*`) to every stream of the Responses API, as if clients sent "
        "`tool_events: true`.",
    )


def check_parser_package(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields a problem if MarkItDown is to read files and is not installed. `tree` is the unvalidated configuration."""
    settings = mapping_or_empty(mapping_or_empty(tree.get("tools")).get("file_search"))
    if settings.get("parser") == "markitdown" and find_spec(_PARSER_PACKAGE) is None:
        yield Problem(
            ("tools", "file_search", "parser"),
            'markitdown is not installed: pip install "responses-gateway[markitdown]"',
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False
