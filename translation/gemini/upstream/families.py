"""Facts about Gemini's model families, found by a model's name. https://ai.google.dev/gemini-api/docs/thinking"""

import re
from typing import Final, Literal, NamedTuple

_DEFAULT_LEVELS: Final = ("low", "medium", "high")
_MAX_BUDGET: Final = 24576


class GeminiFamily(NamedTuple):
    """One generation of models. The defaults are for an unknown model."""

    levels: tuple[str, ...] = ()
    """Its levels of thinking, from least to most. Empty if thinking is set in tokens, or if there is none."""
    min_budget: int = 0
    """The smallest budget for thinking, in tokens. 0 means that thinking can be turned off."""
    max_budget: int = 0
    """The largest budget, in tokens. 0 if thinking is not set in tokens."""
    smallest_thinking: int = 0
    """The smallest budget with which it thinks, in tokens. The API refuses budgets between 0 and this."""
    accepts_penalties: bool = True
    """Whether the API takes penalties for the frequency and the presence of tokens that are not 0."""
    requires_signed_calls: bool = False
    """Whether the API refuses a step whose first call is sent back without its signature."""
    allows_schema_with_tools: bool = False
    """Whether a request may have both a JSON schema and tools."""

    def with_thinking_form(self, form: Literal["adaptive", "budget"]) -> "GeminiFamily":
        """Returns the family with the form that a profile sets: `adaptive` uses levels, `budget` a number of tokens."""
        if form == "adaptive":
            return self._replace(levels=self.levels or _DEFAULT_LEVELS)
        return self._replace(levels=(), max_budget=self.max_budget or _MAX_BUDGET)

    @property
    def thinks(self) -> bool:
        return bool(self.levels or self.max_budget)


_NEWEST: Final = GeminiFamily(
    _DEFAULT_LEVELS, accepts_penalties=False, requires_signed_calls=True, allows_schema_with_tools=True
)
_BY_BUDGET: Final = GeminiFamily(max_budget=_MAX_BUDGET, accepts_penalties=False)

_FAMILIES: Final = [
    (re.compile(pattern), family)
    for pattern, family in (
        (r"gemini-(1\.|2\.0|.*(embedding|tts|live|native-audio))", GeminiFamily()),
        (r"gemini-2\.5-flash-image", GeminiFamily(accepts_penalties=False)),
        (r"gemini-2\.5-pro", _BY_BUDGET._replace(min_budget=128, max_budget=32768)),
        (r"gemini-2\.5-flash-lite", _BY_BUDGET._replace(smallest_thinking=512)),
        (r"gemini-(2\.5|robotics)", _BY_BUDGET),
        (r"gemini-3-pro-image", _NEWEST._replace(levels=())),
        (r"gemini-3-pro", _NEWEST._replace(levels=("low", "high"))),
        (r"gemini-3\.1-flash(-lite)?-image", _NEWEST._replace(levels=("minimal", "high"))),
        # Flash models since 3.7 refuse `minimal`, and the names without a version are of the newest model.
        (r"gemini-3(\.[0-6])?-flash", _NEWEST._replace(levels=("minimal", "low", "medium", "high"))),
        (r"gemini-", _NEWEST),
    )
]
"""(pattern of the beginning of a model's name, its family). The first match counts."""


def family_of(model: str) -> GeminiFamily:
    """Returns the family of a model by the upstream's name of it, with or without `models/` before it."""
    name = model.rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.match(name)), GeminiFamily())
