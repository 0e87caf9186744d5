"""vLLM's own server as an engine: https://docs.vllm.ai/en/latest/serving/openai_compatible_server/"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from providers.engines.base import EngineDelta, EngineFinishReason, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.output_constraints import structural_tag_of
from providers.engines.servers.remote import ModelCache, RemoteEngine, reject_media
from providers.http.upstream import Upstream
from translation.representation.json_types import Json

_TAIL_TOKENS: Final = 48
"""Tokens whose text is surely a hundred characters, or all there is of a template's end."""

_PROMPT_FIELDS: Final = ("messages", "tools", "chat_template_kwargs")


class VllmServerEngine(RemoteEngine):
    """One model of a vLLM server, from 0.12 on: older ones know no `structured_outputs`."""

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
        reject_media(chat)
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
            # Tags may be special tokens of the model; the one that ends a turn is never in the text.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        if request.constraint is not None:
            body["structured_outputs"] = _structured_outputs_of(request.constraint)
        if request.top_logprobs is not None:
            body["logprobs"] = request.top_logprobs
        last: EngineDelta | None = None
        async with aclosing(self._stream_chunks("/completions", body, at_root=False)) as objects:
            async for chunk in objects:
                cached = _cached_tokens_of(chunk.get("usage"))
                choices = chunk.get("choices")
                if not isinstance(choices, list):
                    raise self.garbled_error("the engine's choices are no list")
                for choice in choices:
                    piece = self._delta_of_choice(choice, cached, request.top_logprobs)
                    if piece.finish_reason is None:
                        yield piece
                    else:
                        last = piece
                if last is not None and cached is not None:
                    last = replace(last, cached_tokens=cached)
        if last is None:
            raise self.broken_error()
        yield last

    def _delta_of_choice(self, choice: Json, cached: int | None, alternatives: int | None) -> EngineDelta:
        text = self.parse_text(choice, "text")
        tokens = self.parse_tokens({"tokens": choice.get("token_ids") or []})
        reason, stop = choice.get("finish_reason"), choice.get("stop_reason")
        ending: EngineFinishReason | None = None if reason is None else "length" if reason == "length" else "stop"
        logprobs = None if alternatives is None else _logprobs_of(choice.get("logprobs"), alternatives)
        return EngineDelta(text, tokens, logprobs, ending, stop if isinstance(stop, str) else None, cached)


def _structured_outputs_of(guide: OutputConstraint) -> Json:
    if (tag := structural_tag_of(guide)) is not None:
        return {"structural_tag": tag}
    kinds = {
        "json": guide.json_schema,
        "json_object": guide.json_object or None,
        "regex": guide.regex,
        "grammar": guide.grammar,
        "choice": None if guide.choice is None else list(guide.choice),
    }
    return {name: value for name, value in kinds.items() if value is not None}


def _cached_tokens_of(usage: Any) -> int | None:
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if isinstance(cached, int) else None


def _logprobs_of(given: Any, alternatives: int) -> list[Json] | None:
    """From the completions API's parallel lists; it says tokens as text, and their bytes not at all."""
    if not isinstance(given, Mapping):
        return None
    tokens, values = given.get("tokens") or [], given.get("token_logprobs") or []
    others = given.get("top_logprobs") or [None] * len(tokens)
    return [
        {
            **_logprob_of(token, value),
            "top_logprobs": [_logprob_of(*each) for each in list((most or {}).items())[:alternatives]],
        }
        for token, value, most in zip(tokens, values, others, strict=False)
    ]


def _logprob_of(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
