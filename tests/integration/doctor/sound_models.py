"""A model without faults: reads a request of any API, and decides what to reply."""

import json
from dataclasses import dataclass
from typing import Any

MODELS = frozenset({"sound-model", "claude-opus-4-8", "claude-sonnet-4-5", "gemini-3-pro-preview", "gemini-2.5-flash"})
"""Model names, including those of families with other request forms."""
WINDOW = 8192
LIMIT = 16
THOUGHT = "Let me see."
SIGNATURE = "c2lnbmVk"

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """The parts of a request that determine the reply."""

    model: str
    question: str
    tools: tuple[str, ...] = ()
    forced: str | None = None
    has_result: bool = False
    result: str = ""
    """The weather, if the tool returned it."""
    has_schema: bool = False
    limit: int | None = None
    stop: bool = False
    thinks: bool = False
    has_image: bool = False
    forgotten: bool = False
    """A thought that it signed was not sent back."""
    strange: bool = False
    """The request has a parameter that the API does not have."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """The parts of a reply."""

    thought: str = ""
    text: tuple[str, ...] = ()
    calls: tuple[tuple[str, Json], ...] = ()
    cut: bool = False
    tokens: int = 7


@dataclass(frozen=True, kw_only=True)
class Refused:
    """No answer: `unknown` for a model that is not there, `long` for a prompt that does not fit, `unsigned` for a
    thought that is not sent back, `stop` where the API has no stop sequences."""

    why: str


def answer_question(asked: ModelRequest) -> ModelReply | Refused:
    if asked.model not in MODELS:
        return Refused(why="unknown")
    if asked.question.count("river") > WINDOW:
        return Refused(why="long")
    if asked.strange:
        return Refused(why="stop")
    if asked.forgotten:
        return Refused(why="unsigned")
    if asked.limit == LIMIT:
        return ModelReply(text=("1, 2, ", "3, 4"), cut=True, tokens=LIMIT)
    thought = THOUGHT if asked.thinks else ""
    if asked.tools and not asked.has_result:
        if asked.forced or "search" in asked.tools:
            return ModelReply(thought=thought, calls=((asked.forced or "search", {"query": "weather"}),))
        cities = ("Paris", "Rome") if "Rome" in asked.question else ("Paris",)
        return ModelReply(thought=thought, calls=tuple(("get_weather", {"city": city}) for city in cities))
    if asked.has_schema:
        return ModelReply(thought=thought, text=(json.dumps({"a": 3, "b": 4, "sum": 7}),))
    if "Count to 12" in asked.question:
        return ModelReply(thought=thought, text=("9, 10, 11, ",) if asked.stop else ("9, 10, 11, ", "12"))
    if "colour" in asked.question:
        return ModelReply(thought=thought, text=("Orange." if asked.has_image else "Which image?",))
    if asked.result:
        return ModelReply(thought=thought, text=("It is ", f"{asked.result}."))
    return ModelReply(thought=thought, text=("Hel", "lo."))
