"""The schema of requests to `/generate`.

Messages, and keys that are not listed, are validated against the schema of chat after `build_chat_body`.
"""

from functools import cache
from typing import Annotated, Any, Literal, Required

from pydantic import Discriminator, Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.validation import build_adapter, check_body

_Name = Annotated[str, Field(min_length=1)]

_UNSUPPORTED_PARAMS = (
    *("audio", "extensions", "function_call", "functions", "logprobs", "modalities", "store", "stream_options"),
    *("top_logprobs", "web_search_options"),
)
"""Parameters of chat that `/generate` refuses. Its reply has no field for them, or another parameter replaces them."""


class _Call(TypedDict, total=False):
    id: Required[_Name]
    name: Required[_Name]
    arguments: Required[Json | str]


class _ChatFunction(TypedDict, total=False):
    name: Required[_Name]
    arguments: Required[str]


class _ChatCall(TypedDict, total=False):
    id: Required[_Name]
    function: Required[_ChatFunction]


def _call_shape(call: object) -> str:
    return "chat" if isinstance(call, dict) and "function" in call else "short"


_AnyCall = Annotated[
    Annotated[_Call, Tag("short")] | Annotated[_ChatCall, Tag("chat")],
    Discriminator(_call_shape),
]


class _Message(TypedDict, total=False):
    role: Required[str]
    tool_calls: Annotated[list[_AnyCall], Field(fail_fast=True)] | None


class _Tool(TypedDict, total=False):
    name: Required[_Name]
    description: str | None
    parameters: Json | None


class _Named(TypedDict, total=False):
    name: Required[_Name]


class _Request(TypedDict, total=False):
    messages: Required[Annotated[list[_Message], Field(fail_fast=True), Field(min_length=1)]]
    model: _Name | None
    temperature: Annotated[float, Field(ge=0, le=2)] | None
    two_pass: bool | None
    think_tag: Literal["think", "thinking"] | None
    max_thinking_tokens: Annotated[int, Field(ge=0)] | None
    max_response_tokens: Annotated[int, Field(ge=1)] | None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None
    tools: Annotated[list[_Tool], Field(fail_fast=True)] | None
    tool_choice: Literal["auto", "none", "required"] | _Named | None
    tool_parser: _Name | None
    stream: bool | None


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first field that is malformed or not supported. Null is the same as no value."""
    check_body(_adapter(), body)
    for name in _UNSUPPORTED_PARAMS:
        if body.get(name):
            raise Unrepresentable(f"/generate does not support '{name}'; use /v1/chat/completions instead", param=name)


@cache
def _adapter() -> TypeAdapter[Any]:
    return build_adapter(_Request)


@cache
def _request_schema() -> Json:
    return {"$id": "generate", **_adapter().json_schema()}


REQUEST_SCHEMA = _request_schema
"""() -> the JSON schema of a request, for `/openapi.json`. It is built on the first call."""
