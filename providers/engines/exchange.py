"""One turn on an engine, as one run or as two: the strategy that all engines share."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from providers.base import Batch, Exchange
from providers.engines.base import Engine, EngineDelta, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.generation_request import THINKING_BUDGET_PARAM, EngineRequest, ToolParsers, build_engine_request
from providers.engines.thinking_budget import fit_budget
from providers.engines.two_pass import ThinkingPass
from providers.errors import ContextLengthExceeded, UpstreamBroken
from providers.new_id import new_id
from translation.chat.lowering.text_tools import lower_tools_to_text
from translation.parsers.generated_text import GeneratedTextDecoder
from translation.parsers.thought_reader import CLOSING_TAGS, unclosed_tag_name
from translation.parsers.tools import PARSER_FACTORIES
from translation.parsers.tools.json_value import JsonValueReader
from translation.representation.events import Event, Failed, Started, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_DEFAULT_MAX_TOKENS: Final = 1 << 16
"""The longest answer that is asked for where nobody sets a limit."""

_PROMPT_FIELDS: Final = ("messages", "tools", "chat_template_kwargs")

_CALL_PROBE_TOKENS: Final = 16
"""Tokens in which the beginning of a call fits, with spaces before it."""

_ANSWER_PARAMETERS: Final = frozenset({"min_tokens"})
"""Parameters that are not said of the thinking."""


def prepare_engine_exchange(
    engine: Engine,
    turn: Turn,
    profile: Profile,
    parsers: ToolParsers = PARSER_FACTORIES,
    unenforced: Sequence[Loss] = (),
) -> Exchange:
    """The turn on this engine: with two passes where the profile says so and the turn thinks, else with one.

    `parsers`: those an engine has beside ours, by the names that profiles may give. `unheld`: what it is told and will
    not do. No I/O. Raises Unrepresentable for
    what the engine cannot honour, InvalidRequest.
    """
    request = build_engine_request(turn, profile, engine.supported_parameters, parsers)
    return _EngineExchange(engine, turn, profile, replace(request, losses=(*request.losses, *unenforced)))


async def count_prompt_tokens(
    engine: Engine, turn: Turn, profile: Profile, parsers: ToolParsers = PARSER_FACTORIES
) -> int:
    """The tokens of the turn's input on this engine, as its usage would say them. Raises as `generated` does."""
    return await _EngineExchange(
        engine, turn, profile, build_engine_request(turn, profile, engine.supported_parameters, parsers)
    ).count()


class _EngineExchange:
    def __init__(self, engine: Engine, turn: Turn, profile: Profile, request: EngineRequest) -> None:
        self.losses: Sequence[Loss] = request.losses
        self._engine = engine
        self._turn = turn
        self._profile = profile
        self._request = request
        self._usage = Usage(output=0, reasoning=None if request.thinking_budget is None else 0)
        self._thinking_ran = False
        """The prompt was read by a run of its own, before the answer's."""
        self._closing_tokens: frozenset[int] = frozenset()
        """Closing tags that are a token of their own."""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        request = self._request
        prompt = await self._render_prompt()
        self._require_room(prompt, len(await self._forced_prefix_tokens()))
        budget = request.thinking_budget
        think_open = unclosed_tag_name(prompt.tail) is not None
        if (
            budget is None
            and think_open
            and request.constraint is not None
            and self._profile.parsing_format == "think_tags"
        ):
            # Held to its form from the start, the answer would be in the thought.
            budget = request.sampling.get(THINKING_BUDGET_PARAM, _DEFAULT_MAX_TOKENS)
        out = GeneratedTextDecoder(
            new_id,
            self._profile,
            parse_think_tags=budget is None and self._profile.parsing_format == "think_tags",
            think_open=think_open,
            parser=request.parser and request.parser(),
            tools=request.chat.get("tools", ()),
            buffered=not self._turn.stream,
        )
        yield [Started(model=self._turn.model)]
        passes = self._run_one_pass(prompt, out) if budget is None else self._run_two_passes(prompt, budget, out)
        async with aclosing(passes) as batches:
            async for batch in batches:
                failed = batch[-1] if isinstance(batch[-1], Failed) else None
                if failed is not None:
                    failed.usage = self._usage
                yield batch
                if failed is not None:
                    return

    async def count(self) -> int:
        prompt = await self._render_prompt()
        if self._request.thinking_budget is None:
            return len(prompt.tokens)
        thinking = ThinkingPass(self._engine, self._profile, {}, is_answer_constrained=False)
        await thinking.open(prompt)
        return len(thinking.prompt.tokens)

    async def _render_prompt(self) -> TokenPrompt:
        chat = self._request.chat
        if _involves_tools(chat) and (self._request.tools_in_text or not await self._engine.renders_tools()):
            chat = lower_tools_to_text(
                chat, single_block=self._request.block_stop is not None, parser=self._request.call_format
            )
        return await self._engine.render({name: chat[name] for name in _PROMPT_FIELDS if name in chat})

    async def _run_one_pass(self, prompt: TokenPrompt, out: GeneratedTextDecoder) -> AsyncGenerator[list[Event], None]:
        self._usage.input = len(prompt.tokens)
        limit = self._profile.max_response_tokens
        if limit is not None:
            limit += self._request.sampling.get(THINKING_BUDGET_PARAM, 0)
        tags = [await self._engine.encode(tag) for tag in CLOSING_TAGS] if out.parses_think_tags else []
        self._closing_tokens = frozenset(tag[0] for tag in tags if len(tag) == 1)
        async with aclosing(self._generate_answer(prompt, out, limit)) as batches:
            async for batch in batches:
                yield batch

    async def _run_two_passes(
        self, prompt: TokenPrompt, budget: int, out: GeneratedTextDecoder
    ) -> AsyncGenerator[list[Event], None]:
        request, usage, limit = self._request, self._usage, self._profile.max_response_tokens
        sampling = {name: value for name, value in request.sampling.items() if name not in _ANSWER_PARAMETERS}
        thinking = ThinkingPass(
            self._engine, self._profile, sampling, is_answer_constrained=request.constraint is not None
        )
        reserved = await thinking.open(prompt) + len(await self._forced_prefix_tokens())
        self._require_room(thinking.prompt, reserved)
        usage.input = len(thinking.prompt.tokens)
        budget = fit_budget(budget, room=self._remaining_tokens(thinking.prompt, reserved), max_answer_tokens=limit)
        if budget:
            async with aclosing(thinking.run(budget, out)) as batches:
                async for batch in batches:
                    yield batch
            self._thinking_ran = True
            usage.reasoning, usage.cache_read = thinking.thinking_tokens, thinking.cached_tokens
            usage.output = thinking.thinking_tokens + thinking.answer_tokens
        else:
            await thinking.skip()
        out.begin_answer()
        if thinking.answer_prefix and (events := out.feed_text(thinking.answer_prefix)):
            yield events
        async with aclosing(self._generate_answer(thinking.prompt, out, limit)) as batches:
            async for batch in batches:
                yield batch

    async def _generate_answer(
        self, prompt: TokenPrompt, out: GeneratedTextDecoder, limit: int | None
    ) -> AsyncGenerator[list[Event], None]:
        request, guide = self._request, self._request.constraint
        opening = request.forced_call.prefix if request.forced_call is not None else ""
        if request.call_opening is not None and await self._begins_with_call(prompt, request.call_opening):
            opening, guide = request.call_opening, None
        if opening:
            prompt = prompt.with_tokens(await self._engine.encode(opening), opening)
            if events := out.feed_text(opening):
                yield events
        room = self._remaining_tokens(prompt)
        max_tokens = min((each for each in (room, limit) if each is not None), default=_DEFAULT_MAX_TOKENS)
        if max_tokens < 1:
            yield out.finish("length", self._usage)
            return
        last: EngineDelta | None = None
        json_value = JsonValueReader() if _constrains_to_json(guide) else None
        async with aclosing(self._engine.generate(prompt, self._build_generation(max_tokens, guide))) as pieces:
            async for last in pieces:
                if json_value is not None:
                    last = _cut_after_json(json_value, last)
                if events := self._feed_delta(last, out):
                    yield events
                if last.finish_reason is not None:
                    break
        if last is None or last.finish_reason is None:
            raise UpstreamBroken("the engine ended without saying why")
        ending: list[Event] = []
        if last.finish_reason == "stop" and last.stop_string is None and request.forced_call is not None:
            ending = out.feed_text(request.forced_call.suffix)
        elif last.stop_string is not None and last.stop_string == request.block_stop:
            ending = out.feed_text(last.stop_string)
        is_failed = bool(ending) and isinstance(ending[-1], Failed)
        yield ending if is_failed else [*ending, *out.finish(last.finish_reason, self._usage)]

    async def _begins_with_call(self, prompt: TokenPrompt, opening: str) -> bool:
        """Whether the model, held to nothing, begins with a call. What it writes is not said, and written again."""
        most = min(_CALL_PROBE_TOKENS, _CALL_PROBE_TOKENS if (room := self._remaining_tokens(prompt)) is None else room)
        if most < 1:
            return False
        text = ""
        async with aclosing(self._engine.generate(prompt, self._build_generation(most, None))) as pieces:
            async for piece in pieces:
                text = (text + piece.text).lstrip()
                if piece.finish_reason is not None or text.startswith(opening) or not opening.startswith(text):
                    break
        return text.startswith(opening)

    def _build_generation(self, max_tokens: int, guide: OutputConstraint | None) -> GenerationRequest:
        request = self._request
        sampling = dict(request.sampling)
        if isinstance(least := sampling.get("min_tokens"), int):
            sampling["min_tokens"] = min(least, max_tokens)
        stops = request.stop if request.block_stop is None else (*request.stop, request.block_stop)
        return GenerationRequest(
            max_tokens=max_tokens, stop=stops, sampling=sampling, constraint=guide, top_logprobs=request.top_logprobs
        )

    def _feed_delta(self, piece: EngineDelta, out: GeneratedTextDecoder) -> list[Event]:
        usage, made = self._usage, len(piece.tokens) + piece.unlisted_tokens
        usage.output = (usage.output or 0) + made
        if usage.cache_read is None and not self._thinking_ran:
            usage.cache_read = piece.cached_tokens
        before = out.in_reasoning
        events = out.feed_text(piece.text, piece.logprobs)
        if before or out.in_reasoning:
            end = next((place for place, token in enumerate(piece.tokens, 1) if token in self._closing_tokens), made)
            usage.reasoning = (usage.reasoning or 0) + (made if out.in_reasoning else end)
        return events

    def _remaining_tokens(self, prompt: TokenPrompt, reserved: int = 0) -> int | None:
        """Tokens there are still for output, where somebody sets a limit; `kept` are for what we write ourselves."""
        window, most = self._engine.context_window, self._turn.max_output_tokens
        rooms = [] if window is None else [window - len(prompt.tokens) - reserved]
        if most is not None:
            rooms.append(most - (self._usage.output or 0))
        return min(rooms, default=None)

    def _require_room(self, prompt: TokenPrompt, reserved: int = 0) -> None:
        """Raises ContextLengthExceeded where there is no room for a token: engines cut such answers without a word."""
        window = self._engine.context_window
        if window is not None and len(prompt.tokens) + reserved >= window:
            message = f"This model's context is {window} tokens: {len(prompt.tokens)} of input leave no room in it."
            raise ContextLengthExceeded(message, status=400)

    async def _forced_prefix_tokens(self) -> Sequence[int]:
        """What is put in the model's mouth of a call that it has to make."""
        return (
            await self._engine.encode(self._request.forced_call.prefix) if self._request.forced_call is not None else ()
        )


def _involves_tools(chat: Json) -> bool:
    """Whether there are tools now, or were any before."""
    return "tools" in chat or any(said["role"] == "tool" or "tool_calls" in said for said in chat["messages"])


def _constrains_to_json(guide: OutputConstraint | None) -> bool:
    return guide is not None and (guide.json_schema is not None or guide.json_object)


def _cut_after_json(json_value: JsonValueReader, piece: EngineDelta) -> EngineDelta:
    """What of a piece belongs to one JSON value; with the value ends the answer.

    Schemas allow spaces after it, and small models that would rather write something else fill the window with them.
    """
    end, _ = json_value.feed(piece.text, 0)
    return replace(piece, text=piece.text[:end], finish_reason="stop") if json_value.is_complete else piece
