"""vLLM's asynchronous engine as the strategies know engines."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import ModuleType
from typing import Any, Final

from providers.egress import Egress
from providers.engines.base import Generation, Piece, Prompt
from providers.errors import ContextLengthExceeded, UpstreamRejected, UpstreamTimeout
from providers.new_id import new_id
from providers.vllm_inprocess import rendering
from providers.vllm_inprocess.engine_deltas import piece
from providers.vllm_inprocess.failures import named
from providers.vllm_inprocess.images import inlined
from providers.vllm_inprocess.sampling import PARAMETERS, sampling_params
from translation.representation.json_types import Json

_TAIL_TOKENS: Final = 200
_TAGS: Final = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>"),
    *("[TOOL_CALLS]", "[THINK]", "[/THINK]", "<|python_tag|>", "<|tool_call|>", "<|tool_calls_section_begin|>"),
)
"""Tags that some tokenizers count among the special tokens, which are otherwise left out of the text."""


class VllmEngine:
    """One model of an AsyncLLM that is up. `vllm` is `providers.vllm_inprocess.library`.

    `egress` fetches images; `silence_s` is how long the engine may say nothing. `whole_text`: special tokens are part
    of the text; None: where the model writes its tags with them.
    """

    def __init__(
        self, vllm: ModuleType, llm: Any, egress: Egress, *, silence_s: float, whole_text: bool | None = None
    ) -> None:
        self._vllm = vllm
        self._llm = llm
        self._egress = egress
        self._silence_s = silence_s
        self._tokenizer = llm.get_tokenizer()
        self._defaults: Mapping[str, Any] = _defaults(llm)
        self._whole_text = _has_special_tags(self._tokenizer) if whole_text is None else whole_text
        self._tools_rendered: bool | None = None

    @property
    def window(self) -> int:
        return int(self._llm.model_config.max_model_len)

    @property
    def parameters(self) -> frozenset[str]:
        return PARAMETERS

    async def render(self, chat: Json) -> Prompt:
        # Of an image that is none, and of a message that the template cannot say.
        with named(self._vllm, theirs=(ValueError, NotImplementedError)):
            able = self._llm.model_config.is_multimodal_model
            inlined_chat, has_images = await inlined(chat, self._egress, able=able)
            made = await rendering.rendered(self._vllm, self._llm.renderer, inlined_chat, as_parts=has_images)
        tokens = made["prompt_token_ids"]
        text = made.get("prompt") or self._tokenizer.decode(tokens[-_TAIL_TOKENS:])
        media = made if made["type"] == "multimodal" else None
        return Prompt(tokens=tokens, tail=text[-_TAIL_TOKENS:], media=media)

    async def renders_tools(self) -> bool:
        if self._tools_rendered is None:
            try:
                with named(self._vllm, theirs=(ValueError,)):
                    self._tools_rendered = await rendering.renders_tools(self._vllm, self._llm.renderer)
            except UpstreamRejected:
                # A template that fails on tools does not say them; one that fails on everything says so of the chat.
                self._tools_rendered = False
        return self._tools_rendered

    async def encode(self, text: str) -> Sequence[int]:
        """Of short texts (tags, bridges, prefixes of calls): the fast tokenizers take microseconds for them."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    async def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    async def generate(self, prompt: Prompt, asked: Generation) -> AsyncGenerator[Piece, None]:
        room = self.window - len(prompt.tokens)
        if room < 1:
            raise ContextLengthExceeded(
                f"This model's maximum context length is {self.window} tokens. However, the input has "
                f"{len(prompt.tokens)} tokens, and the answer needs at least one.",
                status=400,
                kind="invalid_request_error",
                code="context_length_exceeded",
            )
        backend = self._llm.vllm_config.structured_outputs_config.backend
        parameters = sampling_params(
            self._vllm, asked, self._defaults, room=room, whole_text=self._whole_text, backend=backend
        )
        first = True
        with named(self._vllm):
            async with aclosing(self._outputs(prompt, asked, parameters)) as outputs:
                while (output := await self._next(outputs)) is not None:
                    if output.outputs:
                        yield piece(output, alternatives=asked.logprobs, first=first)
                        first = False

    async def _next(self, outputs: AsyncGenerator[Any, None]) -> Any:
        """The next output; None after the last. Raises UpstreamTimeout."""
        try:
            async with asyncio.timeout(self._silence_s):
                return await anext(outputs, None)
        except TimeoutError:
            raise UpstreamTimeout(f"the engine generated nothing for {self._silence_s:g} s") from None

    def _outputs(self, prompt: Prompt, asked: Generation, parameters: Any) -> AsyncGenerator[Any, None]:
        outputs: AsyncGenerator[Any, None] = self._llm.generate(
            self._input(prompt, asked),
            parameters,
            new_id("gen"),
            priority=asked.sampling.get("priority") or 0,
            # vLLM waits with a guide for the end of the thinking, which it looks for by a parser of its own. Where a
            # guide is asked for here, the thinking is over.
            reasoning_ended=True if asked.guide is not None else None,
        )
        return outputs

    def _input(self, prompt: Prompt, asked: Generation) -> Any:
        tokens, salt = list(prompt.tokens), asked.sampling.get("cache_salt")
        if prompt.media is None:
            return self._vllm.tokens_input(tokens, cache_salt=salt)
        return {**prompt.media, "prompt_token_ids": tokens} | ({"cache_salt": salt} if salt is not None else {})


def _defaults(llm: Any) -> Mapping[str, Any]:
    """What the model's own generation_config says of sampling, as vLLM's server takes it, without a length."""
    return {name: value for name, value in llm.model_config.get_diff_sampling_param().items() if name != "max_tokens"}


def _has_special_tags(tokenizer: Any) -> bool:
    return not set(_TAGS).isdisjoint(getattr(tokenizer, "all_special_tokens", ()))
