"""The shape of requests of Ollama's chat and generate APIs, as typed dictionaries that pydantic validates.

Unknown keys are no errors: they become losses. https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from functools import cache
from typing import Annotated, Any, Final, Literal, Required, TypeAlias

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields
from translation.validation import Name, build_adapter, check_body

_MAX_TOP_LOGPROBS: Final = 20

_Images: TypeAlias = list[str] | None
"""Images in base64, without a type."""


def _to_lower_case(role: Any) -> Any:
    return role.lower() if isinstance(role, str) else role


class FunctionCall(TypedDict, total=False):
    name: Required[Name]
    arguments: Json | None
    index: int | None


class Call(TypedDict, total=False):
    id: str | None
    type: str | None
    """`function`: clients that know OpenAI's API add it."""
    function: Required[FunctionCall]


class Message(TypedDict, total=False):
    role: Required[Annotated[Literal["system", "user", "assistant", "tool"], BeforeValidator(_to_lower_case)]]
    content: str | None
    thinking: str | None
    images: _Images
    tool_calls: Annotated[list[Call], Field(fail_fast=True)] | None
    tool_name: str | None
    name: str | None
    """The name of older clients for `tool_name`."""
    tool_call_id: str | None


class Function(TypedDict, total=False):
    name: Required[Name]
    description: str | None
    parameters: Json | None


class Tool(TypedDict, total=False):
    type: Literal["function"] | None
    function: Required[Function]


class Options(TypedDict, total=False):
    """The options that have a meaning for every upstream. Others are sent to upstreams that have them.

    A whole number may be written as a decimal one, as number fields of user interfaces do.
    """

    frequency_penalty: float | None
    min_p: float | None
    num_predict: float | None
    presence_penalty: float | None
    repeat_penalty: float | None
    seed: float | None
    stop: str | list[str] | None
    temperature: Annotated[float, Field(ge=0)] | None
    top_k: float | None
    top_p: float | None


class CommonParams(TypedDict, total=False):
    """The parameters that both APIs share."""

    model: Required[str]
    format: Literal["", "json"] | Json | None
    keep_alive: str | float | int | None
    logprobs: bool | None
    options: Options | None
    shift: bool | None
    stream: bool | None
    think: bool | Literal["low", "medium", "high", "max"] | None
    top_logprobs: Annotated[int, Field(ge=0, le=_MAX_TOP_LOGPROBS)] | None
    truncate: bool | None


class ChatRequest(CommonParams, total=False):
    messages: Annotated[list[Message], Field(fail_fast=True)] | None
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None


class GenerateRequest(CommonParams, total=False):
    context: list[int] | None
    images: _Images
    prompt: str | None
    raw: bool | None
    suffix: str | None
    system: str | None
    template: str | None


REQUEST_FIELDS: Final = frozenset(
    {*CommonParams.__annotations__, *ChatRequest.__annotations__, *GenerateRequest.__annotations__}
)
"""Every top-level key that one of the two APIs has."""


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(ChatRequest, skipped=(Options,))


def find_unknown_in_chat(body: Json) -> list[str]:
    """Returns the paths of keys in the messages and tools of a valid body that the schema does not have."""
    return _unknown_fields().find(body)


def validate_chat(body: Json) -> None:
    """Raises InvalidRequest for the first malformed field of a chat request. Null means the same as a missing key."""
    check_body(_CHAT_ADAPTER, body)


def validate_generate(body: Json) -> None:
    """Validates a generate request, as `validate_chat` validates a chat request."""
    check_body(_generate_adapter(), body)


_CHAT_ADAPTER: Final[Any] = build_adapter(ChatRequest)
"""Built at import, because building it while the first request waits takes too long."""

_generate_adapter = cache(lambda: build_adapter(GenerateRequest))


@cache
def _chat_schema() -> Json:
    return {"$id": "ollama-chat", **_CHAT_ADAPTER.json_schema()}


@cache
def _generate_schema() -> Json:
    return {"$id": "ollama-generate", **_generate_adapter().json_schema()}


CHAT_SCHEMA = _chat_schema
"""Returns the JSON schema of a chat request, for `/openapi.json`. It is built at the first call."""

GENERATE_SCHEMA = _generate_schema
"""Returns the JSON schema of a generate request."""
