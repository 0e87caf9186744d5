"""Prepares exchanges with an engine that writes scripted texts."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from providers.engines.exchange import prepare_engine_exchange
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.fake_engine import FakeEngine, message
from tests.unit.support.translator_drivers import collect
from translation.representation.events import Event, Finished, Usage
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn

BRIDGE = "Enough."
PROFILE = Profile(two_pass="on", max_thinking_tokens=100, bridge=BRIDGE, tool_parser="hermes")
THOUGHT = "\nI think.\n"
ANSWER = "Yes."
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
PROMPT = "user: Hi\n<think>\n"
WORDS = ("<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>")


@dataclass
class TurnResult:
    """The result of a turn."""

    events: list[Event]

    @property
    def items(self) -> list[tuple[str, str]]:
        found = []
        for item in collect(self.events):
            parts = [*item.get("content", ()), *item.get("summary", ())]
            found.append((item["type"], item.get("arguments", "".join(part["text"] for part in parts))))
        return found

    @property
    def reasoning(self) -> str:
        return "".join(text for kind, text in self.items if kind == "reasoning")

    @property
    def text(self) -> str:
        return "".join(text for kind, text in self.items if kind == "message")

    @property
    def end(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last

    @property
    def usage(self) -> Usage:
        assert self.end.usage is not None
        return self.end.usage


async def ask(engine: FakeEngine, profile: Profile = PROFILE, **turn: Any) -> TurnResult:
    """Runs a turn to its end. Every generation of the engine must have ended then."""
    exchange = prepare_engine_exchange(engine, Turn(model="m", items=[message("Hi")], **turn), profile)
    grammar = EventGrammar()
    events: list[Event] = []
    async with aclosing(exchange.batches()) as batches:
        async for batch in batches:
            assert batch, "an empty batch says that there is nothing yet"
            grammar.check(batch)
            events += batch
    assert all(run.closed for run in engine.runs)
    return TurnResult(events)


def limited(tokens: int) -> Any:
    return {"reasoning": {"max_tokens": tokens}}
