"""What the strategies know of an engine: a prompt in, tokens out. Each engine has one file beside this one.

An engine is asked in token ids and not in chat, because a second pass has to go on from exactly the tokens of the
first: text that is tokenised again may come out as other tokens, and then the engine's prefix cache has none of them.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from translation.representation.json_types import Json

EngineFinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrompt:
    """A prompt, ready to be generated from."""

    tokens: Sequence[int]
    tail: str
    """The last characters of its text, a hundred at least where it has as many: whether the template opened a tag."""
    media: Any = None
    """What the engine needs beside the tokens of images; only it knows what this is."""

    def with_tokens(self, tokens: Sequence[int], text: str) -> "TokenPrompt":
        """The prompt with more behind it."""
        return replace(self, tokens=[*self.tokens, *tokens], tail=(self.tail + text)[-200:])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConstraint:
    """What the text must be: exactly one of the fields, and what may follow it."""

    json_schema: Json | None = None
    json_object: bool = False
    regex: str | None = None
    grammar: str | None = None
    choice: Sequence[str] | None = None
    suffix: str = ""
    """What the model writes after the JSON of a schema. An engine may leave it out, but then tokens that hold the end
    of the JSON and more cannot be chosen, and those are what models were taught."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One run of the engine."""

    max_tokens: int
    """At least 1."""
    stop: Sequence[str] = ()
    """The text ends before the first of these."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The scalar parameters of a Turn, under its names, and what the model's profile lets through beside them. Without
    `stop`, `logprobs`, `top_logprobs`."""
    constraint: OutputConstraint | None = None
    top_logprobs: int | None = None
    """How many alternatives to report for each token; None: no probabilities at all."""


@dataclass(frozen=True, slots=True)
class EngineDelta:
    """What an engine generated since the piece before. `text` lacks what a stop string cut off, and special tokens such
    as the one that ends a turn; `tokens` lack neither."""

    text: str
    tokens: Sequence[int] = ()
    logprobs: list[Json] | None = None
    """In the full Responses form: token, logprob, bytes, top_logprobs."""
    finish_reason: EngineFinishReason | None = None
    """Set on the last piece: the model ended or a stop string was met, or there was no more room."""
    stop_string: str | None = None
    """The stop string that was met."""
    cached_tokens: int | None = None
    """Tokens of the prompt that were not computed again, where the engine tells."""
    unlisted_tokens: int = 0
    """Tokens that were generated and are not among `tokens`: pieces of a character that was cut off."""


class Engine(Protocol):
    """One model. Every method raises ProviderError; EngineUnavailable where the engine is not up."""

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and answer have together; None where it is not known yet."""
        ...

    @property
    def supported_parameters(self) -> frozenset[str]:
        """Names in `Generation.sampling` that it honours; the strategies report the others as lost."""
        ...

    async def render(self, chat: Json) -> TokenPrompt:
        """The prompt of a chat body by the model's own template: `messages`, `tools`, `chat_template_kwargs`.

        The generation prompt is at its end, and an open think tag where the template writes one.
        """
        ...

    async def renders_tools(self) -> bool:
        """Whether the model's template says the tools of a chat body to the model."""
        ...

    async def encode(self, text: str) -> Sequence[int]:
        """Token ids of text, tags as their own tokens, without a beginning-of-text token."""
        ...

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, tags included."""
        ...

    def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        """Go on from the prompt. The last piece has `finish`. Closing the generator stops the engine's work on it.

        Special tokens are left out of the text; tags that are tokens (think, tool_call) are in it.
        Raises ContextLengthExceeded for a prompt that does not fit.
        """
        ...
