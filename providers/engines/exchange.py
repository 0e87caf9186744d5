"""One turn on an engine, as one run or as two: the strategy that all engines share."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from providers.base import Batch, Exchange
from providers.engines.base import Engine, Generation, Guide, Piece, Prompt
from providers.engines.generation_request import BUDGET, Asked, Parsers, asked_of
from providers.engines.thinking_budget import fitted
from providers.engines.two_pass import Thinking
from providers.errors import ContextLengthExceeded, UpstreamBroken
from providers.new_id import new_id
from translation.chat.lowering.text_tools import as_text
from translation.parsers.generated_text import Generated
from translation.parsers.thought_reader import CLOSING, open_tag
from translation.parsers.tools import PARSERS
from translation.parsers.tools.json_value import JsonValue
from translation.representation.events import Event, Failed, Started, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_UNLIMITED: Final = 1 << 16
"""The longest answer that is asked for where nobody sets a limit."""

_RENDERED: Final = ("messages", "tools", "chat_template_kwargs")

_LOOK: Final = 16
"""Tokens in which the beginning of a call fits, with spaces before it."""

_OF_ANSWERS: Final = frozenset({"min_tokens"})
"""Parameters that are not said of the thinking."""


def generated(
    engine: Engine, turn: Turn, profile: Profile, parsers: Parsers = PARSERS, unheld: Sequence[Loss] = ()
) -> Exchange:
    """The turn on this engine: with two passes where the profile says so and the turn thinks, else with one.

    `parsers`: those an engine has beside ours, by the names that profiles may give. `unheld`: what it is told and will
    not do. No I/O. Raises Unrepresentable for
    what the engine cannot honour, InvalidRequest.
    """
    asked = asked_of(turn, profile, engine.parameters, parsers)
    return _Exchange(engine, turn, profile, replace(asked, losses=(*asked.losses, *unheld)))


async def counted(engine: Engine, turn: Turn, profile: Profile, parsers: Parsers = PARSERS) -> int:
    """The tokens of the turn's input on this engine, as its usage would say them. Raises as `generated` does."""
    return await _Exchange(engine, turn, profile, asked_of(turn, profile, engine.parameters, parsers)).count()


class _Exchange:
    def __init__(self, engine: Engine, turn: Turn, profile: Profile, asked: Asked) -> None:
        self.losses: Sequence[Loss] = asked.losses
        self._engine = engine
        self._turn = turn
        self._profile = profile
        self._asked = asked
        self._usage = Usage(output=0, reasoning=None if asked.budget is None else 0)
        self._has_thought = False
        """The prompt was read by a run of its own, before the answer's."""
        self._closing: frozenset[int] = frozenset()
        """Closing tags that are a token of their own."""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        asked = self._asked
        prompt = await self._render()
        self._check(prompt, len(await self._prefix()))
        budget = asked.budget
        think_open = open_tag(prompt.tail) is not None
        if budget is None and think_open and asked.guide is not None and self._profile.parsing_format == "think_tags":
            # Held to its form from the start, the answer would be in the thought.
            budget = asked.sampling.get(BUDGET, _UNLIMITED)
        out = Generated(
            new_id,
            self._profile,
            tags=budget is None and self._profile.parsing_format == "think_tags",
            think_open=think_open,
            parser=asked.parser and asked.parser(),
            tools=asked.chat.get("tools", ()),
            held=not self._turn.stream,
        )
        yield [Started(model=self._turn.model)]
        passes = self._one_pass(prompt, out) if budget is None else self._two_passes(prompt, budget, out)
        async with aclosing(passes) as batches:
            async for batch in batches:
                failed = batch[-1] if isinstance(batch[-1], Failed) else None
                if failed is not None:
                    failed.usage = self._usage
                yield batch
                if failed is not None:
                    return

    async def count(self) -> int:
        prompt = await self._render()
        if self._asked.budget is None:
            return len(prompt.tokens)
        thinking = Thinking(self._engine, self._profile, {}, plain_start=False)
        await thinking.open(prompt)
        return len(thinking.prompt.tokens)

    async def _render(self) -> Prompt:
        chat = self._asked.chat
        if _speaks_of_tools(chat) and (self._asked.in_words or not await self._engine.renders_tools()):
            chat = as_text(chat, single_block=self._asked.block_stop is not None, parser=self._asked.format)
        return await self._engine.render({name: chat[name] for name in _RENDERED if name in chat})

    async def _one_pass(self, prompt: Prompt, out: Generated) -> AsyncGenerator[list[Event], None]:
        self._usage.input = len(prompt.tokens)
        limit = self._profile.max_response_tokens
        if limit is not None:
            limit += self._asked.sampling.get(BUDGET, 0)
        tags = [await self._engine.encode(tag) for tag in CLOSING] if out.takes_tags else []
        self._closing = frozenset(tag[0] for tag in tags if len(tag) == 1)
        async with aclosing(self._answer(prompt, out, limit)) as batches:
            async for batch in batches:
                yield batch

    async def _two_passes(self, prompt: Prompt, budget: int, out: Generated) -> AsyncGenerator[list[Event], None]:
        asked, usage, limit = self._asked, self._usage, self._profile.max_response_tokens
        sampling = {name: value for name, value in asked.sampling.items() if name not in _OF_ANSWERS}
        thinking = Thinking(self._engine, self._profile, sampling, plain_start=asked.guide is not None)
        kept = await thinking.open(prompt) + len(await self._prefix())
        self._check(thinking.prompt, kept)
        usage.input = len(thinking.prompt.tokens)
        budget = fitted(budget, room=self._room(thinking.prompt, kept), answer=limit)
        if budget:
            async with aclosing(thinking.run(budget, out)) as batches:
                async for batch in batches:
                    yield batch
            self._has_thought = True
            usage.reasoning, usage.cache_read = thinking.used, thinking.cached
            usage.output = thinking.used + thinking.early
        else:
            await thinking.skip()
        out.begin_answer()
        if thinking.prefix and (events := out.say(thinking.prefix)):
            yield events
        async with aclosing(self._answer(thinking.prompt, out, limit)) as batches:
            async for batch in batches:
                yield batch

    async def _answer(self, prompt: Prompt, out: Generated, limit: int | None) -> AsyncGenerator[list[Event], None]:
        asked, guide = self._asked, self._asked.guide
        begun = asked.forced.prefix if asked.forced is not None else ""
        if asked.call_opening is not None and await self._calls(prompt, asked.call_opening):
            begun, guide = asked.call_opening, None
        if begun:
            prompt = prompt.then(await self._engine.encode(begun), begun)
            if events := out.say(begun):
                yield events
        room = self._room(prompt)
        most = min((each for each in (room, limit) if each is not None), default=_UNLIMITED)
        if most < 1:
            yield out.finish("length", self._usage)
            return
        last: Piece | None = None
        form = JsonValue() if _is_json(guide) else None
        async with aclosing(self._engine.generate(prompt, self._generation(most, guide))) as pieces:
            async for last in pieces:
                if form is not None:
                    last = _within(form, last)
                if events := self._say(last, out):
                    yield events
                if last.finish is not None:
                    break
        if last is None or last.finish is None:
            raise UpstreamBroken("the engine ended without saying why")
        ending: list[Event] = []
        if last.finish == "stop" and last.stop is None and asked.forced is not None:
            ending = out.say(asked.forced.suffix)
        elif last.stop is not None and last.stop == asked.block_stop:
            ending = out.say(last.stop)
        is_failed = bool(ending) and isinstance(ending[-1], Failed)
        yield ending if is_failed else [*ending, *out.finish(last.finish, self._usage)]

    async def _calls(self, prompt: Prompt, opening: str) -> bool:
        """Whether the model, held to nothing, begins with a call. What it writes is not said, and written again."""
        most = min(_LOOK, _LOOK if (room := self._room(prompt)) is None else room)
        if most < 1:
            return False
        text = ""
        async with aclosing(self._engine.generate(prompt, self._generation(most, None))) as pieces:
            async for piece in pieces:
                text = (text + piece.text).lstrip()
                if piece.finish is not None or text.startswith(opening) or not opening.startswith(text):
                    break
        return text.startswith(opening)

    def _generation(self, most: int, guide: Guide | None) -> Generation:
        asked = self._asked
        sampling = dict(asked.sampling)
        if isinstance(least := sampling.get("min_tokens"), int):
            sampling["min_tokens"] = min(least, most)
        stops = asked.stop if asked.block_stop is None else (*asked.stop, asked.block_stop)
        return Generation(max_tokens=most, stop=stops, sampling=sampling, guide=guide, logprobs=asked.logprobs)

    def _say(self, piece: Piece, out: Generated) -> list[Event]:
        usage, made = self._usage, len(piece.tokens) + piece.unnamed
        usage.output = (usage.output or 0) + made
        if usage.cache_read is None and not self._has_thought:
            usage.cache_read = piece.cached
        before = out.in_thought
        events = out.say(piece.text, piece.logprobs)
        if before or out.in_thought:
            end = next((place for place, token in enumerate(piece.tokens, 1) if token in self._closing), made)
            usage.reasoning = (usage.reasoning or 0) + (made if out.in_thought else end)
        return events

    def _room(self, prompt: Prompt, kept: int = 0) -> int | None:
        """Tokens there are still for output, where somebody sets a limit; `kept` are for what we write ourselves."""
        window, most = self._engine.window, self._turn.max_output_tokens
        rooms = [] if window is None else [window - len(prompt.tokens) - kept]
        if most is not None:
            rooms.append(most - (self._usage.output or 0))
        return min(rooms, default=None)

    def _check(self, prompt: Prompt, kept: int = 0) -> None:
        """Raises ContextLengthExceeded where there is no room for a token: engines cut such answers without a word."""
        window = self._engine.window
        if window is not None and len(prompt.tokens) + kept >= window:
            told = f"This model's context is {window} tokens: {len(prompt.tokens)} of input leave no room in it."
            raise ContextLengthExceeded(told, status=400)

    async def _prefix(self) -> Sequence[int]:
        """What is put in the model's mouth of a call that it has to make."""
        return await self._engine.encode(self._asked.forced.prefix) if self._asked.forced is not None else ()


def _speaks_of_tools(chat: Json) -> bool:
    """Whether there are tools now, or were any before."""
    return "tools" in chat or any(said["role"] == "tool" or "tool_calls" in said for said in chat["messages"])


def _is_json(guide: Guide | None) -> bool:
    return guide is not None and (guide.json_schema is not None or guide.json_object)


def _within(form: JsonValue, piece: Piece) -> Piece:
    """What of a piece belongs to one JSON value; with the value ends the answer.

    Schemas allow spaces after it, and small models that would rather write something else fill the window with them.
    """
    end, _ = form.feed(piece.text, 0)
    return replace(piece, text=piece.text[:end], finish="stop") if form.whole else piece
