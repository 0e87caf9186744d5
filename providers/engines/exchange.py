"""Runs one turn on an engine, in one pass or in two. All engines share this code."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import orjson

from providers.base import Batch, Exchange
from providers.engines.base import Engine, EngineDelta, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.generation_request import THINKING_BUDGET_PARAM, EngineRequest, ToolParsers, build_engine_request
from providers.engines.thinking_budget import fit_budget
from providers.engines.two_pass import ThinkingPass
from providers.errors import ContextLengthExceeded, UpstreamBroken
from providers.new_id import new_id
from translation.chat.upstream.text_tools import lower_tools_to_text
from translation.decoding.context_overflow import build_limit_error
from translation.parsers.generated_text import GeneratedTextDecoder
from translation.parsers.thought_reader import CLOSING_TAGS, unclosed_tag_name
from translation.parsers.tools import PARSER_FACTORIES
from translation.parsers.tools.json_value import JsonValueReader
from translation.representation.events import STOP_SEQUENCE_FACT, Event, Noted, Started, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_DEFAULT_MAX_TOKENS: Final = 1 << 16
"""The token limit of an answer if nothing else sets one."""

_PROMPT_FIELDS: Final = ("messages", "tools", "chat_template_kwargs")

_CALL_PROBE_TOKENS: Final = 16
"""The number of tokens in which a call has begun, with spaces before it."""

_ANSWER_PARAMETERS: Final = frozenset({"min_tokens"})
"""Parameters that apply to the answer and not to the thinking."""


def prepare_engine_exchange(
    engine: Engine,
    turn: Turn,
    profile: Profile,
    parsers: ToolParsers = PARSER_FACTORIES,
    unenforced: Sequence[Loss] = (),
) -> Exchange:
    """Prepares the turn on this engine, without I/O: with two passes if the profile enables them and the turn may
    think, else with one.

    `parsers` are the tool parsers by the names that profiles use; an engine may add its own to the gateway's.
    `unenforced` are further losses: parts of the turn that the engine gets and will not honour. Raises Unrepresentable
    for what the engine cannot honour, and InvalidRequest.
    """
    request = build_engine_request(turn, profile, engine.supported_parameters, parsers)
    return _EngineExchange(engine, turn, profile, replace(request, losses=(*request.losses, *unenforced)))


async def count_prompt_tokens(
    engine: Engine, turn: Turn, profile: Profile, parsers: ToolParsers = PARSER_FACTORIES
) -> int:
    """Returns the number of tokens of the turn's input on this engine, as its usage would report it. Raises what
    `prepare_engine_exchange` raises, and ProviderError."""
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
        """Whether the thinking pass has processed the prompt. The answer pass then finds it in the cache."""
        self._closing_tokens: frozenset[int] = frozenset()
        """Closing tags that are a single token."""

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
            and self._profile.parsing_format != "direct_response"
        ):
            # With one pass, the constraint would apply from the first token, so the answer would be inside the
            # thinking.
            budget = request.sampling.get(THINKING_BUDGET_PARAM, _DEFAULT_MAX_TOKENS)
        out = GeneratedTextDecoder(
            new_id,
            self._profile,
            parse_think_tags=budget is None and self._profile.parsing_format != "direct_response",
            think_open=think_open,
            parser=request.parser and request.parser(),
            tools=request.chat.get("tools", ()),
        )
        yield [Started(model=self._turn.model)]
        passes = self._run_one_pass(prompt, out) if budget is None else self._run_two_passes(prompt, budget, out)
        async with aclosing(passes) as batches:
            async for batch in batches:
                yield batch

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
        request, constraint = self._request, self._request.constraint
        opening = request.forced_call.prefix if request.forced_call is not None else ""
        if request.call_opening is not None and await self._begins_with_call(prompt, request.call_opening):
            opening, constraint = request.call_opening, None
        if opening:
            # The engine continues behind the opening of the call, so its output does not contain the opening.
            prompt = prompt.with_tokens(await self._engine.encode(opening), opening)
            if events := out.feed_text(opening):
                yield events
        room = self._remaining_tokens(prompt)
        limits = (room, limit)
        max_tokens = min((number for number in limits if number is not None), default=_DEFAULT_MAX_TOKENS)
        if max_tokens < 1:
            yield out.finish("length", self._usage)
            return
        last: EngineDelta | None = None
        json_value = JsonValueReader() if _constrains_to_json(constraint) else None
        async with aclosing(self._engine.generate(prompt, self._build_generation(max_tokens, constraint))) as deltas:
            async for last in deltas:
                if json_value is not None:
                    last = _cut_after_json(json_value, last)
                if events := self._feed_delta(last, out):
                    yield events
                if last.finish_reason is not None:
                    break
        if last is None or last.finish_reason is None:
            raise UpstreamBroken("the engine's output ended without a finish reason")
        ending: list[Event] = []
        if last.finish_reason == "stop" and last.stop_string is None and request.forced_call is not None:
            ending = out.feed_text(request.forced_call.suffix)
        elif last.stop_string is not None and last.stop_string == request.block_stop:
            ending = out.feed_text(last.stop_string)
        elif last.stop_string is not None:
            ending = [Noted(facts={STOP_SEQUENCE_FACT: last.stop_string})]
        yield [*ending, *out.finish(last.finish_reason, self._usage)]

    async def _begins_with_call(self, prompt: TokenPrompt, opening: str) -> bool:
        """Whether the model begins with a call if it has no constraint. The text of this probe is discarded."""
        max_tokens = min(
            _CALL_PROBE_TOKENS, _CALL_PROBE_TOKENS if (room := self._remaining_tokens(prompt)) is None else room
        )
        if max_tokens < 1:
            return False
        text = ""
        async with aclosing(self._engine.generate(prompt, self._build_generation(max_tokens, None))) as deltas:
            async for delta in deltas:
                text = (text + delta.text).lstrip()
                if delta.finish_reason is not None or text.startswith(opening) or not opening.startswith(text):
                    break
        return text.startswith(opening)

    def _build_generation(self, max_tokens: int, constraint: OutputConstraint | None) -> GenerationRequest:
        request = self._request
        sampling = dict(request.sampling)
        if isinstance(min_tokens := sampling.get("min_tokens"), int):
            sampling["min_tokens"] = min(min_tokens, max_tokens)
        stops = request.stop if request.block_stop is None else (*request.stop, request.block_stop)
        return GenerationRequest(
            max_tokens=max_tokens,
            stop=stops,
            sampling=sampling,
            constraint=constraint,
            top_logprobs=request.top_logprobs,
        )

    def _feed_delta(self, delta: EngineDelta, out: GeneratedTextDecoder) -> list[Event]:
        usage, generated = self._usage, len(delta.tokens) + delta.unlisted_tokens
        usage.output = (usage.output or 0) + generated
        if usage.cache_read is None and not self._thinking_ran:
            usage.cache_read = delta.cached_tokens
        was_in_reasoning = out.in_reasoning
        text = _escape(delta.text) if self._request.generates_argument else delta.text
        events = out.feed_text(text, delta.logprobs)
        if was_in_reasoning or out.in_reasoning:
            end = next(
                (number for number, token in enumerate(delta.tokens, 1) if token in self._closing_tokens), generated
            )
            usage.reasoning = (usage.reasoning or 0) + (generated if out.in_reasoning else end)
        return events

    def _remaining_tokens(self, prompt: TokenPrompt, reserved: int = 0) -> int | None:
        """Returns how many tokens are left for output; None without a limit. `reserved` tokens are for text that the
        gateway appends to the prompt."""
        window, max_output_tokens = self._engine.context_window, self._turn.max_output_tokens
        rooms = [] if window is None else [window - len(prompt.tokens) - reserved]
        if max_output_tokens is not None:
            rooms.append(max_output_tokens - (self._usage.output or 0))
        return min(rooms, default=None)

    def _require_room(self, prompt: TokenPrompt, reserved: int = 0) -> None:
        """Raises ContextLengthExceeded if no token fits after the prompt, because engines cut such answers silently.

        Raises Unrepresentable for a limit of the answer that is longer than the context.
        """
        window = self._engine.context_window
        max_output_tokens = self._turn.max_output_tokens or 0
        if window is not None and max_output_tokens > window:
            raise build_limit_error(max_output_tokens, window)
        if window is not None and len(prompt.tokens) + reserved >= window:
            message = (
                f"This model's context is {window} tokens: the {len(prompt.tokens)} tokens of the input "
                "leave no room for an answer."
            )
            raise ContextLengthExceeded(message, status=400)

    async def _forced_prefix_tokens(self) -> Sequence[int]:
        """Returns the tokens of the beginning of a forced call, which the gateway writes."""
        return (
            await self._engine.encode(self._request.forced_call.prefix) if self._request.forced_call is not None else ()
        )


def _escape(text: str) -> str:
    """Returns text as it is written inside a JSON string."""
    return orjson.dumps(text).decode()[1:-1]


def _involves_tools(chat: Json) -> bool:
    """Whether a chat body has tools, or its history has calls or their outputs."""
    return "tools" in chat or any(message["role"] == "tool" or "tool_calls" in message for message in chat["messages"])


def _constrains_to_json(constraint: OutputConstraint | None) -> bool:
    return constraint is not None and (constraint.json_schema is not None or constraint.json_object)


def _cut_after_json(json_value: JsonValueReader, delta: EngineDelta) -> EngineDelta:
    """Returns the part of a delta that belongs to the JSON value. The answer ends with the value.

    Schemas allow spaces after it, and small models that tend to write something else fill the window with them.
    """
    end, _ = json_value.feed(delta.text, 0)
    return replace(delta, text=delta.text[:end], finish_reason="stop") if json_value.is_complete else delta
