"""llama.cpp's server as an engine: https://github.com/ggml-org/llama.cpp/tree/master/tools/server"""

import hashlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson

from providers.engines.base import EngineDelta, EngineFinishReason, GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.servers.json_output_check import JsonOutputCheck
from providers.engines.servers.remote import ModelCache, RemoteEngine, refuse_media
from providers.errors import UpstreamRejected
from providers.http.upstream import Upstream
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
"""Tags that the server writes as text even if they are special tokens of the model."""

_TAIL_CHARS: Final = 200
_NO_LLGUIDANCE: Final = "llguidance is not there"

_LLGUIDANCE: Final = "%llguidance {}\n"
"""The beginning of a grammar that llguidance reads."""

_UNLIKELY_TEXT: Final = "@%@%@%"
_REGEX_PIECE: Final = re.compile(r"\\.|[/\n]", re.DOTALL)
_REGEX_ESCAPES: Final = {"/": r"\/", "\n": r"\n"}
_GRAMMAR_NOT_HELD: Final = (
    "llama.cpp cannot hold text to this grammar: look for mistakes in it, and whether the server was built with "
    "llguidance"
)
_SCHEMA_NOT_ENFORCED: Final = (
    "llama.cpp cannot constrain an answer to this schema: look for unknown types, references and patterns"
)


class LlamaServerEngine(RemoteEngine):
    """The model of one llama-server."""

    supported_parameters = frozenset(LLAMA_PARAMETERS)

    @classmethod
    def for_model(cls, upstream: Upstream, _model: str, cache: ModelCache) -> "LlamaServerEngine":
        """Returns the engine. The name of the model is ignored, because a llama-server has only one model."""
        return cls(upstream, cache)

    async def render(self, chat: Json) -> TokenPrompt:
        refuse_media(chat)
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
        async with aclosing(self._generate_constrained(prompt, request)) as deltas:
            async for delta in deltas:
                if check.is_violated_by(delta):
                    raise UpstreamRejected(_SCHEMA_NOT_ENFORCED, provider=self._upstream.name, status=400)
                yield delta

    async def _generate_constrained(
        self, prompt: TokenPrompt, request: GenerationRequest
    ) -> AsyncGenerator[EngineDelta, None]:
        if (wanted := _find_input_grammar(request.constraint)) is not None:
            await self._require_grammar(wanted)
            async with aclosing(self._generate(prompt, request, {"grammar": _LLGUIDANCE + wanted})) as deltas:
                async for delta in deltas:
                    yield delta
            return
        lark = _build_lark_grammar(request.constraint) if self._cache.get(_NO_LLGUIDANCE) is None else None
        deltas = self._generate(
            prompt, request, {"grammar": lark} if lark else _build_constraint_fields(request.constraint)
        )
        has_started = False
        try:
            async with aclosing(deltas):
                async for delta in deltas:
                    has_started = True
                    yield delta
            return
        except UpstreamRejected:
            if lark is None or has_started:
                raise
        # A server that was built without llguidance refuses such a grammar. It gets the schema without the suffix.
        self._cache.put(_NO_LLGUIDANCE, True)
        async with aclosing(self._generate(prompt, request, _build_constraint_fields(request.constraint))) as deltas:
            async for delta in deltas:
                yield delta

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
        async with aclosing(self._stream_chunks("/completion", body, at_root=True)) as chunks:
            async for chunk in chunks:
                tokens = self.parse_tokens({"tokens": chunk.get("tokens", [])})
                predicted = chunk.get("tokens_predicted")
                missing = predicted - generated - len(tokens) if isinstance(predicted, int) else 0
                generated += missing + len(tokens)
                text = self.parse_text(chunk, "content")
                if missing and tokens:
                    tokens, missing = await self._recover_missing_tokens(text, tokens, missing)
                logprobs = _read_logprobs(chunk.get("completion_probabilities"), request.top_logprobs)
                if chunk.get("stop") is not True:
                    yield EngineDelta(
                        text, tokens, logprobs, unlisted_tokens=missing, cached_tokens=_read_cached_tokens(chunk)
                    )
                    continue
                stop_type, stopping_word = chunk.get("stop_type"), chunk.get("stopping_word")
                stop_string = str(stopping_word) if stop_type == "word" else None
                finish_reason: EngineFinishReason = "length" if stop_type == "limit" else "stop"
                cached = _read_cached_tokens(chunk)
                last = EngineDelta(text, tokens, logprobs, finish_reason, stop_string, cached, missing)
        if last is None:
            raise self.build_broken_error()
        yield last

    async def _require_grammar(self, lark: str) -> None:
        """Raises UpstreamRejected if the server cannot hold text to a grammar.

        The server generates without a grammar if llguidance cannot compile it, and only its log says so. So a few
        tokens are generated first, with the grammar behind a text that no model writes.
        """
        name = f"grammar {hashlib.sha256(lark.encode()).hexdigest()}"
        if (is_held := self._cache.get(name)) is None:
            grammar = f'{_LLGUIDANCE}start: "{_UNLIKELY_TEXT}" inner\ninner: %lark {{\n{lark}\n}}'
            probe = {"prompt": " ", "n_predict": len(_UNLIKELY_TEXT), "grammar": grammar, "cache_prompt": False}
            try:
                reply = await self._upstream.post_json("/completion", probe, at_root=True)
            except UpstreamRejected as refusal:
                if type(refusal) is not UpstreamRejected:
                    raise
                reply = {"content": ""}
            is_held = self.parse_text(reply, "content").startswith(_UNLIKELY_TEXT)
            self._cache.put(name, is_held)
        if not is_held:
            raise UpstreamRejected(_GRAMMAR_NOT_HELD, provider=self._upstream.name, status=400)

    async def _recover_missing_tokens(self, text: str, tokens: list[int], missing: int) -> tuple[list[int], int]:
        """Returns the tokens of a delta, and how many generated tokens are not among them.

        The server's stream omits tokens that end in the middle of a character. In most tokenizers such a token is one
        byte. Then tokenising the text yields them.
        """
        text_tokens = await self.encode(text)
        delta_tokens = list(text_tokens[-len(tokens) - missing :])
        if len(delta_tokens) == len(tokens) + missing and delta_tokens[-len(tokens) :] == tokens:
            return delta_tokens, 0
        return list(text_tokens), missing + len(tokens) - len(text_tokens)

    async def _tokenize(self, text: str, *, add_special: bool) -> list[int]:
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self.parse_tokens(await self._upstream.post_json("/tokenize", body, at_root=True))


def _find_input_grammar(constraint: OutputConstraint | None) -> str | None:
    """Returns the Lark grammar of a custom tool's input, which only llguidance can hold text to."""
    if constraint is None or constraint.regex is None:
        return constraint.lark if constraint is not None else None
    # A slash or a line break would end the expression.
    regex = _REGEX_PIECE.sub(lambda piece: _REGEX_ESCAPES.get(piece[0], piece[0]), constraint.regex)
    return f"start: /{regex}/"


def _build_constraint_fields(constraint: OutputConstraint | None) -> Json:
    if constraint is None:
        return {}
    if constraint.choice is not None:
        return {"grammar": "root ::= " + " | ".join(_render_gbnf_literal(text) for text in constraint.choice)}
    if constraint.grammar is not None:
        return {"grammar": constraint.grammar}
    return {
        "json_schema": _add_llguidance_options(
            constraint.json_schema if constraint.json_schema is not None else {"type": "object"}
        )
    }


def _build_lark_grammar(constraint: OutputConstraint | None) -> str | None:
    """Returns llguidance's grammar for a schema and its suffix; None without a schema or suffix."""
    if constraint is None or constraint.json_schema is None or not constraint.suffix:
        return None
    suffix, schema = (
        orjson.dumps(constraint.suffix).decode(),
        orjson.dumps(_add_llguidance_options(constraint.json_schema)).decode(),
    )
    return f"{_LLGUIDANCE}start: value {suffix}\nvalue: %json {schema}"


def _add_llguidance_options(schema: Json) -> Json:
    """Returns the schema with options that only llguidance reads: fixed spaces, and lenient mode.

    Without fixed spaces there may be any number of them, and small models that tend not to write JSON write spaces
    forever. Without lenient mode llguidance refuses the whole schema for a keyword that it does not know, such as `not`
    or `uniqueItems`.
    """
    if not schema:
        return schema  # llama.cpp's own converter handles the empty schema, but not one with only this key
    spaces = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return {**schema, "x-guidance": {**spaces, "lenient": True}}


def _render_gbnf_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _read_cached_tokens(chunk: Json) -> int | None:
    timings = chunk.get("timings")
    cached = timings.get("cache_n") if isinstance(timings, dict) else None
    return cached if isinstance(cached, int) and cached >= 0 else None


def _read_logprobs(probabilities: Any, alternatives: int | None) -> list[Json] | None:
    if alternatives is None or not isinstance(probabilities, list):
        return None
    return [
        {
            **_read_logprob(entry),
            "top_logprobs": [_read_logprob(candidate) for candidate in entry["top_logprobs"][:alternatives]],
        }
        for entry in probabilities
    ]


def _read_logprob(entry: Json) -> Json:
    return {"token": entry["token"], "logprob": entry["logprob"], "bytes": entry["bytes"]}
