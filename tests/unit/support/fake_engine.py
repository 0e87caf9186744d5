"""An engine that writes scripted texts in tokens of its own, and honours budgets and limits."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from providers.engines.base import EngineDelta, EngineFinishReason, GenerationRequest, TokenPrompt
from translation.representation.json_types import Json

END = 0
"""The token that ends a turn."""

END_TEXT = "<|end|>"


@dataclass
class Run:
    """One generation of the engine."""

    prompt: str
    tokens: Sequence[int]
    asked: GenerationRequest
    closed: bool = False


@dataclass
class FakeEngine:
    """A token is a character, or one of `words`, of which the longest that fits is taken.

    Each of `texts` is what one run would write; then the turn ends. A piece has `size` tokens.
    """

    texts: Sequence[str | Exception]
    words: Sequence[str] = ()
    size: int = 1
    context_window: int | None = None
    opens: str = ""
    """The text that the template writes at the end of a prompt."""
    tools: bool = True
    heeds_stops: bool = True
    heeds_limit: bool = True
    shows_stops: bool = False
    """The stop text that ended the text is in it."""
    supported_parameters: frozenset[str] = frozenset({"temperature", "seed", "min_tokens"})
    cached: int | None = None
    endless: int | None = None
    """The run that ends without saying so."""
    names_end: bool = True
    """The token that ends the turn is among the tokens."""
    runs: list[Run] = field(default_factory=list)
    rendered: list[Json] = field(default_factory=list)

    async def render(self, chat: Json) -> TokenPrompt:
        self.rendered.append(chat)
        text = "".join(f"{said['role']}: {said.get('content')}\n" for said in chat["messages"]) + self.opens
        return TokenPrompt(tokens=await self.encode(text), tail=text[-100:])

    async def renders_tools(self) -> bool:
        return self.tools

    async def encode(self, text: str) -> Sequence[int]:
        tokens: list[int] = []
        while text:
            word = max((word for word in self.words if text.startswith(word)), key=len, default=text[0])
            tokens.append(-1 - self.words.index(word) if word in self.words else ord(word))
            text = text[len(word) :]
        return tokens

    async def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(self._text, tokens))

    def _text(self, token: int) -> str:
        return END_TEXT if token == END else self.words[-1 - token] if token < 0 else chr(token)

    async def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        assert request.max_tokens >= 1
        run = Run(await self.decode(prompt.tokens), list(prompt.tokens), request)
        self.runs.append(run)
        try:
            for piece in await self._pieces(self.texts[len(self.runs) - 1], request):
                if isinstance(piece, Exception):
                    raise piece
                if piece.finish_reason and self.endless == len(self.runs) - 1:
                    return
                yield piece
        finally:
            run.closed = True

    async def _pieces(self, text: str | Exception, asked: GenerationRequest) -> list[EngineDelta | Exception]:
        if isinstance(text, Exception):
            return [EngineDelta("a", [ord("a")]), text]
        written, said, waiting = "", 0, []
        pieces: list[EngineDelta | Exception] = []
        tokens = [*await self.encode(text), END]
        for number, token in enumerate(tokens[: asked.max_tokens] if self.heeds_limit else tokens, 1):
            waiting.append(token)
            written += "" if token == END else self._text(token)
            met = [stop for stop in asked.stop if self.heeds_stops and stop in written]
            stop = min(met, key=written.index, default=None)
            is_last = self.heeds_limit and number == asked.max_tokens
            finish: EngineFinishReason | None = "stop" if stop or token == END else "length" if is_last else None
            if finish is None and len(waiting) < self.size:
                continue
            end = written.index(stop) if stop and not self.shows_stops else len(written)
            if finish is None:  # a possible stop string is not sent yet
                end = max(said, end - max(map(len, asked.stop), default=1) + 1)
            named = [each for each in waiting if each != END or self.names_end]
            unnamed = len(waiting) - len(named)
            logprobs = None if asked.top_logprobs is None else _logprobs_of(written[said:end])
            pieces.append(EngineDelta(written[said:end], named, logprobs, finish, stop, self.cached, unnamed))
            said, waiting = end, []
            if finish:
                break
        return pieces


def message(text: str) -> Json:
    """Returns a user message of a turn."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _logprobs_of(text: str) -> list[Json]:
    return [{"token": text, "logprob": 0.0, "bytes": list(text.encode()), "top_logprobs": []}]
