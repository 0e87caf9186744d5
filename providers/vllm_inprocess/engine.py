"""Adapts vLLM's `AsyncLLM` to the `Engine` protocol."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import ModuleType
from typing import Any, Final

from providers.egress import EgressClient
from providers.engines.base import EngineDelta, GenerationRequest, TokenPrompt
from providers.errors import ContextLengthExceeded, UpstreamRejected, UpstreamTimeout
from providers.new_id import new_id
from providers.vllm_inprocess import rendering
from providers.vllm_inprocess.engine_deltas import build_engine_delta
from providers.vllm_inprocess.failures import raise_provider_errors
from providers.vllm_inprocess.images import inline_images
from providers.vllm_inprocess.sampling import SUPPORTED_PARAMETERS, build_sampling_params
from translation.representation.json_types import Json

_TAIL_TOKENS: Final = 200
_SPECIAL_TAGS: Final = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>"),
    *("[TOOL_CALLS]", "[THINK]", "[/THINK]", "<|python_tag|>", "<|tool_call|>", "<|tool_calls_section_begin|>"),
)
"""Tags that are special tokens in some tokenizers. vLLM leaves special tokens out of the text by default."""


class VllmEngine:
    """The model of an `AsyncLLM` that is up. `vllm` is the module `providers.vllm_inprocess.library`.

    `egress` fetches images. `silence_s`: the most seconds for which the engine may generate nothing.
    `keep_special_tokens`: special tokens are part of the text; None: only if the model's tags are special tokens.
    """

    def __init__(
        self,
        vllm: ModuleType,
        llm: Any,
        egress: EgressClient,
        *,
        silence_s: float,
        keep_special_tokens: bool | None = None,
    ) -> None:
        self._vllm = vllm
        self._llm = llm
        self._egress = egress
        self._silence_s = silence_s
        self._tokenizer = llm.get_tokenizer()
        self._defaults: Mapping[str, Any] = _read_default_sampling(llm)
        self._keep_special_tokens = (
            _has_special_tags(self._tokenizer) if keep_special_tokens is None else keep_special_tokens
        )
        self._tools_rendered: bool | None = None

    @property
    def context_window(self) -> int:
        return int(self._llm.model_config.max_model_len)

    @property
    def supported_parameters(self) -> frozenset[str]:
        return SUPPORTED_PARAMETERS

    async def render(self, chat: Json) -> TokenPrompt:
        # ValueError and NotImplementedError: an invalid image, or a message that the template does not support.
        with raise_provider_errors(self._vllm, client_errors=(ValueError, NotImplementedError)):
            reads_images = self._llm.model_config.is_multimodal_model
            inlined_chat, has_images = await inline_images(chat, self._egress, reads_images=reads_images)
            rendered = await rendering.render_prompt(self._vllm, self._llm.renderer, inlined_chat, as_parts=has_images)
        tokens = rendered["prompt_token_ids"]
        text = rendered.get("prompt") or self._tokenizer.decode(tokens[-_TAIL_TOKENS:])
        media = rendered if rendered["type"] == "multimodal" else None
        return TokenPrompt(tokens=tokens, tail=text[-_TAIL_TOKENS:], media=media)

    async def renders_tools(self) -> bool:
        if self._tools_rendered is None:
            try:
                with raise_provider_errors(self._vllm, client_errors=(ValueError,)):
                    self._tools_rendered = await rendering.renders_tools(self._vllm, self._llm.renderer)
            except UpstreamRejected:
                # A template that fails on tools does not render them. If it fails on everything, `render` reports that.
                self._tools_rendered = False
        return self._tools_rendered

    async def encode(self, text: str) -> Sequence[int]:
        """Encodes in the event loop, because texts are short (tags, bridges, prefixes of calls) and fast tokenizers
        need only microseconds for them."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    async def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    async def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        room = self.context_window - len(prompt.tokens)
        if room < 1:
            raise ContextLengthExceeded(
                f"This model's maximum context length is {self.context_window} tokens. However, the input has "
                f"{len(prompt.tokens)} tokens, and the answer needs at least one.",
                status=400,
                kind="invalid_request_error",
                code="context_length_exceeded",
            )
        backend = self._llm.vllm_config.structured_outputs_config.backend
        parameters = build_sampling_params(
            self._vllm,
            request,
            self._defaults,
            room=room,
            keep_special_tokens=self._keep_special_tokens,
            backend=backend,
        )
        first = True
        with raise_provider_errors(self._vllm):
            async with aclosing(self._start_generation(prompt, request, parameters)) as outputs:
                while (output := await self._next_output(outputs)) is not None:
                    if output.outputs:
                        yield build_engine_delta(output, alternatives=request.top_logprobs, first=first)
                        first = False

    async def _next_output(self, outputs: AsyncGenerator[Any, None]) -> Any:
        """Returns the next output; None after the last. Raises UpstreamTimeout."""
        try:
            async with asyncio.timeout(self._silence_s):
                return await anext(outputs, None)
        except TimeoutError:
            raise UpstreamTimeout(f"the engine generated nothing for {self._silence_s:g} s") from None

    def _start_generation(
        self, prompt: TokenPrompt, request: GenerationRequest, parameters: Any
    ) -> AsyncGenerator[Any, None]:
        outputs: AsyncGenerator[Any, None] = self._llm.generate(
            self._build_input(prompt, request),
            parameters,
            new_id("gen"),
            priority=request.sampling.get("priority") or 0,
            # vLLM applies a constraint only after the thinking, whose end its own parser looks for. If the request has
            # a constraint, the thinking has already ended.
            reasoning_ended=True if request.constraint is not None else None,
        )
        return outputs

    def _build_input(self, prompt: TokenPrompt, request: GenerationRequest) -> Any:
        tokens, salt = list(prompt.tokens), request.sampling.get("cache_salt")
        if prompt.media is None:
            return self._vllm.tokens_input(tokens, cache_salt=salt)
        return {**prompt.media, "prompt_token_ids": tokens} | ({"cache_salt": salt} if salt is not None else {})


def _read_default_sampling(llm: Any) -> Mapping[str, Any]:
    """Returns the sampling parameters of the model's generation config that vLLM's server would use, without a token
    limit."""
    return {name: value for name, value in llm.model_config.get_diff_sampling_param().items() if name != "max_tokens"}


def _has_special_tags(tokenizer: Any) -> bool:
    return not set(_SPECIAL_TAGS).isdisjoint(getattr(tokenizer, "all_special_tokens", ()))
