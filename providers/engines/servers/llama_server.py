"""llama.cpp's own server as an engine: https://github.com/ggml-org/llama.cpp/tree/master/tools/server"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson

from providers.engines.base import EngineDelta, EngineFinishReason, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.json_form import JsonOutputCheck
from providers.engines.servers.remote import ModelCache, RemoteEngine, reject_media
from providers.errors import UpstreamRejected
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.parsers.thought_reader import CLOSING_TAGS
from translation.representation.json_types import Json

LLAMA_PARAMETERS: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_penalty": "repeat_penalty",
    "logit_bias": "logit_bias",
    "id_slot": "id_slot",
    "cache_prompt": "cache_prompt",
}
"""Parameter of a turn -> llama.cpp's name for it."""

_PRESERVED_TAGS: Final = (
    "<think>",
    "<thinking>",
    *CLOSING_TAGS,
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
)
"""Written as text even where they are special tokens of the model."""

_TAIL_CHARS: Final = 200
_NO_LLGUIDANCE: Final = "llguidance is not there"
_SCHEMA_NOT_ENFORCED: Final = (
    "llama.cpp cannot hold an answer to this schema: look for unknown types, references and patterns"
)


class LlamaServerEngine(RemoteEngine):
    """One llama-server."""

    supported_parameters = frozenset(LLAMA_PARAMETERS)

    @classmethod
    def for_model(cls, upstream: Upstream, _model: str, cache: ModelCache) -> "LlamaServerEngine":
        """A llama-server has one model, whatever it is asked for."""
        return cls(upstream, cache)

    async def render(self, chat: Json) -> TokenPrompt:
        reject_media(chat)
        if self._cache.get("window") is None:
            settings = (await self._upstream.get_json("/props", at_root=True)).get("default_generation_settings")
            window = settings.get("n_ctx") if isinstance(settings, dict) else None
            if isinstance(window, int) and window > 0:
                self._cache.context_window = window
            self._cache.put("window", True)
        text = self.parse_text(await self._upstream.post_json("/apply-template", chat, at_root=True), "prompt")
        tokens = await self._tokenize(text, add_special=True)
        return TokenPrompt(tokens=tokens, tail=text[-_TAIL_CHARS:])

    async def _tokenize_text(self, text: str) -> list[int]:
        return await self._tokenize(text, add_special=False)

    async def decode(self, tokens: Sequence[int]) -> str:
        return self.parse_text(
            await self._upstream.post_json("/detokenize", {"tokens": list(tokens)}, at_root=True), "content"
        )

    async def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        check = JsonOutputCheck(request.constraint)
        async with aclosing(self._generate_constrained(prompt, request)) as pieces:
            async for piece in pieces:
                if check.is_violated_by(piece):
                    raise UpstreamRejected(_SCHEMA_NOT_ENFORCED, provider=self._upstream.name, status=400)
                yield piece

    async def _generate_constrained(
        self, prompt: TokenPrompt, request: GenerationRequest
    ) -> AsyncGenerator[EngineDelta, None]:
        lark = _lark_grammar_of(request.constraint) if self._cache.get(_NO_LLGUIDANCE) is None else None
        pieces = self._generate(
            prompt, request, {"grammar": lark} if lark else _constraint_fields_of(request.constraint)
        )
        has_started = False
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    has_started = True
                    yield piece
            return
        except UpstreamRejected:
            if lark is None or has_started:
                raise
        # A server that was built without llguidance takes no such grammar: the schema alone has to do.
        self._cache.put(_NO_LLGUIDANCE, True)
        async with aclosing(self._generate(prompt, request, _constraint_fields_of(request.constraint))) as pieces:
            async for piece in pieces:
                yield piece

    async def _generate(
        self, prompt: TokenPrompt, request: GenerationRequest, constraint_fields: Json
    ) -> AsyncGenerator[EngineDelta, None]:
        body: Json = {
            "prompt": list(prompt.tokens),
            "n_predict": request.max_tokens,
            "stop": list(request.stop),
            "stream": True,
            "return_tokens": True,
            "cache_prompt": True,
            "preserved_tokens": list(_PRESERVED_TAGS),
            **{LLAMA_PARAMETERS[name]: value for name, value in request.sampling.items() if name in LLAMA_PARAMETERS},
            **constraint_fields,
        }
        if request.top_logprobs is not None:
            body["n_probs"] = max(1, request.top_logprobs)
        generated = 0
        last: EngineDelta | None = None
        async with aclosing(self._stream_chunks("/completion", body, at_root=True)) as objects:
            async for chunk in objects:
                tokens = self.parse_tokens({"tokens": chunk.get("tokens", [])})
                predicted = chunk.get("tokens_predicted")
                missing = predicted - generated - len(tokens) if isinstance(predicted, int) else 0
                generated += missing + len(tokens)
                text = self.parse_text(chunk, "content")
                if missing and tokens:
                    tokens, missing = await self._recover_missing_tokens(text, tokens, missing)
                logprobs = _logprobs_of(chunk.get("completion_probabilities"), request.top_logprobs)
                if chunk.get("stop") is not True:
                    yield EngineDelta(
                        text, tokens, logprobs, unlisted_tokens=missing, cached_tokens=_cached_tokens_of(chunk)
                    )
                    continue
                kind, word = chunk.get("stop_type"), chunk.get("stopping_word")
                stop = str(word) if kind == "word" else None
                ending: EngineFinishReason = "length" if kind == "limit" else "stop"
                last = EngineDelta(text, tokens, logprobs, ending, stop, _cached_tokens_of(chunk), missing)
        if last is None:
            raise self.broken_error()
        yield last

    async def _recover_missing_tokens(self, text: str, tokens: list[int], missing: int) -> tuple[list[int], int]:
        """All the tokens of a piece, and how many more there were than these.

        The server's stream leaves out those in the middle of a character. In most tokenizers they are a byte each: then
        the text leads back to them.
        """
        spelt = await self.encode(text)
        whole = list(spelt[-len(tokens) - missing :])
        if len(whole) == len(tokens) + missing and whole[-len(tokens) :] == tokens:
            return whole, 0
        return list(spelt), missing + len(tokens) - len(spelt)

    async def _tokenize(self, text: str, *, add_special: bool) -> list[int]:
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self.parse_tokens(await self._upstream.post_json("/tokenize", body, at_root=True))


def _constraint_fields_of(guide: OutputConstraint | None) -> Json:
    if guide is None:
        return {}
    if guide.regex is not None:
        raise Unrepresentable("llama.cpp holds answers to a schema or a grammar, not to a regex", param="regex")
    if guide.choice is not None:
        return {"grammar": "root ::= " + " | ".join(_gbnf_literal(each) for each in guide.choice)}
    if guide.grammar is not None:
        return {"grammar": guide.grammar}
    return {
        "json_schema": _with_llguidance_options(
            guide.json_schema if guide.json_schema is not None else {"type": "object"}
        )
    }


def _lark_grammar_of(guide: OutputConstraint | None) -> str | None:
    """A schema and what follows it, as llguidance is told of them."""
    if guide is None or guide.json_schema is None or not guide.suffix:
        return None
    after, schema = (
        orjson.dumps(guide.suffix).decode(),
        orjson.dumps(_with_llguidance_options(guide.json_schema)).decode(),
    )
    return f"%llguidance {{}}\nstart: value {after}\nvalue: %json {schema}"


def _with_llguidance_options(schema: Json) -> Json:
    """The schema with what llguidance, and nothing else, reads in it: where there are spaces, and to be lenient.

    Without the first there may be any number of them, and small models that would rather write no JSON write spaces
    forever. Without the second a keyword that it does not know, `not` or `uniqueItems`, costs the whole schema.
    """
    if not schema:
        return schema  # llama.cpp's own converter knows the empty one, and none that has nothing but such a key
    spaces = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return {**schema, "x-guidance": {**spaces, "lenient": True}}


def _gbnf_literal(text: str) -> str:
    """A literal of a GBNF grammar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _cached_tokens_of(chunk: Json) -> int | None:
    timings = chunk.get("timings")
    cached = timings.get("cache_n") if isinstance(timings, dict) else None
    return cached if isinstance(cached, int) and cached >= 0 else None


def _logprobs_of(given: Any, alternatives: int | None) -> list[Json] | None:
    if alternatives is None or not isinstance(given, list):
        return None
    return [
        {**_logprob_of(each), "top_logprobs": [_logprob_of(other) for other in each["top_logprobs"][:alternatives]]}
        for each in given
    ]


def _logprob_of(given: Json) -> Json:
    return {"token": given["token"], "logprob": given["logprob"], "bytes": given["bytes"]}
