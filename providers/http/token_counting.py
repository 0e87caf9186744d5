"""How many tokens an input is, in each of the ways upstreams can be asked.

`responses`, `chat` ask for a count of the very body that would be sent: OpenAI's `/responses/input_tokens`, llama.cpp's
    `/chat/completions/input_tokens`.
`tokenize`          vLLM's `/tokenize`, which renders the chat template itself; `turn` for what it cannot be told.
`template`          llama.cpp's `/apply-template`, then its `/tokenize`; for servers older than `chat`.
`own`               the endpoint that the upstream's own dialect has for it.
`turn`              the turn itself with room for one token; its usage says what went in. It costs what reading the
                    input costs, which most servers remember for the turn that follows, and refuses what does not fit.

None estimates. Where an upstream leaves the count out, there is none.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from providers.base import CountMethod, Exchange
from providers.errors import UpstreamGarbled, UpstreamModelNotFound
from providers.http.dialects import CountRequest
from providers.http.upstream import Upstream
from translation.chat.lowering.lower import lower as lower_to_chat
from translation.errors import Unrepresentable
from translation.representation.collector import TurnCollector
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.lower import lower as lower_to_responses

_INPUT_PARAMETERS = frozenset(
    {
        "chat_template_kwargs",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
    }
)
"""Parameters of a Responses body that its input is made of. OpenAI's count endpoint refuses the others."""

_TEMPLATE_PARAMETERS = frozenset(
    {"model", "messages", "tools", "chat_template", "chat_template_kwargs", "add_generation_prompt"}
)
"""Parameters of a chat body that templates are rendered from."""

_NON_TEMPLATE_PARAMETERS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "min_p",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_retention",
        "repetition_penalty",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)
"""Parameters of a chat body that no template reads. Any other may change the prompt."""

PrepareExchange = Callable[[Turn, Profile], Exchange]
BuildCountRequest = Callable[[Turn, Profile], CountRequest]


class TokenCounter:
    """Counts for one upstream. `prepare`: the provider's own. `question`: how its own dialect asks, if it does."""

    def __init__(
        self, upstream: Upstream, prepare: PrepareExchange, build_count_request: BuildCountRequest | None = None
    ) -> None:
        self._upstream = upstream
        self._prepare = prepare
        self._build_count_request = build_count_request
        self._methods: Final[dict[CountMethod, Callable[[Turn, Profile], Awaitable[Any]]]] = {
            "responses": self._count_with_responses,
            "chat": self._count_with_chat,
            "tokenize": self._count_with_tokenize,
            "template": self._count_with_template,
            "own": self._count_with_own_api,
            "turn": self._count_with_turn,
        }

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        """Raises Unrepresentable where this way cannot tell, ProviderError."""
        if method not in self._methods:
            raise Unrepresentable("this model's upstream cannot count tokens", param="model")
        counted = await self._methods[method](replace(turn, stream=False), profile)
        if not isinstance(counted, int) or isinstance(counted, bool) or counted < 0:
            raise UpstreamGarbled("the upstream's count is no number of tokens", provider=self._upstream.name)
        return counted

    async def _count_with_responses(self, turn: Turn, profile: Profile) -> Any:
        body = lower_to_responses(turn, profile).body
        count_body = {name: value for name, value in body.items() if name in _INPUT_PARAMETERS or name in turn.extra}
        return (await self._upstream.post_json("/responses/input_tokens", count_body)).get("input_tokens")

    async def _count_with_chat(self, turn: Turn, profile: Profile) -> Any:
        body = lower_to_chat(turn, profile).body
        return (await self._upstream.post_json("/chat/completions/input_tokens", body)).get("input_tokens")

    async def _count_with_tokenize(self, turn: Turn, profile: Profile) -> Any:
        body = lower_to_chat(turn, profile).body
        if body.keys() - _TEMPLATE_PARAMETERS - _NON_TEMPLATE_PARAMETERS or _has_media(body):
            return await self._count_with_turn(turn, profile)
        count_body = {name: value for name, value in body.items() if name in _TEMPLATE_PARAMETERS}
        try:
            return (await self._upstream.post_json("/tokenize", count_body, at_root=True)).get("count")
        except UpstreamModelNotFound:  # the route is not there, or the model is not: the turn tells which
            return await self._count_with_turn(turn, profile)

    async def _count_with_template(self, turn: Turn, profile: Profile) -> Any:
        body = lower_to_chat(turn, profile).body
        if _has_media(body):
            raise Unrepresentable("this upstream counts the tokens of text only", param="input")
        prompt = (await self._upstream.post_json("/apply-template", body, at_root=True)).get("prompt")
        tokenize_body = {"content": prompt, "add_special": True, "parse_special": True}
        tokens = (await self._upstream.post_json("/tokenize", tokenize_body, at_root=True)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    async def _count_with_own_api(self, turn: Turn, profile: Profile) -> Any:
        if self._build_count_request is None:
            raise Unrepresentable("this model's upstream has no endpoint for counting", param="model")
        path, body, key = self._build_count_request(turn, profile)
        return (await self._upstream.post_json(path, body)).get(key)

    async def _count_with_turn(self, turn: Turn, profile: Profile) -> Any:
        collector = TurnCollector()
        shortest = replace(turn, max_output_tokens=1)
        async with aclosing(self._prepare(shortest, profile).batches()) as batches:
            async for batch in batches:
                collector.feed(batch)
        usage = collector.usage
        if usage is None or usage.input is None:
            raise Unrepresentable("this model's upstream does not report how many tokens it read", param="model")
        return usage.input


def _has_media(body: Json) -> bool:
    """Whether a chat body says anything but text."""
    contents = [message.get("content") for message in body["messages"]]
    return any(part.get("type") != "text" for content in contents if isinstance(content, list) for part in content)
