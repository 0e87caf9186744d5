"""A provider for llama.cpp's server. The server accepts every schema and does not report what it ignores, so schemas
are checked here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from providers.base import Capabilities, Dialect, Exchange, WireDialect
from providers.engines.servers.formats_beside_tools import NOT_CALLED, prevents_relayed_calls
from providers.engines.servers.llama_schemas import list_unenforced_keywords
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.provider import TwoPassProvider, has_two_passes
from providers.engines.servers.schema_bounds import refuse_invalid_bounds
from providers.http.dialects import RELAY_DIALECTS
from providers.http.relay import HttpRelay
from providers.http.upstream import Upstream
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_CONVERSATION_FIELDS: Final = frozenset({"input", "instructions", "messages"})
"""Fields of a body with the conversation. They are not checked, because they contain no schemas and may be very
long."""

_ANY_OBJECT: Final = {"type": "object"}
"""The schema of `json_object`: without one the server enforces nothing."""


class LlamaServerProvider(TwoPassProvider):
    """A provider for one llama-server. It refuses schemas that the server cannot handle, and reports the keywords that
    the server ignores as losses."""

    def __init__(
        self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect, *, has_llguidance: bool
    ) -> None:
        """`has_llguidance`: the server is known to have llguidance, which enforces more keywords of a schema."""
        super().__init__(upstream, capabilities, dialect, LlamaServerEngine.for_model)
        self._has_llguidance = has_llguidance

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        refuse_invalid_bounds({"tools": turn.tools, "text.format": turn.text_format, **turn.extra})
        if _ends_with_prefill(turn.items):
            turn = replace(turn, stream=True)
        if _is_any_object(turn.text_format):
            turn = replace(turn, text_format={"type": "json_schema", "name": "object", "schema": _ANY_OBJECT})
        return super().prepare(turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> HttpRelay:
        refuse_invalid_bounds({name: value for name, value in body.items() if name not in _CONVERSATION_FIELDS})
        schemas = {
            "response_format": _read_schema(body.get("response_format")),
            "text.format.schema": _read_schema(mapping_or_empty(body.get("text")).get("format")),
            "json_schema": body.get("json_schema"),
        }
        if _ends_with_prefill(body.get("messages") or body.get("input")) and not body.get("stream"):
            usage = {"stream_options": {"include_usage": True}} if dialect == "chat" else {}
            body = {**body, "stream": True, **usage}
        losses = _list_schema_losses(schemas, uses_llguidance=False)
        if prevents_relayed_calls(body):
            losses.append(NOT_CALLED)
        if _is_any_object(body.get("response_format")):
            body = {**body, "response_format": {**body["response_format"], "schema": _ANY_OBJECT}}
        return HttpRelay(self._upstream, RELAY_DIALECTS[dialect], body, losses, credentials)

    def _unenforced_losses(self, turn: Turn, profile: Profile) -> Sequence[Loss]:
        extra = turn.extra.get("json_schema") if "json_schema" in profile.extra_params else None
        schemas = {"text.format.schema": _read_schema(turn.text_format), "json_schema": extra}
        uses_llguidance = self._has_llguidance and has_two_passes(turn, profile)
        losses = _list_schema_losses(schemas, uses_llguidance=uses_llguidance)
        return [*losses, *super()._unenforced_losses(turn, profile)]


def _ends_with_prefill(conversation: Any) -> bool:
    """Whether the server continues the last message, and so has to be asked for a stream: its whole replies repeat the
    beginning of the message that they continue, and its streams do not."""
    last = conversation[-1] if isinstance(conversation, list | tuple) and conversation else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def _is_any_object(text_format: Any) -> bool:
    """Whether a format is `json_object` without a schema, which is an addition of the server's own."""
    text_format = mapping_or_empty(text_format)
    return text_format.get("type") == "json_object" and not text_format.get("schema")


def _list_schema_losses(schemas: Mapping[str, Any], *, uses_llguidance: bool) -> list[Loss]:
    return [
        Loss(name, f"{keyword} not enforced")
        for name, schema in schemas.items()
        for keyword in list_unenforced_keywords(schema, uses_llguidance=uses_llguidance)
    ]


def _read_schema(text_format: Any) -> Any:
    """Returns the schema of a format. The Responses API has it beside the type, chat in `json_schema`."""
    text_format = mapping_or_empty(text_format)
    return text_format.get("schema") or mapping_or_empty(text_format.get("json_schema")).get("schema")
