"""The protocol of an engine: a prompt in, tokens out. Engines know no turns and no profiles.

An engine gets token ids and not chat, because a second pass has to continue exactly the tokens of the first. Text that
is tokenised again may become other tokens, and then nothing of it is in the engine's prefix cache.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from translation.representation.json_types import Json

EngineFinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrompt:
    """A prompt as token ids."""

    tokens: Sequence[int]
    tail: str
    """The last characters of the prompt's text: at least 100, or the whole text. They show whether the template opened
    a think tag."""
    media: Any = None
    """The engine's own representation of images, beside their tokens. It is opaque to other code."""

    def with_tokens(self, tokens: Sequence[int], text: str) -> "TokenPrompt":
        """Returns the prompt with `tokens` appended. `text` is their text."""
        return replace(self, tokens=[*self.tokens, *tokens], tail=(self.tail + text)[-200:])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConstraint:
    """The form that the generated text must have. Exactly one of the fields before `suffix` is set."""

    json_schema: Json | None = None
    json_object: bool = False
    regex: str | None = None
    grammar: str | None = None
    """A grammar in the engine's own notation."""
    lark: str | None = None
    choice: Sequence[str] | None = None
    suffix: str = ""
    """The text that the model writes after the JSON of `json_schema`. An engine may ignore it. But then the model
    cannot choose tokens that contain both the end of the JSON and text after it, and models are trained to use
    those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """The parameters of one generation: the engine continues a prompt once."""

    max_tokens: int
    """The limit of generated tokens, at least 1."""
    stop: Sequence[str] = ()
    """Stop strings. The text ends before the first of them."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The scalar parameters of a `Turn`, by its names, and the extra parameters that the model's profile allows.
    Without `stop`, `logprobs` and `top_logprobs`."""
    constraint: OutputConstraint | None = None
    top_logprobs: int | None = None
    """The number of alternatives to report for each token. None: no log probabilities at all."""


@dataclass(frozen=True, slots=True)
class EngineDelta:
    """The output of an engine since its previous delta. `text` has no stop string and nothing after it, and no special
    tokens such as the one that ends a turn. `tokens` contain both."""

    text: str
    tokens: Sequence[int] = ()
    logprobs: list[Json] | None = None
    """In the full Responses form: token, logprob, bytes, top_logprobs."""
    finish_reason: EngineFinishReason | None = None
    """Set on the last delta. `stop`: the model ended its turn or wrote a stop string. `length`: a limit was reached."""
    stop_string: str | None = None
    """The stop string that ended the text."""
    cached_tokens: int | None = None
    """Tokens of the prompt that came from the prefix cache. None: the engine does not report them."""
    unlisted_tokens: int = 0
    """The number of generated tokens that are not in `tokens`: parts of a character that spans several tokens."""


class Engine(Protocol):
    """One model of an engine. Every method raises ProviderError, and EngineUnavailable while the engine is not up."""

    @property
    def context_window(self) -> int | None:
        """The tokens that prompt and output may have together. None: not known yet."""
        ...

    @property
    def supported_parameters(self) -> frozenset[str]:
        """The names in `GenerationRequest.sampling` that the engine honours. Others are reported as losses."""
        ...

    async def render(self, chat: Json) -> TokenPrompt:
        """Renders a chat body by the model's own template, from `messages`, `tools` and `chat_template_kwargs`.

        The prompt ends with the generation prompt, and with an open think tag if the template writes one.
        """
        ...

    async def renders_tools(self) -> bool:
        """Whether the model's template writes the tools of a chat body into the prompt."""
        ...

    async def encode(self, text: str) -> Sequence[int]:
        """Returns the token ids of text, without a beginning-of-text token. A tag that is a special token is encoded as
        that token."""
        ...

    async def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, including tags that are special tokens."""
        ...

    def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        """Continues the prompt and yields deltas. The last one has a `finish_reason`.

        The text has no special tokens, except tags (think, tool_call). Closing the generator aborts the generation.
        Raises ContextLengthExceeded if the prompt does not fit.
        """
        ...


class EngineConfigProblem(NamedTuple):
    """A problem in the configuration of an embedded engine. `path` leads from the provider to the key: `("engine",
    "n_ctx")`."""

    path: tuple[str, ...]
    message: str
    """The fault, or the value to write instead."""
