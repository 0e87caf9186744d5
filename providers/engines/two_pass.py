"""The first of two passes: the thinking, in a run of its own, so that it ends where its budget does."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from providers.engines.base import Engine, Generation, Piece, Prompt
from providers.errors import UpstreamBroken
from translation.parsers.generated_text import Generated
from translation.parsers.thought_reader import CLOSING, ThoughtReader, after_first, after_last, open_tag
from translation.representation.events import Event
from translation.representation.profile import Profile

_TAIL: Final = 16
"""Tokens in which the longest closing tag fits, and the piece of the answer that came in its last token."""

_AFTER: Final = "\n\n"
"""Between a closed thought and the answer, as chat templates have it."""


class Thinking:
    """One thought. Open it, run it; then `prompt` is what the answer goes on from."""

    def __init__(self, engine: Engine, profile: Profile, sampling: Mapping[str, Any], *, plain_start: bool) -> None:
        """`plain_start`: the answer is held to a form, so nothing may stand before it."""
        self._engine = engine
        self._bridge = profile.bridge
        self._sampling = sampling
        self._plain_start = plain_start
        self._tag: str = profile.think_tag
        self._start: Prompt
        self.prompt: Prompt
        self.used = 0
        """Tokens that were generated up to the closing tag, and with it."""
        self.early = 0
        """Tokens of the answer that were generated before the thought was seen to be over."""
        self.cached: int | None = None
        self.prefix = ""
        """The beginning of the answer that came with the thought."""

    async def open(self, prompt: Prompt) -> int:
        """Open the tag, where the template has not. The tokens it takes at most to close it again."""
        if (opened := open_tag(prompt.tail)) is not None:
            self._tag = opened
        else:
            opening = f"<{self._tag}>\n"
            prompt = prompt.then(await self._engine.encode(opening), opening)
        self.prompt = self._start = prompt
        return len(await self._engine.encode(self._close("")))

    async def skip(self) -> None:
        """Close it at once: the model is not to think."""
        start = "" if self.prompt.tail.endswith("\n") else "\n"
        await self._append(f"{start}\n</{self._tag}>{_AFTER}")

    async def run(self, budget: int, out: Generated) -> AsyncGenerator[list[Event], None]:
        """Think for at most `budget` tokens, and close the thought."""
        reader = ThoughtReader()
        tokens: list[int] = []
        raw: list[str] = []
        said: list[str] = []
        last: Piece | None = None
        asked = Generation(max_tokens=budget, stop=CLOSING, sampling=self._sampling)
        async with aclosing(self._engine.generate(self.prompt, asked)) as pieces:
            async for last in pieces:
                tokens += last.tokens
                raw.append(last.text)
                self.used += len(last.tokens) + last.unnamed
                self.cached = last.cached if self.cached is None else self.cached
                said.append(reader.feed(last.text))
                if events := out.think(said[-1]):
                    yield events
                if reader.closed:
                    break
        if last is None or not (last.finish or reader.closed):
            raise UpstreamBroken("the engine ended without saying why")
        if reader.closed:
            if last.finish == "stop" and last.stop is None:
                tokens = await self._without_end(tokens, "".join(raw))
            await self._went_on(tokens, "".join(said))
        elif last.stop in CLOSING:
            await self._stopped(last.stop, tokens, "".join(raw))
        else:
            held, lacking = reader.cut(f"</{self._tag}>")
            if events := out.think(held):
                yield events
            if last.finish == "stop":
                tokens = await self._without_end(tokens, "".join(raw))
            self.prompt = self.prompt.then(tokens, "".join(raw))
            begun = lacking not in CLOSING
            await self._append(lacking + _AFTER if begun else self._close("".join(raw)))

    async def _went_on(self, tokens: list[int], thought: str) -> None:
        """The closing tag came as text, and the engine did not stop at it. Its tokens may be ahead of its text."""
        end = await self._end_of_tag(tokens)
        self.early, self.used = self.used - end, end
        rest = after_first(await self._engine.decode(tokens))
        await self._begin_answer(thought, f"</{self._tag}>", rest, tokens)

    async def _stopped(self, tag: str, tokens: list[int], thought: str) -> None:
        """The engine stopped at the closing tag. What its last token has beyond it is in the tokens only."""
        is_exact = list(await self._engine.encode(tag)) == tokens[-1:]
        rest = "" if is_exact else after_last(await self._engine.decode(tokens[-_TAIL:]))
        await self._begin_answer(thought, tag, rest, tokens)

    async def _begin_answer(self, thought: str, tag: str, rest: str, tokens: Sequence[int]) -> None:
        text = f"{thought}{tag}{rest}"
        if self._plain_start and rest.strip():
            # What was written of the answer has not the form it must have: it is taken back, and written again.
            text, rest = f"{thought}{tag}{_AFTER}", ""
            tokens = await self._engine.encode(text)
        self.prompt = self._start.then(tokens, text)
        if text.endswith(tag):
            await self._append(_AFTER)
        self.prefix = rest

    async def _end_of_tag(self, tokens: Sequence[int]) -> int:
        """How many of the tokens it takes to have written a closing tag."""
        low, high = 0, len(tokens)
        while high - low > 1:
            middle = (low + high) // 2
            text = await self._engine.decode(tokens[:middle])
            if any(tag in text for tag in CLOSING):
                high = middle
            else:
                low = middle
        return high

    async def _without_end(self, tokens: list[int], thought: str) -> list[int]:
        """The tokens without the one that ends a turn, which may be among them and is in no text."""
        end = await self._engine.decode(tokens[-1:]) if tokens else ""
        return tokens[:-1] if end and not thought.endswith(end) else tokens

    async def _append(self, text: str) -> None:
        self.prompt = self.prompt.then(await self._engine.encode(text), text)

    def _close(self, thought: str) -> str:
        """What closes a thought that did not close itself."""
        bridge = f"{self._bridge}\n" if self._bridge else ""
        start = "" if thought.endswith("\n") else "\n"
        return f"{start}{bridge}</{self._tag}>{_AFTER}"
