"""The shape of a Responses request: every parameter of the API, its type and its limits.

Null means the same as a missing key. Keys that the API does not have are no errors, they become `Turn.extra`. Long
lists are checked up to their first error, so that a malformed body costs no more time than a valid one.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field, Tag
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.lenient_validation import LenientSchema
from translation.representation.json_types import Json
from translation.representation.loss import UnknownKey
from translation.representation.shared_tools import SharedTools
from translation.responses.schema import items, tools
from translation.responses.schema.items import InputItem
from translation.responses.schema.parts import Includable
from translation.responses.schema.tools import TextFormat, ToolChoice, Tools
from translation.unknown_fields import UnknownFields
from translation.validation import Metadata, Name, Penalty, build_adapter, check_body, discriminate_by

Summary: TypeAlias = Literal["auto", "concise", "detailed"]


class JsonObjectFormat(TypedDict):
    type: Literal["json_object"]


class JsonSchemaFormat(TypedDict):
    type: Literal["json_schema"]
    name: Name
    schema: dict[str, Any]
    strict: NotRequired[bool | None]
    description: NotRequired[str | None]


class Text(TypedDict):
    format: NotRequired[
        Annotated[
            Annotated[TextFormat, Tag("text")]
            | Annotated[JsonObjectFormat, Tag("json_object")]
            | Annotated[JsonSchemaFormat, Tag("json_schema")],
            discriminate_by("type"),
        ]
        | None
    ]
    verbosity: NotRequired[Literal["low", "medium", "high"] | None]


class Reasoning(TypedDict):
    """The `reasoning` parameter. `max_tokens` is an extension: the budget for thinking, in tokens."""

    effort: NotRequired[Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None]
    summary: NotRequired[Summary | None]
    generate_summary: NotRequired[Summary | None]
    context: NotRequired[Literal["auto", "current_turn", "all_turns"] | None]
    mode: NotRequired[str | None]
    max_tokens: NotRequired[Annotated[int, Field(ge=1)] | None]


class StreamOptions(TypedDict):
    include_obfuscation: NotRequired[bool | None]


class Prompt(TypedDict):
    id: str
    version: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]


class Conversation(TypedDict):
    id: str


class ContextManagement(TypedDict):
    type: Literal["compaction"]
    compact_threshold: NotRequired[Annotated[int, Field(ge=1)] | None]


class PromptCacheOptions(TypedDict):
    mode: NotRequired[Literal["implicit", "explicit"] | None]
    ttl: NotRequired[Literal["30m", "12h"] | None]


class Moderation(TypedDict):
    model: str


class Request(TypedDict):
    """The body of `POST /v1/responses`.

    The penalties are from Open Responses. `seed`, `stop`, `logit_bias` and `thinking` are extensions of this server,
    and `client_metadata` is sent by Codex. `resumable` is an extension too: the client can resume the stream after a
    disconnect. So is `tool_events`: the stream has events about the tools that the gateway runs.
    And so is `elicitation`: the client can be asked for input that calls of tools need.
    """

    model: Name
    input: NotRequired[str | Annotated[list[InputItem], Field(fail_fast=True)] | None]
    access_programs: NotRequired[dict[str, Any] | None]
    background: NotRequired[bool | None]
    client_metadata: NotRequired[dict[str, Any] | None]
    context_management: NotRequired[list[ContextManagement] | None]
    conversation: NotRequired[str | Conversation | None]
    frequency_penalty: NotRequired[Penalty | None]
    image: NotRequired[dict[str, Any] | None]
    include: NotRequired[list[Includable] | None]
    instructions: NotRequired[str | None]
    logit_bias: NotRequired[dict[str, Annotated[float, Field(ge=-100, le=100)]] | None]
    max_output_tokens: NotRequired[Annotated[int, Field(ge=16)] | None]
    max_tool_calls: NotRequired[Annotated[int, Field(ge=1)] | None]
    metadata: NotRequired[Metadata | None]
    moderation: NotRequired[Moderation | None]
    parallel_tool_calls: NotRequired[bool | None]
    presence_penalty: NotRequired[Penalty | None]
    previous_response_id: NotRequired[str | None]
    prompt: NotRequired[Prompt | None]
    prompt_cache_key: NotRequired[str | None]
    prompt_cache_options: NotRequired[PromptCacheOptions | None]
    prompt_cache_retention: NotRequired[Literal["in_memory", "24h"] | None]
    reasoning: NotRequired[Reasoning | None]
    resumable: NotRequired[bool | None]
    safety_identifier: NotRequired[Annotated[str, Field(max_length=128)] | None]
    seed: NotRequired[int | None]
    service_tier: NotRequired[Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"] | None]
    stop: NotRequired[str | Annotated[list[str], Field(max_length=4)] | None]
    store: NotRequired[bool | None]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptions | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=2)] | None]
    text: NotRequired[Text | None]
    thinking: NotRequired[bool | None]
    tool_events: NotRequired[bool | None]
    elicitation: NotRequired[bool | None]
    tool_choice: NotRequired[ToolChoice | None]
    tools: NotRequired[Tools | None]
    top_logprobs: NotRequired[Annotated[int, Field(ge=0, le=20)] | None]
    top_p: NotRequired[Annotated[float, Field(ge=0, le=1)] | None]
    truncation: NotRequired[Literal["auto", "disabled"] | None]
    user: NotRequired[str | None]


COMPACT_FIELDS = (
    *("model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options"),
    *("prompt_cache_retention", "service_tier", "image"),
)
"""Parameters of `POST /v1/responses/compact`."""

COUNT_FIELDS = (
    *("model", "input", "instructions", "previous_response_id", "conversation", "tools", "tool_choice"),
    *("parallel_tool_calls", "reasoning", "text", "truncation"),
)
"""Parameters of `POST /v1/responses/input_tokens`."""

_OUTPUT_KEYS: Final = ("logprobs", "details", "created_by", "error")
"""Keys that items have in replies, and that say nothing to a model. Clients send such items back."""

_PARTLY_DESCRIBED: Final = (
    *(items.Compaction, items.ConfigurationUpdate, items.FileSearchCall, items.WebSearchCall, items.ComputerCall),
    *(items.Screenshot, items.CodeInterpreterCall, items.ImageGenerationCall, items.McpListTools, items.McpListedTool),
    *(items.McpCall, items.McpError, items.McpApprovalRequest, items.McpApprovalResponse, items.ToolSearchCall),
    *(items.ToolSearchOutput, items.Program, items.ProgramOutput),
    *(items.LocalShellAction, items.ShellAction, items.ShellOutput, items.WriteFile, items.DeleteFile),
    *(tools.FileSearch, tools.CodeInterpreter, tools.ComputerUsePreview, tools.ToolSearch),
)
"""Items, parts of them and tools of which the schema has only the keys that the gateway reads. They are sent or left
out whole."""


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(Request, skipped=_PARTLY_DESCRIBED, ignored=_OUTPUT_KEYS, indexed=False)


@cache
def _object_fields() -> frozenset[str]:
    """Returns the parameters besides `input` that hold objects with keys of the schema."""
    return _unknown_fields().members - {"input"}


def find_unknown_in_request(body: Json) -> list[UnknownKey]:
    """Returns the keys inside a valid body that the schema does not have, except its own keys."""
    if _object_fields().isdisjoint(body) and isinstance(body.get("input"), str):
        return []  # most requests have no object that the schema describes
    tools = body.get("tools")
    if not isinstance(tools, SharedTools):
        return _unknown_fields().find_keys(body)
    return [*_unknown_fields().find_keys({**body, "tools": None}), *tools.derive(_find_unknown_in_tools)]


def _find_unknown_in_tools(tools: Sequence[Json]) -> list[UnknownKey]:
    return _unknown_fields().find_keys({"tools": [*tools]})


REQUEST_FIELDS = frozenset(Request.__annotations__)
"""Every parameter that the endpoint knows."""


_INPUT_SOURCES = ("previous_response_id", "conversation", "prompt")
"""Parameters that provide input, so that a request with one of them may omit `input`."""


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first malformed field, or if no input is given. See `validation.check_body`."""
    if isinstance(body, dict) and isinstance(tools := body.get("tools"), SharedTools):
        check_body(_REQUEST, {**body, "tools": None} if tools.is_valid else body)
        tools.is_valid = True
    else:
        check_body(_REQUEST, body)
    if body.get("input") is None:
        _require_input(body)
    if body.get("stream_options") is not None and not body.get("stream"):
        raise InvalidRequest("'stream_options' is only allowed when 'stream' is true.", param="stream_options")


def _require_input(body: Json) -> None:
    if body.get("input") is None and not any(body.get(source) for source in _INPUT_SOURCES):
        raise InvalidRequest("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")


_REQUEST = build_adapter(Request)
"""Built at import, because building it while the first request waits takes too long."""


_LENIENT: Final = LenientSchema(_REQUEST)


def keep_known(body: Json) -> Json:
    """Returns the known part of a body that is not valid, whose values only a Responses upstream can judge.

    Raises InvalidRequest if the body is malformed.
    """
    known = _LENIENT.keep_known(body)
    _require_input(body)
    return known


@cache
def _request_schema() -> Json:
    # With its own `$id`, the schema's references resolve inside it wherever it is embedded.
    return {"$id": "create-response", **_REQUEST.json_schema()}


REQUEST_SCHEMA = _request_schema
"""Returns the JSON schema of a request, for `/openapi.json`. It is built at the first call."""


def partial_request_schema(name: str, fields: Sequence[str]) -> Json:
    """Returns the JSON schema of a request that has only the parameters in `fields`, for `/openapi.json`.

    `name` is its `$id`.
    """
    whole = _request_schema()
    return {**whole, "$id": name, "properties": {field: whole["properties"][field] for field in fields}}
