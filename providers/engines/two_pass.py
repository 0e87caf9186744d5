"""The first of two passes: the thinking, in a run of its own, so that it ends where its budget does."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from providers.engines.base import Engine, EngineDelta, GenerationRequest, TokenPrompt
from providers.errors import UpstreamBroken
from translation.parsers.generated_text import GeneratedTextDecoder
from translation.parsers.thought_reader import (
    CLOSING_TAGS,
    ThoughtReader,
    text_after_first_tag,
    text_after_last_tag,
    unclosed_tag_name,
)
from translation.representation.events import Event
from translation.representation.profile import Profile

_TAIL_TOKENS: Final = 16
"""Tokens in which the longest closing tag fits, and the piece of the answer that came in its last token."""

_ANSWER_SEPARATOR: Final = "\n\n"
"""Between a closed thought and the answer, as chat templates have it."""


class ThinkingPass:
    """One thought. Open it, run it; then `prompt` is what the answer goes on from."""

    def __init__(
        self, engine: Engine, profile: Profile, sampling: Mapping[str, Any], *, is_answer_constrained: bool
    ) -> None:
        """`plain_start`: the answer is held to a form, so nothing may stand before it."""
        self._engine = engine
        self._bridge = profile.bridge
        self._sampling = sampling
        self._is_answer_constrained = is_answer_constrained
        self._tag: str = profile.think_tag
        self._start: TokenPrompt
        self.prompt: TokenPrompt
        self.thinking_tokens = 0
        """Tokens that were generated up to the closing tag, and with it."""
        self.answer_tokens = 0
        """Tokens of the answer that were generated before the thought was seen to be over."""
        self.cached_tokens: int | None = None
        self.answer_prefix = ""
        """The beginning of the answer that came with the thought."""

    async def open(self, prompt: TokenPrompt) -> int:
        """Open the tag, where the template has not. The tokens it takes at most to close it again."""
        if (open_tag_name := unclosed_tag_name(prompt.tail)) is not None:
            self._tag = open_tag_name
        else:
            opening = f"<{self._tag}>\n"
            prompt = prompt.with_tokens(await self._engine.encode(opening), opening)
        self.prompt = self._start = prompt
        return len(await self._engine.encode(self._closing_text("")))

    async def skip(self) -> None:
        """Close it at once: the model is not to think."""
        start = "" if self.prompt.tail.endswith("\n") else "\n"
        await self._append_text(f"{start}\n</{self._tag}>{_ANSWER_SEPARATOR}")

    async def run(self, budget: int, out: GeneratedTextDecoder) -> AsyncGenerator[list[Event], None]:
        """Think for at most `budget` tokens, and close the thought."""
        reader = ThoughtReader()
        tokens: list[int] = []
        raw: list[str] = []
        thought: list[str] = []
        last: EngineDelta | None = None
        request = GenerationRequest(max_tokens=budget, stop=CLOSING_TAGS, sampling=self._sampling)
        async with aclosing(self._engine.generate(self.prompt, request)) as pieces:
            async for last in pieces:
                tokens += last.tokens
                raw.append(last.text)
                self.thinking_tokens += len(last.tokens) + last.unlisted_tokens
                self.cached_tokens = last.cached_tokens if self.cached_tokens is None else self.cached_tokens
                thought.append(reader.feed(last.text))
                if events := out.feed_reasoning(thought[-1]):
                    yield events
                if reader.closed:
                    break
        if last is None or not (last.finish_reason or reader.closed):
            raise UpstreamBroken("the engine ended without saying why")
        if reader.closed:
            if last.finish_reason == "stop" and last.stop_string is None:
                tokens = await self._without_end_token(tokens, "".join(raw))
            await self._end_past_tag(tokens, "".join(thought))
        elif last.stop_string in CLOSING_TAGS:
            await self._end_at_tag(last.stop_string, tokens, "".join(raw))
        else:
            rest, lacking = reader.end_unclosed(f"</{self._tag}>")
            if events := out.feed_reasoning(rest):
                yield events
            if last.finish_reason == "stop":
                tokens = await self._without_end_token(tokens, "".join(raw))
            self.prompt = self.prompt.with_tokens(tokens, "".join(raw))
            is_tag_open = lacking not in CLOSING_TAGS
            await self._append_text(lacking + _ANSWER_SEPARATOR if is_tag_open else self._closing_text("".join(raw)))

    async def _end_past_tag(self, tokens: list[int], thought: str) -> None:
        """The closing tag came as text, and the engine did not stop at it. Its tokens may be ahead of its text."""
        end = await self._count_to_closing_tag(tokens)
        self.answer_tokens, self.thinking_tokens = self.thinking_tokens - end, end
        rest = text_after_first_tag(await self._engine.decode(tokens))
        await self._begin_answer(thought, f"</{self._tag}>", rest, tokens)

    async def _end_at_tag(self, tag: str, tokens: list[int], thought: str) -> None:
        """The engine stopped at the closing tag. What its last token has beyond it is in the tokens only."""
        is_exact = list(await self._engine.encode(tag)) == tokens[-1:]
        rest = "" if is_exact else text_after_last_tag(await self._engine.decode(tokens[-_TAIL_TOKENS:]))
        await self._begin_answer(thought, tag, rest, tokens)

    async def _begin_answer(self, thought: str, tag: str, rest: str, tokens: Sequence[int]) -> None:
        text = f"{thought}{tag}{rest}"
        if self._is_answer_constrained and rest.strip():
            # What was written of the answer has not the form it must have: it is taken back, and written again.
            text, rest = f"{thought}{tag}{_ANSWER_SEPARATOR}", ""
            tokens = await self._engine.encode(text)
        self.prompt = self._start.with_tokens(tokens, text)
        if text.endswith(tag):
            await self._append_text(_ANSWER_SEPARATOR)
        self.answer_prefix = rest

    async def _count_to_closing_tag(self, tokens: Sequence[int]) -> int:
        """How many of the tokens it takes to have written a closing tag."""
        low, high = 0, len(tokens)
        while high - low > 1:
            middle = (low + high) // 2
            text = await self._engine.decode(tokens[:middle])
            if any(tag in text for tag in CLOSING_TAGS):
                high = middle
            else:
                low = middle
        return high

    async def _without_end_token(self, tokens: list[int], thought: str) -> list[int]:
        """The tokens without the one that ends a turn, which may be among them and is in no text."""
        end = await self._engine.decode(tokens[-1:]) if tokens else ""
        return tokens[:-1] if end and not thought.endswith(end) else tokens

    async def _append_text(self, text: str) -> None:
        self.prompt = self.prompt.with_tokens(await self._engine.encode(text), text)

    def _closing_text(self, thought: str) -> str:
        """What closes a thought that did not close itself."""
        bridge = f"{self._bridge}\n" if self._bridge else ""
        start = "" if thought.endswith("\n") else "\n"
        return f"{start}{bridge}</{self._tag}>{_ANSWER_SEPARATOR}"
