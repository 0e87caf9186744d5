"""The shape of requests of the Messages API, as typed dictionaries that pydantic validates.

Unknown keys, roles and types are no errors, because an upstream of the same API may know them. `check_known` refuses
what has to be known for other upstreams.
https://platform.claude.com/docs/en/api/messages
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import Annotated, Final, Literal, Required, TypeAlias

from pydantic import Field, Tag
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.lenient_validation import LenientSchema
from translation.messages.schema.blocks import Content, TextBlock, discriminate_known, require_known
from translation.representation.json_types import Json
from translation.representation.loss import UnknownKey
from translation.unknown_fields import UnknownFields
from translation.validation import Name, Penalty, build_adapter, check_body, discriminate_by

_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
"""With this beta a budget for thinking is one for all rounds of a turn, and may exceed `max_tokens`."""

_MAX_BETAS = 64

_HeaderToken: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
"""A text that becomes a header of the upstream's request, where a line break would begin another request."""

_AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class TurnMessage(TypedDict, total=False):
    role: Required[Literal["user", "assistant"]]
    content: Required[Content]


class InstructionMessage(TypedDict, total=False):
    """An instruction between two turns."""

    role: Required[Literal["system"]]
    content: Content | None
    clear_at: Literal["next_user_message", "never"] | None
    output_config: Json | None


class OtherMessage(TypedDict, total=False):
    """A message of a role that is not listed here. Only an upstream of the same API can have a use for it."""

    role: Required[str]


ROLES: Final = ("user", "assistant", "system")
"""The roles whose messages the schema knows."""

Message: TypeAlias = Annotated[
    Annotated[TurnMessage, Tag("user")]
    | Annotated[TurnMessage, Tag("assistant")]
    | Annotated[InstructionMessage, Tag("system")]
    | Annotated[OtherMessage, Tag("other")],
    discriminate_known("role", frozenset(ROLES)),
]


class UserMetadata(TypedDict, total=False):
    user_id: str | None


class EnabledThinking(TypedDict, total=False):
    type: Required[Literal["enabled"]]
    budget_tokens: Required[_AtLeastOne]
    display: str | None


class AdaptiveThinking(TypedDict, total=False):
    type: Required[Literal["adaptive"]]
    display: str | None


class PlainThinking(TypedDict, total=False):
    type: Required[Literal["disabled", "between_tools"]]


class OtherThinking(TypedDict, total=False):
    """A kind of thinking that is not listed here."""

    type: Required[str]


_THINKING_KINDS: Final = ("enabled", "adaptive", "disabled", "between_tools")

Thinking: TypeAlias = Annotated[
    Annotated[EnabledThinking, Tag("enabled")]
    | Annotated[AdaptiveThinking, Tag("adaptive")]
    | Annotated[PlainThinking, Tag("disabled")]
    | Annotated[PlainThinking, Tag("between_tools")]
    | Annotated[OtherThinking, Tag("other")],
    discriminate_known("type", frozenset(_THINKING_KINDS)),
]


class JsonFormat(TypedDict, total=False):
    type: Required[Literal["json_schema"]]
    schema: Required[Json]


_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_SERVICE_TIERS: Final = ("auto", "standard_only", "default", "flex", "priority")
"""The tiers of the API, and those of OpenAI, which the defaults of a model may name."""


class OutputConfig(TypedDict, total=False):
    effort: str | None
    format: JsonFormat | None


class McpToolConfig(TypedDict, total=False):
    enabled: bool | None
    defer_loading: bool | None


class McpServerTools(TypedDict, total=False):
    enabled: bool | None
    allowed_tools: list[str] | None


class McpServerEntry(TypedDict, total=False):
    type: Required[Literal["url"]]
    name: Required[Name]
    url: Required[Name]
    authorization_token: str | None
    tool_configuration: McpServerTools | None


class Tool(TypedDict, total=False):
    """A tool of the client's own has no type or the type `custom`. Other types are Anthropic's."""

    type: str | None
    name: Name
    description: str | None
    input_schema: Json
    strict: bool | None
    defer_loading: bool | None
    mcp_server_name: Name
    default_config: McpToolConfig | None
    configs: dict[str, McpToolConfig] | None
    max_uses: _AtLeastOne | None
    allowed_domains: list[str] | None
    blocked_domains: list[str] | None
    user_location: Json | None


class Choice(TypedDict, total=False):
    type: Required[Literal["auto", "any", "none"]]
    disable_parallel_tool_use: bool | None


class NamedChoice(TypedDict, total=False):
    type: Required[Literal["tool"]]
    name: Required[Name]
    disable_parallel_tool_use: bool | None


class OtherChoice(TypedDict, total=False):
    """A choice of a type that is not listed here."""

    type: Required[str]


_CHOICES: Final = ("auto", "any", "none", "tool")

ToolChoice: TypeAlias = Annotated[
    Annotated[Choice, Tag("auto")]
    | Annotated[Choice, Tag("any")]
    | Annotated[Choice, Tag("none")]
    | Annotated[NamedChoice, Tag("tool")]
    | Annotated[OtherChoice, Tag("other")],
    discriminate_known("type", frozenset(_CHOICES)),
]


class NewThread(TypedDict, total=False):
    """Keeps the conversation under the id of the reply."""

    type: Required[Literal["create"]]


class ContinuedThread(TypedDict, total=False):
    """Continues the conversation that is kept under the id of a reply: `messages` are those since then."""

    type: Required[Literal["continue"]]
    previous_message_id: Required[Name]


Thread: TypeAlias = Annotated[
    Annotated[NewThread, Tag("create")] | Annotated[ContinuedThread, Tag("continue")], discriminate_by("type")
]


class SharedParams(TypedDict, total=False):
    """The parameters that make up the input, and those that may be sent beside them."""

    model: Required[str]
    messages: Required[Annotated[list[Message], Field(fail_fast=True)]]
    anthropic_beta: Annotated[list[_HeaderToken], Field(max_length=_MAX_BETAS)] | None
    anthropic_version: _HeaderToken | None
    cache_control: Json | None
    context_management: Json | None
    frequency_penalty: Penalty | None
    mcp_servers: Annotated[list[McpServerEntry], Field(fail_fast=True)] | None
    metadata: UserMetadata | None
    output_config: OutputConfig | None
    output_format: JsonFormat | None
    presence_penalty: Penalty | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    seed: int | None
    service_tier: str | None
    stop_sequences: list[str] | None
    stream: bool | None
    system: str | list[TextBlock] | None
    temperature: Annotated[float, Field(ge=0, le=2)] | None
    thinking: Thinking | None
    thread: Thread | None
    tool_choice: ToolChoice | None
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None
    top_k: Annotated[int, Field(ge=-1)] | None
    top_p: _Share | None


class Request(SharedParams, total=False):
    max_tokens: Required[Annotated[int, Field(ge=0)]]
    """0 warms the cache of Anthropic's servers."""


class CountInput(SharedParams, total=False):
    max_tokens: _AtLeastOne | None


_HINT_KEYS: Final = ("cache_control", "citations", "eager_input_streaming")
"""Keys that need no report here: hints, and citations, which whoever lifts their block reports."""

_DIRECT_CALLER: Final = ({"type": "direct"}, ["direct"])
"""The usual caller of a tool: the model itself."""


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(Request, ignored=_HINT_KEYS, indexed=False)


def find_unknown_in_request(body: Json) -> list[str]:
    """Returns the paths of keys inside a valid body that the schema does not have, except its own keys."""
    return list(dict.fromkeys(key.path for key in _unknown_fields().find_keys(body) if not _is_reported_elsewhere(key)))


def _is_reported_elsewhere(key: UnknownKey) -> bool:
    """Whether a key says nothing, or whoever lifts its tool reports it: keys of searches, and tools of toolsets."""
    kind = str(key.holder.get("type"))
    is_of_search = kind.startswith("web_search_") and key.path.startswith("tools.")  # and not of a result
    return is_of_search or (kind, key.key) == ("mcp_toolset", "tools") or key.holder[key.key] in _DIRECT_CALLER


REQUEST_FIELDS = frozenset({*SharedParams.__annotations__, "max_tokens"})
"""Every top-level key that the endpoint knows."""


_TOOL_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "custom": ("name", "input_schema"),
    "mcp_toolset": ("mcp_server_name",),
}
"""Type of a tool -> the keys that it must have."""


_RANGES: Final[Sequence[tuple[str, str, float, float]]] = (
    ("temperature", "temperature", 0, 1),
    ("top_k", "top_k", 0, inf),
    ("budget_tokens", "thinking.budget_tokens", 1024, inf),
)
"""Key, path, and the least and the largest number of parameters that the API limits more than other upstreams."""


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first field that is malformed. Null means the same as a missing key."""
    validate_merged(body)
    _check_ranges(body)
    budget, limit = _budget_of(body), body["max_tokens"]
    if budget is not None and budget >= limit and _INTERLEAVED_BETA not in (body.get("anthropic_beta") or ()):
        raise InvalidRequest(
            f"'max_tokens' is {limit}: it must be greater than 'thinking.budget_tokens', which is {budget}.",
            param="max_tokens",
        )


def validate_merged(body: Json) -> None:
    """Raises InvalidRequest for a malformed field of a body to which an operator's defaults were added.

    The upstream may accept numbers beyond the ranges that clients are held to.
    """
    check_body(_REQUEST_ADAPTER, body)
    _check_meaning(body)


def validate_count(body: Json) -> None:
    """Validates a request to count tokens, as `validate` validates a message request."""
    validate_merged_count(body)
    _check_ranges(body)


def validate_merged_count(body: Json) -> None:
    """Validates a request to count tokens, as `validate_merged` validates a message request."""
    check_body(_count_adapter(), body)
    _check_meaning(body)


def check_known(body: Json) -> None:
    """Raises InvalidRequest for a value without a meaning in a body that other upstreams are sent."""
    thinking, choice = body.get("thinking") or {}, body.get("tool_choice") or {}
    require_known(body.get("service_tier"), "service_tier", _SERVICE_TIERS)
    require_known((body.get("output_config") or {}).get("effort"), "output_config.effort", _EFFORTS)
    require_known(thinking.get("type"), "thinking.type", _THINKING_KINDS)
    require_known(choice.get("type"), "tool_choice.type", _CHOICES)
    for index, message in enumerate(body["messages"]):
        require_known(message["role"], f"messages[{index}].role", ROLES)
    if body.get("max_tokens") == 0:
        raise InvalidRequest(
            "Invalid value for 'max_tokens': it must be at least 1, but got 0.",
            param="max_tokens",
            code="invalid_value",
        )


def _budget_of(body: Json) -> int | None:
    thinking = body.get("thinking") or {}
    return thinking["budget_tokens"] if thinking.get("type") == "enabled" else None


def _check_ranges(body: Json) -> None:
    values = {**body, "budget_tokens": _budget_of(body)}
    for key, param, least, largest in _RANGES:
        if (value := values.get(key)) is not None and not least <= value <= largest:
            rule = f"at least {least:g}" if value < least else f"at most {largest:g}"
            raise InvalidRequest(
                f"Invalid value for '{param}': it must be {rule}, but got {value}.", param=param, code="invalid_value"
            )


def _check_meaning(body: Json) -> None:
    if not body["messages"] and (body.get("thread") or {}).get("type") != "continue":
        raise InvalidRequest("Invalid value for 'messages': it must not be shorter than 1.", param="messages")
    for index, tool in enumerate(body.get("tools") or ()):
        for key in _TOOL_KEYS.get(tool.get("type") or "custom", ()):
            if key not in tool:
                raise InvalidRequest(
                    f"Missing required parameter: 'tools[{index}].{key}'.",
                    param=f"tools[{index}].{key}",
                    code="missing_required_parameter",
                )


_REQUEST_ADAPTER = build_adapter(Request)
"""Built at import, because building it while the first request waits takes too long."""

_LENIENT: Final = LenientSchema(_REQUEST_ADAPTER)


def keep_known(body: Json) -> Json:
    """Returns the known part of a body that is not valid, whose values only an upstream with this API can judge.

    Raises InvalidRequest if the body is malformed.
    """
    known = _LENIENT.keep_known(body)
    _check_meaning(body)
    return known


_count_adapter = cache(lambda: build_adapter(CountInput))


@cache
def _request_schema() -> Json:
    return {"$id": "create-message", **_REQUEST_ADAPTER.json_schema()}


@cache
def _count_schema() -> Json:
    return {"$id": "count-message-tokens", **_count_adapter().json_schema()}


REQUEST_SCHEMA = _request_schema
"""Returns the JSON schema of a request, for `/openapi.json`. It is built at the first call."""

COUNT_SCHEMA = _count_schema
"""Returns the JSON schema of a request to count tokens."""
