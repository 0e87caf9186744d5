"""What Gemini's model families take, told by their names. https://ai.google.dev/gemini-api/docs/thinking"""

import re
from typing import Final, Literal, NamedTuple

_LEVELS: Final = ("low", "medium", "high")
_MOST: Final = 24576


class Family(NamedTuple):
    """One generation of models. The defaults are those of a model of which nothing is known."""

    levels: tuple[str, ...] = ()
    """Its levels of thinking, from least to most; none where thinking is told in tokens, or there is none."""
    least: int = 0
    """The smallest budget for thinking, in tokens; with 0 thinking can be turned off."""
    most: int = 0
    """The largest budget; 0 without thinking in tokens."""
    signed_calls: bool = False
    """It refuses a step whose first call does not come back with its signature."""
    schema_with_tools: bool = False
    """It can be held to a JSON schema while it has tools."""

    def told(self, form: Literal["adaptive", "budget"]) -> "Family":
        """The family as an operator knows it: `adaptive` takes levels, `budget` a number of tokens."""
        if form == "adaptive":
            return self._replace(levels=self.levels or _LEVELS)
        return self._replace(levels=(), most=self.most or _MOST)

    @property
    def thinks(self) -> bool:
        return bool(self.levels or self.most)


_NEWEST: Final = Family(_LEVELS, signed_calls=True, schema_with_tools=True)

_FAMILIES: Final = [
    (re.compile(pattern), family)
    for pattern, family in (
        (r"gemini-(1\.|2\.0|.*(embedding|tts|live|native-audio))", Family()),
        (r"gemini-2\.5-flash-image", Family()),
        (r"gemini-2\.5-pro", Family(least=128, most=32768)),
        (r"gemini-(2\.5|robotics)", Family(most=_MOST)),
        (r"gemini-3-pro", _NEWEST._replace(levels=("low", "high"))),
        (r"gemini-(.*-)?flash", _NEWEST._replace(levels=("minimal", "low", "medium", "high"))),
        (r"gemini-", _NEWEST),
    )
]
"""Beginning of a model's name -> its family; the first that fits."""


def family_of(model: str) -> Family:
    """By the upstream's name of the model, with or without `models/` before it."""
    name = model.rpartition("/")[2]
    return next((family for pattern, family in _FAMILIES if pattern.match(name)), Family())
