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


_NEWEST: Final = GeminiFamily(_DEFAULT_LEVELS, requires_signed_calls=True, allows_schema_with_tools=True)

_FAMILIES: Final = [
    (re.compile(pattern), family)
    for pattern, family in (
        (r"gemini-(1\.|2\.0|.*(embedding|tts|live|native-audio))", GeminiFamily()),
        (r"gemini-2\.5-flash-image", GeminiFamily()),
        (r"gemini-2\.5-pro", GeminiFamily(min_budget=128, max_budget=32768)),
        (r"gemini-(2\.5|robotics)", GeminiFamily(max_budget=_MAX_BUDGET)),
        (r"gemini-3-pro", _NEWEST._replace(levels=("low", "high"))),
        (r"gemini-(.*-)?flash", _NEWEST._replace(levels=("minimal", "low", "medium", "high"))),
        (r"gemini-", _NEWEST),
    )
]
"""(pattern of the beginning of a model's name, its family). The first match counts."""


def family_of(model: str) -> GeminiFamily:
    """Returns the family of a model by the upstream's name of it, with or without `models/` before it."""
    name = model.rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.match(name)), GeminiFamily())
