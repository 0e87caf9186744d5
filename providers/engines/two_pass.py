"""The thinking pass: the first of two passes, which is a separate generation so that thinking ends at its budget."""

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
"""The number of tokens that contain the longest closing tag, with the text of the answer that its last token may
hold."""

_ANSWER_SEPARATOR: Final = "\n\n"
"""The text between the closing tag and the answer, as in chat templates."""


class ThinkingPass:
    """The thinking of one turn. Call `open`, then `run` or `skip`. After that, `prompt` is the prompt of the answer
    pass."""

    def __init__(
        self, engine: Engine, profile: Profile, sampling: Mapping[str, Any], *, is_answer_constrained: bool
    ) -> None:
        """`is_answer_constrained`: the answer pass has a constraint, so the answer must not begin in this pass."""
        self._engine = engine
        self._bridge = profile.bridge
        self._sampling = sampling
        self._is_answer_constrained = is_answer_constrained
        self._tag: str = profile.think_tag
        self._start: TokenPrompt
        self.prompt: TokenPrompt
        self.thinking_tokens = 0
        """Tokens that were generated up to and including the closing tag."""
        self.answer_tokens = 0
        """Tokens of the answer that were generated in this pass, because the closing tag was detected late."""
        self.cached_tokens: int | None = None
        self.answer_prefix = ""
        """The beginning of the answer, if some of it was generated in this pass."""

    async def open(self, prompt: TokenPrompt) -> int:
        """Opens the think tag if the template has not. Returns how many tokens it takes at most to close it."""
        if (open_tag_name := unclosed_tag_name(prompt.tail)) is not None:
            self._tag = open_tag_name
        else:
            opening = f"<{self._tag}>\n"
            prompt = prompt.with_tokens(await self._engine.encode(opening), opening)
        self.prompt = self._start = prompt
        return len(await self._engine.encode(self._closing_text("")))

    async def skip(self) -> None:
        """Closes the think tag at once, without thinking."""
        start = "" if self.prompt.tail.endswith("\n") else "\n"
        await self._append_text(f"{start}\n</{self._tag}>{_ANSWER_SEPARATOR}")

    async def run(self, budget: int, out: GeneratedTextDecoder) -> AsyncGenerator[list[Event], None]:
        """Generates thinking of at most `budget` tokens, and closes it. Yields its events.

        Raises ProviderError; UpstreamBroken if the engine's output ends without a finish reason.
        """
        reader = ThoughtReader()
        tokens: list[int] = []
        raw_texts: list[str] = []
        thinking_texts: list[str] = []
        last: EngineDelta | None = None
        request = GenerationRequest(max_tokens=budget, stop=CLOSING_TAGS, sampling=self._sampling)
        async with aclosing(self._engine.generate(self.prompt, request)) as deltas:
            async for last in deltas:
                tokens += last.tokens
                raw_texts.append(last.text)
                self.thinking_tokens += len(last.tokens) + last.unlisted_tokens
                self.cached_tokens = last.cached_tokens if self.cached_tokens is None else self.cached_tokens
                thinking_texts.append(reader.feed(last.text))
                if events := out.feed_reasoning(thinking_texts[-1]):
                    yield events
                if reader.closed:
                    break
        if last is None or not (last.finish_reason or reader.closed):
            raise UpstreamBroken("the engine's output ended without a finish reason")
        raw_text = "".join(raw_texts)
        if reader.closed:
            if last.finish_reason == "stop" and last.stop_string is None:
                tokens = await self._without_end_token(tokens, raw_text)
            await self._end_past_tag(tokens, "".join(thinking_texts))
        elif last.stop_string in CLOSING_TAGS:
            await self._end_at_tag(last.stop_string, tokens, raw_text)
        else:
            rest, missing_text = reader.end_unclosed(f"</{self._tag}>")
            if events := out.feed_reasoning(rest):
                yield events
            if last.finish_reason == "stop":
                tokens = await self._without_end_token(tokens, raw_text)
            self.prompt = self.prompt.with_tokens(tokens, raw_text)
            is_tag_begun = missing_text not in CLOSING_TAGS
            await self._append_text(missing_text + _ANSWER_SEPARATOR if is_tag_begun else self._closing_text(raw_text))

    async def _end_past_tag(self, tokens: list[int], thinking: str) -> None:
        """Ends thinking whose closing tag came as text, so that the engine did not stop at it. The tokens may already
        contain more than the text that was read."""
        end = await self._count_to_closing_tag(tokens)
        self.answer_tokens, self.thinking_tokens = self.thinking_tokens - end, end
        rest = text_after_first_tag(await self._engine.decode(tokens))
        await self._begin_answer(thinking, f"</{self._tag}>", rest, tokens)

    async def _end_at_tag(self, tag: str, tokens: list[int], thinking: str) -> None:
        """Ends thinking whose closing tag was the stop string. Text that the tag's last token contains after the tag is
        only in the tokens."""
        is_exact = list(await self._engine.encode(tag)) == tokens[-1:]
        rest = "" if is_exact else text_after_last_tag(await self._engine.decode(tokens[-_TAIL_TOKENS:]))
        await self._begin_answer(thinking, tag, rest, tokens)

    async def _begin_answer(self, thinking: str, tag: str, rest: str, tokens: Sequence[int]) -> None:
        text = f"{thinking}{tag}{rest}"
        if self._is_answer_constrained and rest.strip():
            # The beginning of the answer was generated without the constraint. It is discarded and generated again.
            text, rest = f"{thinking}{tag}{_ANSWER_SEPARATOR}", ""
            tokens = await self._engine.encode(text)
        self.prompt = self._start.with_tokens(tokens, text)
        if text.endswith(tag):
            await self._append_text(_ANSWER_SEPARATOR)
        self.answer_prefix = rest

    async def _count_to_closing_tag(self, tokens: Sequence[int]) -> int:
        """Returns how many of the tokens, from the first, contain a closing tag."""
        low, high = 0, len(tokens)
        while high - low > 1:
            middle = (low + high) // 2
            text = await self._engine.decode(tokens[:middle])
            if any(tag in text for tag in CLOSING_TAGS):
                high = middle
            else:
                low = middle
        return high

    async def _without_end_token(self, tokens: list[int], text: str) -> list[int]:
        """Returns the tokens without a last token that ends the turn. Such a token is not in the text."""
        end = await self._engine.decode(tokens[-1:]) if tokens else ""
        return tokens[:-1] if end and not text.endswith(end) else tokens

    async def _append_text(self, text: str) -> None:
        self.prompt = self.prompt.with_tokens(await self._engine.encode(text), text)

    def _closing_text(self, thinking: str) -> str:
        """Returns the text that closes thinking that the model did not close: the bridge and the tag."""
        bridge = f"{self._bridge}\n" if self._bridge else ""
        start = "" if thinking.endswith("\n") else "\n"
        return f"{start}{bridge}</{self._tag}>{_ANSWER_SEPARATOR}"
