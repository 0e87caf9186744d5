"""A provider for servers that can also go on from a prompt of token ids."""

from collections.abc import Callable
from dataclasses import replace

from providers.base import Capabilities, Counting, Exchange, WireDialect
from providers.engines.base import Engine
from providers.engines.exchange import counted, generated
from providers.engines.generation_request import BUDGET
from providers.engines.servers.remote import Memory
from providers.engines.thinking_budget import budget_of, thinks
from providers.http.exchange import WireProvider
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.representation.profile import Profile
from translation.representation.turn import Turn

EngineOf = Callable[[Upstream, str, Memory], Engine]
"""(server, model, what is known of the model) -> the model as an engine."""

_MOST_MODELS = 100


class ContinuingProvider(WireProvider):
    """Turns with two passes are generated from token ids, all others asked in the server's own dialect."""

    def __init__(
        self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect, engine_of: EngineOf
    ) -> None:
        super().__init__(upstream, capabilities, dialect)
        self._engine_of = engine_of
        self._memories: dict[str, Memory] = {}

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        if profile.two_pass == "off":
            return super().prepare(turn, profile)
        if profile.two_pass == "on" and thinks(turn):
            return generated(self.engine(turn.model), turn, profile, unheld=self._unheld(turn, profile))
        if thinks(turn) and BUDGET not in profile.extra_params:
            raise Unrepresentable("this model's server keeps no budget for thinking in one run", param="reasoning")
        return super().prepare(_in_one_pass(turn, profile), profile)

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        if way != "none" and profile.two_pass == "on" and thinks(turn):
            return await counted(self.engine(turn.model), turn, profile)
        return await super().count(turn, profile, way)

    def engine(self, model: str) -> Engine:
        """One of the server's models."""
        if model not in self._memories and len(self._memories) >= _MOST_MODELS:
            self._memories.clear()
        return self._engine_of(self._upstream, model, self._memories.setdefault(model, Memory()))


def _in_one_pass(turn: Turn, profile: Profile) -> Turn:
    """What the server is asked where two passes are not needed: there is nothing to think, or it keeps budgets."""
    limit = profile.max_response_tokens
    reasoning = {name: value for name, value in (turn.reasoning or {}).items() if name != "max_tokens"}
    if not thinks(turn):
        reasoning.pop("effort", None)
        turn = replace(turn, thinking=False)
    else:
        budget = budget_of(turn, profile)
        turn = replace(turn, extra={**turn.extra, BUDGET: budget})
        limit = limit and limit + budget
    most = min((each for each in (limit, turn.max_output_tokens) if each is not None), default=None)
    return replace(turn, reasoning=reasoning or None, max_output_tokens=most)
