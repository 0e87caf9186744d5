"""vLLM's own server as an engine: https://docs.vllm.ai/en/latest/serving/openai_compatible_server/"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from providers.engines.base import Finish, Generation, Guide, Piece, Prompt
from providers.engines.output_constraints import structural_tag
from providers.engines.servers.remote import Memory, RemoteEngine, refuse_media
from providers.http.upstream import Upstream
from translation.representation.json_types import Json

_TAIL: Final = 48
"""Tokens whose text is surely a hundred characters, or all there is of a template's end."""

_RENDERED: Final = ("messages", "tools", "chat_template_kwargs")


class VllmServerEngine(RemoteEngine):
    """One model of a vLLM server, from 0.12 on: older ones know no `structured_outputs`."""

    parameters = frozenset(
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

    def __init__(self, upstream: Upstream, model: str, memory: Memory) -> None:
        super().__init__(upstream, memory)
        self._model = model

    async def render(self, chat: Json) -> Prompt:
        refuse_media(chat)
        asked = {name: chat[name] for name in _RENDERED if chat.get(name)}
        answer = await self._upstream.ask(
            "/tokenize", {"model": self._model, "add_generation_prompt": True, **asked}, at_root=True
        )
        tokens, window = self.tokens_in(answer), answer.get("max_model_len")
        if isinstance(window, int) and window > 0:
            self._memory.window = window
        return Prompt(tokens=tokens, tail=await self.decode(tokens[-_TAIL:]))

    async def _encode(self, text: str) -> list[int]:
        asked = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return self.tokens_in(await self._upstream.ask("/tokenize", asked, at_root=True))

    async def decode(self, tokens: Sequence[int]) -> str:
        asked = {"model": self._model, "tokens": list(tokens)}
        return self.text_in(await self._upstream.ask("/detokenize", asked, at_root=True), "prompt")

    async def generate(self, prompt: Prompt, asked: Generation) -> AsyncGenerator[Piece, None]:
        body: Json = {
            **{name: value for name, value in asked.sampling.items() if name in self.parameters},
            "model": self._model,
            "prompt": list(prompt.tokens),
            "max_tokens": asked.max_tokens,
            "stop": list(asked.stop),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            # Tags may be special tokens of the model; the one that ends a turn is never in the text.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        if asked.guide is not None:
            body["structured_outputs"] = _held(asked.guide)
        if asked.logprobs is not None:
            body["logprobs"] = asked.logprobs
        last: Piece | None = None
        async with aclosing(self._objects("/completions", body, at_root=False)) as objects:
            async for said in objects:
                cached = _cached(said.get("usage"))
                choices = said.get("choices")
                if not isinstance(choices, list):
                    raise self.garbled("the engine's choices are no list")
                for choice in choices:
                    piece = self._piece(choice, cached, asked.logprobs)
                    if piece.finish is None:
                        yield piece
                    else:
                        last = piece
                if last is not None and cached is not None:
                    last = replace(last, cached=cached)
        if last is None:
            raise self.broken()
        yield last

    def _piece(self, choice: Json, cached: int | None, rivals: int | None) -> Piece:
        text = self.text_in(choice, "text")
        tokens = self.tokens_in({"tokens": choice.get("token_ids") or []})
        reason, stop = choice.get("finish_reason"), choice.get("stop_reason")
        ending: Finish | None = None if reason is None else "length" if reason == "length" else "stop"
        logprobs = None if rivals is None else _logprobs(choice.get("logprobs"), rivals)
        return Piece(text, tokens, logprobs, ending, stop if isinstance(stop, str) else None, cached)


def _held(guide: Guide) -> Json:
    if (tag := structural_tag(guide)) is not None:
        return {"structural_tag": tag}
    kinds = {
        "json": guide.json_schema,
        "json_object": guide.json_object or None,
        "regex": guide.regex,
        "grammar": guide.grammar,
        "choice": None if guide.choice is None else list(guide.choice),
    }
    return {name: value for name, value in kinds.items() if value is not None}


def _cached(usage: Any) -> int | None:
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if isinstance(cached, int) else None


def _logprobs(given: Any, rivals: int) -> list[Json] | None:
    """From the completions API's parallel lists; it says tokens as text, and their bytes not at all."""
    if not isinstance(given, Mapping):
        return None
    tokens, values = given.get("tokens") or [], given.get("token_logprobs") or []
    others = given.get("top_logprobs") or [None] * len(tokens)
    return [
        {
            **_probability(token, value),
            "top_logprobs": [_probability(*each) for each in list((most or {}).items())[:rivals]],
        }
        for token, value, most in zip(tokens, values, others, strict=False)
    ]


def _probability(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
