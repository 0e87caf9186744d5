"""A provider for servers that can also continue a prompt of token ids."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from providers.base import Capabilities, CountMethod, Dialect, Exchange, WireDialect
from providers.engines.base import Engine
from providers.engines.exchange import count_prompt_tokens, prepare_engine_exchange
from providers.engines.generation_request import THINKING_BUDGET_PARAM
from providers.engines.servers.formats_beside_tools import NOT_CALLED, prevents_calls, prevents_relayed_calls
from providers.engines.servers.remote import ModelCache
from providers.engines.thinking_budget import resolve_thinking_budget
from providers.http.dialects import RELAY_DIALECTS
from providers.http.exchange import HttpProvider
from providers.http.relay import HttpRelay
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.lowering.reasoning import may_think
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

EngineFactory = Callable[[Upstream, str, ModelCache], Engine]
"""(server, name of the model, cache of the model) -> the model as an engine."""

_MAX_MODELS = 100


class TwoPassProvider(HttpProvider):
    """Runs turns with two passes as prompts of token ids. All other turns are sent in the server's own dialect."""

    def __init__(
        self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect, engine_factory: EngineFactory
    ) -> None:
        super().__init__(upstream, capabilities, dialect)
        self._engine_factory = engine_factory
        self._model_caches: dict[str, ModelCache] = {}

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        if turn.input_grammars and profile.two_pass != "on":
            # In the server's dialect the tool would be a function, whose arguments cannot be held to the grammar.
            parser = "hermes" if profile.tool_parser == "openai" else profile.tool_parser
            as_text = replace(profile, tool_parser=parser, parsing_format="think_tags")
            unenforced = self._unenforced_losses(turn, as_text)
            return prepare_engine_exchange(self.get_engine(turn.model), turn, as_text, unenforced=unenforced)
        if profile.two_pass == "off":
            return super().prepare(turn, profile)
        if has_two_passes(turn, profile):
            return prepare_engine_exchange(
                self.get_engine(turn.model), turn, profile, unenforced=self._unenforced_losses(turn, profile)
            )
        if may_think(turn) and THINKING_BUDGET_PARAM not in profile.extra_params:
            raise Unrepresentable("this model's server cannot enforce a thinking budget in one pass", param="reasoning")
        return super().prepare(_to_one_pass_turn(turn, profile), profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> HttpRelay:
        losses = [NOT_CALLED] if prevents_relayed_calls(body) else []
        return HttpRelay(self._upstream, RELAY_DIALECTS[dialect], body, losses, credentials)

    def _unenforced_losses(self, turn: Turn, profile: Profile) -> Sequence[Loss]:
        is_prevented = prevents_calls(turn.tools, turn.tool_choice, turn.text_format)
        return [NOT_CALLED] if is_prevented and not has_two_passes(turn, profile) else ()

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        if method != "none" and has_two_passes(turn, profile):
            return await count_prompt_tokens(self.get_engine(turn.model), turn, profile)
        return await super().count_tokens(turn, profile, method)

    def get_engine(self, model: str) -> Engine:
        """Returns one of the server's models as an engine."""
        if model not in self._model_caches and len(self._model_caches) >= _MAX_MODELS:
            self._model_caches.clear()
        return self._engine_factory(self._upstream, model, self._model_caches.setdefault(model, ModelCache()))


def has_two_passes(turn: Turn, profile: Profile) -> bool:
    """Whether a turn is run with two passes, of which only the one that answers follows a format."""
    return profile.two_pass == "on" and may_think(turn)


def _to_one_pass_turn(turn: Turn, profile: Profile) -> Turn:
    """Returns the turn for one pass in the server's dialect: without thinking, or with a thinking budget that the
    server enforces."""
    limit = profile.max_response_tokens
    reasoning = {name: value for name, value in (turn.reasoning or {}).items() if name != "max_tokens"}
    if not may_think(turn):
        reasoning.pop("effort", None)
        turn = replace(turn, thinking=False)
    else:
        budget = resolve_thinking_budget(turn, profile)
        turn = replace(turn, extra={**turn.extra, THINKING_BUDGET_PARAM: budget})
        limit = limit and limit + budget
    limits = (limit, turn.max_output_tokens)
    max_tokens = min((number for number in limits if number is not None), default=None)
    return replace(turn, reasoning=reasoning or None, max_output_tokens=max_tokens)
