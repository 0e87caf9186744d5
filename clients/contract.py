"""What both APIs are asked and what they answer, in one shape: the one of `/generate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clients.http import Json, JsonFrame


@dataclass(frozen=True, kw_only=True)
class GatewayRequest:
    """One request. None is left to the model's configuration."""

    messages: Sequence[Json]
    """In chat's shape, tool calls too; past thinking is in `reasoning_content`."""
    model: str | None = None
    temperature: float | None = None
    stop: Sequence[str] | None = None
    two_pass: bool | None = None
    think_tag: str | None = None
    tool_parser: str | None = None
    max_thinking_tokens: int | None = None
    max_response_tokens: int | None = None
    tools: Sequence[Json] = ()
    """`{name, description, parameters}`."""
    tool_choice: str | Json | None = None
    """`auto`, `none`, `required` or `{name}`."""
    response_format: Json | None = None
    """In chat's shape."""
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as they are."""


class ReplyReader(Protocol):
    """The frames of one stream."""

    @property
    def reply(self) -> Json | None:
        """The whole reply in the shape of `/generate`, once the stream has ended well."""
        ...

    def feed(self, frame: JsonFrame) -> list[Json]:
        """Take a frame; the pieces in it: `{"thinking"}`, `{"response"}`, `{"tool_call"}`. Raises GatewayError."""
        ...


class Api(Protocol):
    """One of the gateway's APIs."""

    @property
    def path(self) -> str: ...
    def build_body(self, request: GatewayRequest, *, stream: bool) -> Json: ...
    def parse_reply(self, answer: Json) -> Json:
        """An answer in the shape of `/generate`. Raises GatewayError."""
        ...

    def create_reader(self) -> ReplyReader: ...


def drop_none(fields: Mapping[str, Any]) -> Json:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}
