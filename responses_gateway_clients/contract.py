"""The form of requests and replies that the clients use for both APIs: the form of `/generate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from responses_gateway_clients.http import Json, JsonFrame


@dataclass(frozen=True, kw_only=True)
class GatewayRequest:
    """One request. Fields that are None are left to the model's configuration."""

    messages: Sequence[Json]
    """Messages in the form of Chat Completions, also their tool calls. Past thinking is in `reasoning_content`."""
    model: str | None = None
    temperature: float | None = None
    stop: Sequence[str] | None = None
    two_pass: bool | None = None
    think_tag: str | None = None
    tool_parser: str | None = None
    max_thinking_tokens: int | None = None
    max_response_tokens: int | None = None
    tools: Sequence[Json] = ()
    """Tools as `{name, description, parameters}`."""
    tool_choice: str | Json | None = None
    """`auto`, `none`, `required` or `{name}`."""
    response_format: Json | None = None
    """The response format in the form of Chat Completions."""
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body, which are sent as they are."""


class ReplyReader(Protocol):
    """Reads the frames of one stream."""

    @property
    def reply(self) -> Json | None:
        """The complete reply in the form of `/generate`, once the stream has ended without an error; else None."""
        ...

    def feed(self, frame: JsonFrame) -> list[Json]:
        """Adds a frame. Returns its deltas: `{"thinking"}`, `{"response"}` or `{"tool_call"}`.

        Raises GatewayError for a frame that reports an error.
        """
        ...


class Api(Protocol):
    """One of the gateway's APIs."""

    @property
    def path(self) -> str:
        """The path of the endpoint, after the gateway's address."""
        ...

    def build_body(self, request: GatewayRequest, *, stream: bool) -> Json:
        """Returns the body of a request."""
        ...

    def parse_reply(self, body: Json) -> Json:
        """Returns the body of a reply in the form of `/generate`. Raises GatewayError if it reports an error."""
        ...

    def create_reader(self) -> ReplyReader:
        """Returns a new reader for the stream of one reply."""
        ...


def drop_none(fields: Mapping[str, Any]) -> Json:
    """Returns the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
