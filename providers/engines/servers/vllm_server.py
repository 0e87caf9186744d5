"""vLLM's server as an engine: https://docs.vllm.ai/en/latest/serving/openai_compatible_server/"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from providers.engines.base import EngineDelta, EngineFinishReason, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.output_constraints import render_structural_tag
from providers.engines.servers.remote import ModelCache, RemoteEngine, refuse_media
from providers.http.upstream import Upstream
from translation.representation.json_types import Json

_TAIL_TOKENS: Final = 48
"""The number of tokens that are decoded for `TokenPrompt.tail`. Their text has at least 100 characters, or contains the
whole end of the template."""

_PROMPT_FIELDS: Final = ("messages", "tools", "chat_template_kwargs")


class VllmServerEngine(RemoteEngine):
    """One model of a vLLM server. Needs vLLM 0.12 or later: older versions do not know `structured_outputs`."""

    supported_parameters = frozenset(
        {
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "repetition_penalty",
            "logit_bias",
            "allowed_token_ids",
            "bad_words",
            "cache_salt",
            "ignore_eos",
            "length_penalty",
            "min_tokens",
            "priority",
            "stop_token_ids",
            "thinking_token_budget",
            "vllm_xargs",
        }
    )

    def __init__(self, upstream: Upstream, model: str, cache: ModelCache) -> None:
        super().__init__(upstream, cache)
        self._model = model

    async def render(self, chat: Json) -> TokenPrompt:
        refuse_media(chat)
        fields = {name: chat[name] for name in _PROMPT_FIELDS if chat.get(name)}
        answer = await self._upstream.post_json(
            "/tokenize", {"model": self._model, "add_generation_prompt": True, **fields}, at_root=True
        )
        tokens, window = self.parse_tokens(answer), answer.get("max_model_len")
        if isinstance(window, int) and window > 0:
            self._cache.context_window = window
        return TokenPrompt(tokens=tokens, tail=await self.decode(tokens[-_TAIL_TOKENS:]))

    async def _tokenize_text(self, text: str) -> list[int]:
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return self.parse_tokens(await self._upstream.post_json("/tokenize", body, at_root=True))

    async def decode(self, tokens: Sequence[int]) -> str:
        body = {"model": self._model, "tokens": list(tokens)}
        return self.parse_text(await self._upstream.post_json("/detokenize", body, at_root=True), "prompt")

    async def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        body: Json = {
            **{name: value for name, value in request.sampling.items() if name in self.supported_parameters},
            "model": self._model,
            "prompt": list(prompt.tokens),
            "max_tokens": request.max_tokens,
            "stop": list(request.stop),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            # Tags may be special tokens. The token that ends the turn is not in the text even so.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        if request.constraint is not None:
            body["structured_outputs"] = _build_structured_outputs(request.constraint)
        if request.top_logprobs is not None:
            body["logprobs"] = request.top_logprobs
        last: EngineDelta | None = None
        async with aclosing(self._stream_chunks("/completions", body, at_root=False)) as chunks:
            async for chunk in chunks:
                cached = _read_cached_tokens(chunk.get("usage"))
                choices = chunk.get("choices")
                if not isinstance(choices, list):
                    raise self.build_garbled_error("the engine's choices are not a list")
                for choice in choices:
                    delta = self._build_delta(choice, cached, request.top_logprobs)
                    if delta.finish_reason is None:
                        yield delta
                    else:
                        last = delta
                if last is not None and cached is not None:
                    last = replace(last, cached_tokens=cached)
        if last is None:
            raise self.build_broken_error()
        yield last

    def _build_delta(self, choice: Json, cached: int | None, alternatives: int | None) -> EngineDelta:
        text = self.parse_text(choice, "text")
        tokens = self.parse_tokens({"tokens": choice.get("token_ids") or []})
        reason, stop = choice.get("finish_reason"), choice.get("stop_reason")
        finish_reason: EngineFinishReason | None = (
            None if reason is None else "length" if reason == "length" else "stop"
        )
        logprobs = None if alternatives is None else _read_logprobs(choice.get("logprobs"), alternatives)
        return EngineDelta(text, tokens, logprobs, finish_reason, stop if isinstance(stop, str) else None, cached)


def _build_structured_outputs(constraint: OutputConstraint) -> Json:
    if (tag := render_structural_tag(constraint)) is not None:
        return {"structural_tag": tag}
    kinds = {
        "json": constraint.json_schema,
        "json_object": constraint.json_object or None,
        "regex": constraint.regex,
        "grammar": constraint.grammar or constraint.lark,
        "choice": None if constraint.choice is None else list(constraint.choice),
    }
    return {name: value for name, value in kinds.items() if value is not None}


def _read_cached_tokens(usage: Any) -> int | None:
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if isinstance(cached, int) else None


def _read_logprobs(logprobs: Any, alternatives: int) -> list[Json] | None:
    """Returns log probabilities in the Responses form. The completions API has them in parallel lists, with tokens as
    text and without their bytes."""
    if not isinstance(logprobs, Mapping):
        return None
    tokens, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
    top_logprobs = logprobs.get("top_logprobs") or [None] * len(tokens)
    return [
        {
            **_build_logprob(token, value),
            "top_logprobs": [_build_logprob(*pair) for pair in list((candidates or {}).items())[:alternatives]],
        }
        for token, value, candidates in zip(tokens, values, top_logprobs, strict=False)
    ]


def _build_logprob(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
