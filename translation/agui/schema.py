"""The schema of `RunAgentInput`, the body of an AG-UI run.

Source: the AG-UI specification 1.0, and requests of clients of 0.0.x. Members that are not listed here are no errors,
as the specification demands, and what they say is a loss.
"""

from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.unknown_fields import MAX_KEY_CHARS, UnknownFields, is_empty
from translation.validation import build_adapter, check_body, discriminate_by, discriminate_by_shape

_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024)]


class _DataSource(TypedDict):
    """Media in base64."""

    type: Literal["data"]
    value: str
    mimeType: str


class _UrlSource(TypedDict):
    type: Literal["url"]
    value: str
    mimeType: NotRequired[str | None]


class _FileSource(TypedDict):
    """A file that a provider stores."""

    type: Literal["file"]
    value: str
    provider: NotRequired[str | None]


_Source: TypeAlias = Annotated[
    Annotated[_DataSource, Tag("data")] | Annotated[_UrlSource, Tag("url")] | Annotated[_FileSource, Tag("file")],
    discriminate_by("type"),
]


class _TextPart(TypedDict):
    type: Literal["text"]
    text: str


class _MediaPart(TypedDict):
    type: Literal["image", "audio", "video", "document"]
    source: _Source


class _BinaryPart(TypedDict):
    """A part of clients of 0.0.x, for any medium. One of `data`, `url` and `id` is set."""

    type: Literal["binary"]
    mimeType: str
    id: NotRequired[str | None]
    url: NotRequired[str | None]
    data: NotRequired[str | None]
    filename: NotRequired[str | None]


_Part: TypeAlias = Annotated[
    Annotated[_TextPart, Tag("text")]
    | Annotated[_MediaPart, Tag("image")]
    | Annotated[_MediaPart, Tag("audio")]
    | Annotated[_MediaPart, Tag("video")]
    | Annotated[_MediaPart, Tag("document")]
    | Annotated[_BinaryPart, Tag("binary")],
    discriminate_by("type"),
]

_Content: TypeAlias = Annotated[
    Annotated[str, Tag("object")] | Annotated[list[_Part], Tag("plain")], discriminate_by_shape(list)
]


class _TextMessage(TypedDict):
    id: _Name
    role: Literal["developer", "system"]
    content: str


class _UserMessage(TypedDict):
    id: _Name
    role: Literal["user"]
    content: _Content


class _FunctionCall(TypedDict):
    name: _Name
    arguments: str


class _ToolCall(TypedDict):
    id: _Name
    function: _FunctionCall
    encryptedValue: NotRequired[str | None]


class _AssistantMessage(TypedDict):
    id: _Name
    role: Literal["assistant"]
    content: NotRequired[str | None]
    toolCalls: NotRequired[list[_ToolCall] | None]


class _ToolMessage(TypedDict):
    id: _Name
    role: Literal["tool"]
    content: _Content
    toolCallId: _Name
    error: NotRequired[str | None]


class _ReasoningMessage(TypedDict):
    id: _Name
    role: Literal["reasoning"]
    content: NotRequired[str | None]
    encryptedValue: NotRequired[str | None]


class _ActivityMessage(TypedDict):
    id: _Name
    role: Literal["activity"]


_Message: TypeAlias = Annotated[
    Annotated[_TextMessage, Tag("developer")]
    | Annotated[_TextMessage, Tag("system")]
    | Annotated[_UserMessage, Tag("user")]
    | Annotated[_AssistantMessage, Tag("assistant")]
    | Annotated[_ToolMessage, Tag("tool")]
    | Annotated[_ReasoningMessage, Tag("reasoning")]
    | Annotated[_ActivityMessage, Tag("activity")],
    discriminate_by("role"),
]


class _Tool(TypedDict):
    """A tool that the client runs."""

    name: _Name
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]


class _Context(TypedDict):
    description: str
    value: Any


class _ResumeEntry(TypedDict):
    """The answer to one interrupt."""

    interruptId: _Name
    status: Literal["resolved", "cancelled"]
    payload: NotRequired[Any]


class _RunInput(TypedDict):
    threadId: _Name
    runId: _Name
    messages: list[_Message]
    protocolVersion: NotRequired[str | None]
    parentRunId: NotRequired[str | None]
    state: NotRequired[Any]
    tools: NotRequired[list[_Tool] | None]
    context: NotRequired[list[_Context] | None]
    forwardedProps: NotRequired[Any]
    resume: NotRequired[list[_ResumeEntry] | None]


class _Props(TypedDict):
    """The properties that are read before the request is one of the Responses API, which checks all others."""

    instructions: NotRequired[str | None]
    include_state: NotRequired[bool | None]
    reset_state: NotRequired[bool | None]
    raw_events: NotRequired[bool | None]


class _WithProps(TypedDict):
    forwardedProps: _Props


_UNREAD_KEYS: Final = ("id", "type", "metadata", "mimeType", "encryptedValue", "subagentRunId")
"""Keys of the specification that say nothing to a model: marks and data of the application, which it gets back."""

_OWN_FIELDS: Final = frozenset({*_RunInput.__annotations__, "model"})
"""The keys of a run, and its model, which is set from the path or the forwarded properties."""


@cache
def _unknown_fields() -> UnknownFields:
    # Activities are not for the model: they are left out whole.
    return UnknownFields(_RunInput, skipped=(_ActivityMessage,), ignored=_UNREAD_KEYS, indexed=False)


def find_unknown_in_run(body: Json) -> list[str]:
    """Returns the paths of the keys of a valid run that the schema does not have and that say something."""
    own = [f"{key:.{MAX_KEY_CHARS}}" for key, value in body.items() if key not in _OWN_FIELDS and not is_empty(value)]
    return own + _unknown_fields().find(body)


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first field that is malformed. Null is the same as no value.

    Clients may forward anything, so properties that are not an object are refused only if they are not null or a list:
    old clients send an empty list for none.
    """
    check_body(_adapter(), body)
    props = body.get("forwardedProps")
    if props and not isinstance(props, dict):
        raise InvalidRequest("forwardedProps must be an object", param="forwardedProps", code="invalid_type")
    if props:
        check_body(_props_adapter(), {"forwardedProps": props})


@cache
def _props_adapter() -> TypeAdapter[Any]:
    return build_adapter(_WithProps)


@cache
def _adapter() -> TypeAdapter[Any]:
    return build_adapter(_RunInput)


@cache
def _request_schema() -> Json:
    return {"$id": "agui", **_adapter().json_schema()}


REQUEST_SCHEMA = _request_schema
"""() -> the JSON schema of a run's body, for `/openapi.json`. It is built on the first call."""
