"""A provider for llama.cpp's own server, which takes every schema and says nothing of what it makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from providers.base import Capabilities, Dialect, Exchange, WireDialect
from providers.engines.servers.llama_schemas import left_out
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.provider import ContinuingProvider
from providers.engines.servers.schema_bounds import refuse_contradictions
from providers.engines.thinking_budget import thinks
from providers.http.dialects import RELAYED
from providers.http.exchange import WireRelay
from providers.http.upstream import Upstream
from translation.representation.json_types import Json, mapping_in
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_SAID: Final = frozenset({"input", "instructions", "messages"})
"""Of a body, what the model is told: no place for schemas, and as long as can be."""


class LlamaServerProvider(ContinuingProvider):
    """Schemas that it would never be done with are refused, and what it leaves out of one is a loss."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect, *, guided: bool) -> None:
        """`guided`: the server is known to have llguidance, which reads more of a schema."""
        super().__init__(upstream, capabilities, dialect, LlamaServerEngine.of)
        self._guided = guided

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        refuse_contradictions({"tools": turn.tools, "text.format": turn.text_format, **turn.extra})
        return super().prepare(turn, profile)

    def relay(self, dialect: Dialect, body: Json) -> WireRelay:
        refuse_contradictions({name: value for name, value in body.items() if name not in _SAID})
        schemas = {
            "response_format": _schema(body.get("response_format")),
            "text.format.schema": _schema(mapping_in(body.get("text")).get("format")),
            "json_schema": body.get("json_schema"),
        }
        return WireRelay(self._upstream, RELAYED[dialect], body, _losses(schemas, guided=False))

    def _unheld(self, turn: Turn, profile: Profile) -> Sequence[Loss]:
        extra = turn.extra.get("json_schema") if "json_schema" in profile.extra_params else None
        in_tokens = profile.two_pass == "on" and thinks(turn)
        schemas = {"text.format.schema": _schema(turn.text_format), "json_schema": extra}
        return _losses(schemas, guided=self._guided and in_tokens)


def _losses(schemas: Mapping[str, Any], *, guided: bool) -> list[Loss]:
    return [
        Loss(name, f"{keyword} not enforced")
        for name, schema in schemas.items()
        for keyword in left_out(schema, guided=guided)
    ]


def _schema(form: Any) -> Any:
    """In the Responses API a format has its schema beside its type, in chat it is a level deeper."""
    form = mapping_in(form)
    return form.get("schema") or mapping_in(form.get("json_schema")).get("schema")
