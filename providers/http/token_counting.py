"""Counts the tokens of an input, by each method that upstreams offer.

`responses`, `chat` send the body of the turn to a counting endpoint: OpenAI's `/responses/input_tokens`, llama.cpp's
    `/chat/completions/input_tokens`.
`tokenize`          vLLM's `/tokenize`, which renders the chat template itself; `turn` for what it cannot be sent.
`template`          llama.cpp's `/apply-template`, then its `/tokenize`; for servers too old for `chat`.
`own`               the counting endpoint of the upstream's own dialect.
`turn`              the turn itself with a limit of one token; the count is in its usage. It costs the processing of the
                    prompt, which most servers cache for the next turn. A turn that does not fit is refused.

No method estimates. If an upstream leaves the count out, there is none.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from dataplane.body_weight import run_for_items
from providers.base import CountMethod, Exchange
from providers.errors import UpstreamGarbled, UpstreamModelNotFound, UpstreamRejected
from providers.http.dialects import CountRequest
from providers.http.relay import split_headers
from providers.http.upstream import Upstream
from translation.chat.upstream.lower import lower as lower_to_chat
from translation.errors import Unrepresentable
from translation.representation.collector import TurnCollector
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.upstream.lower import lower as lower_to_responses

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
"""Parameters of a Responses body that the counted input consists of. OpenAI's counting endpoint refuses others."""

_TEMPLATE_PARAMETERS = frozenset(
    {"model", "messages", "tools", "chat_template", "chat_template_kwargs", "add_generation_prompt"}
)
"""Parameters of a chat body that chat templates are rendered from."""

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
"""Parameters of a chat body that no chat template uses. Any other may change the prompt."""

TurnPreparer = Callable[[Turn, Profile], Exchange]
CountRequestBuilder = Callable[[Turn, Profile], CountRequest]


class TokenCounter:
    """Counts tokens for one upstream.

    `prepare` is the provider's method. `build_count_request` builds the request for method `own`; None if the dialect
    has no counting endpoint.
    """

    def __init__(
        self, upstream: Upstream, prepare: TurnPreparer, build_count_request: CountRequestBuilder | None = None
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
        """Returns the exact number of tokens of the turn's input.

        Raises Unrepresentable if this method cannot count the turn, and ProviderError.
        """
        if method not in self._methods:
            raise Unrepresentable("this model's upstream cannot count tokens", param="model")
        try:
            count = await self._methods[method](replace(turn, stream=False), profile)
        except UpstreamRejected as rejection:
            rejection.redact(self._upstream.make_redactor(turn.credentials))
            raise
        return require_count(count, self._upstream.name)

    async def _count_with_responses(self, turn: Turn, profile: Profile) -> Any:
        body = (await run_for_items(turn.items, lower_to_responses, turn, profile)).body
        count_body = {name: value for name, value in body.items() if name in _INPUT_PARAMETERS or name in turn.extra}
        return (await self._upstream.post_json("/responses/input_tokens", count_body)).get("input_tokens")

    async def _count_with_chat(self, turn: Turn, profile: Profile) -> Any:
        body = (await run_for_items(turn.items, lower_to_chat, turn, profile)).body
        return (await self._upstream.post_json("/chat/completions/input_tokens", body)).get("input_tokens")

    async def _count_with_tokenize(self, turn: Turn, profile: Profile) -> Any:
        body = (await run_for_items(turn.items, lower_to_chat, turn, profile)).body
        if body.keys() - _TEMPLATE_PARAMETERS - _NON_TEMPLATE_PARAMETERS or _has_media(body):
            return await self._count_with_turn(turn, profile)
        count_body = {name: value for name, value in body.items() if name in _TEMPLATE_PARAMETERS}
        try:
            return (await self._upstream.post_json("/tokenize", count_body, at_root=True)).get("count")
        except UpstreamModelNotFound:  # the endpoint or the model does not exist: the turn shows which
            return await self._count_with_turn(turn, profile)

    async def _count_with_template(self, turn: Turn, profile: Profile) -> Any:
        body = (await run_for_items(turn.items, lower_to_chat, turn, profile)).body
        if _has_media(body):
            raise Unrepresentable("this upstream can only count the tokens of text", param="input")
        prompt = (await self._upstream.post_json("/apply-template", body, at_root=True)).get("prompt")
        tokenize_body = {"content": prompt, "add_special": True, "parse_special": True}
        tokens = (await self._upstream.post_json("/tokenize", tokenize_body, at_root=True)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    async def _count_with_own_api(self, turn: Turn, profile: Profile) -> Any:
        if self._build_count_request is None:
            raise Unrepresentable("this model's upstream has no endpoint for counting tokens", param="model")
        request = await run_for_items(turn.items, self._build_count_request, turn, profile)
        headers, body = split_headers(request.body, request.header_params, self._upstream.configured_headers)
        return (await self._upstream.post_json(request.path, body, headers=headers)).get(request.result_key)

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


def require_count(count: Any, provider: str) -> int:
    """Returns the count of an upstream's reply. Raises UpstreamGarbled if it is none."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise UpstreamGarbled("the upstream's token count is not a number", provider=provider)
    return count


def _has_media(body: Json) -> bool:
    """Whether a chat body has content other than text."""
    contents = [message.get("content") for message in body["messages"]]
    return any(part.get("type") != "text" for content in contents if isinstance(content, list) for part in content)
