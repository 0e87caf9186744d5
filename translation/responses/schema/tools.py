"""The shapes of `tools` and `tool_choice` in a Responses request.

Only keys that the gateway reads are checked. Unknown types of tools are valid: planning drops them and reports a loss,
or sends them to an upstream that runs them.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypedDict

from translation.validation import Name, discriminate_by, discriminate_by_shape


def _by_known_type(*known: str) -> Discriminator:
    """Returns a discriminator by `type`. Every type that is not `known` gets the tag "other"."""
    tags = dict(zip(known, known, strict=True))

    def choose(value: object) -> str | None:
        if isinstance(value, dict) and isinstance(kind := value.get("type"), str):
            return tags.get(kind, "other")
        return None

    choose.__name__ = "type"
    return Discriminator(choose)


class Other(TypedDict):
    type: Name


class Function(TypedDict):
    type: Literal["function"]
    name: Name
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class TextFormat(TypedDict):
    type: Literal["text"]


class Grammar(TypedDict):
    type: Literal["grammar"]
    definition: str
    syntax: Literal["lark", "regex"]


class Custom(TypedDict):
    type: Literal["custom"]
    name: Name
    description: NotRequired[str | None]
    format: NotRequired[
        Annotated[Annotated[TextFormat, Tag("text")] | Annotated[Grammar, Tag("grammar")], discriminate_by("type")]
        | None
    ]


class Namespace(TypedDict):
    type: Literal["namespace"]
    name: Name
    description: NotRequired[str | None]
    tools: list[
        Annotated[
            Annotated[Function, Tag("function")] | Annotated[Custom, Tag("custom")] | Annotated[Other, Tag("other")],
            _by_known_type("function", "custom"),
        ]
    ]


class FileSearch(TypedDict):
    type: Literal["file_search"]
    vector_store_ids: list[str]


class ToolFilter(TypedDict):
    tool_names: NotRequired[list[str] | None]
    read_only: NotRequired[bool | None]


class ApprovalFilter(TypedDict):
    always: NotRequired[ToolFilter | None]
    never: NotRequired[ToolFilter | None]


class Mcp(TypedDict):
    type: Literal["mcp"]
    server_label: Name
    server_url: NotRequired[str | None]
    connector_id: NotRequired[str | None]
    tunnel_id: NotRequired[str | None]
    server_description: NotRequired[str | None]
    defer_loading: NotRequired[bool | None]
    allowed_callers: NotRequired[list[str] | None]
    headers: NotRequired[dict[str, str] | None]
    authorization: NotRequired[str | None]
    allowed_tools: NotRequired[
        Annotated[
            Annotated[list[str], Tag("plain")] | Annotated[ToolFilter, Tag("object")], discriminate_by_shape(list)
        ]
        | None
    ]
    require_approval: NotRequired[
        Annotated[
            Annotated[Literal["always", "never"], Tag("plain")] | Annotated[ApprovalFilter, Tag("object")],
            discriminate_by_shape(str),
        ]
        | None
    ]


class CodeInterpreter(TypedDict):
    type: Literal["code_interpreter"]
    container: str | dict[str, Any]


class ComputerUsePreview(TypedDict):
    type: Literal["computer_use_preview"]
    display_width: int
    display_height: int
    environment: Literal["windows", "mac", "linux", "ubuntu", "browser"]


class ToolSearch(TypedDict):
    type: Literal["tool_search"]
    execution: NotRequired[Literal["server", "client"] | None]
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]


Tool: TypeAlias = Annotated[
    Annotated[Function, Tag("function")]
    | Annotated[Custom, Tag("custom")]
    | Annotated[Namespace, Tag("namespace")]
    | Annotated[FileSearch, Tag("file_search")]
    | Annotated[Mcp, Tag("mcp")]
    | Annotated[CodeInterpreter, Tag("code_interpreter")]
    | Annotated[ComputerUsePreview, Tag("computer_use_preview")]
    | Annotated[ToolSearch, Tag("tool_search")]
    | Annotated[Other, Tag("other")],
    _by_known_type(
        "function",
        "custom",
        "namespace",
        "file_search",
        "mcp",
        "code_interpreter",
        "computer_use_preview",
        "tool_search",
    ),
]


Tools: TypeAlias = Annotated[list[Tool], Field(fail_fast=True)]


class ChosenByName(TypedDict):
    type: Literal["function", "custom", "namespace"]
    name: Name
    namespace: NotRequired[str | None]


class ChosenServer(TypedDict):
    type: Literal["mcp"]
    server_label: Name
    name: NotRequired[str | None]


AllowedTool: TypeAlias = Annotated[
    Annotated[ChosenByName, Tag("function")]
    | Annotated[ChosenByName, Tag("custom")]
    | Annotated[ChosenByName, Tag("namespace")]
    | Annotated[Other, Tag("other")],
    _by_known_type("function", "custom", "namespace"),
]


class AllowedTools(TypedDict):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedTool], Field(min_length=1)]


ToolChoice: TypeAlias = (
    Literal["none", "auto", "required"]
    | Annotated[
        Annotated[ChosenByName, Tag("function")]
        | Annotated[ChosenByName, Tag("custom")]
        | Annotated[ChosenByName, Tag("namespace")]
        | Annotated[ChosenServer, Tag("mcp")]
        | Annotated[AllowedTools, Tag("allowed_tools")]
        | Annotated[Other, Tag("other")],
        _by_known_type("function", "custom", "namespace", "mcp", "allowed_tools"),
    ]
)
"""Any other `type` chooses a tool that has no name of its own: `shell`, `apply_patch`, `web_search`, ..."""
