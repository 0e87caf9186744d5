"""llama.cpp's own server as an engine: https://github.com/ggml-org/llama.cpp/tree/master/tools/server"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson

from providers.engines.base import Finish, Generation, Guide, Piece, Prompt
from providers.engines.json_form import KeptForm
from providers.engines.servers.remote import Memory, RemoteEngine, refuse_media
from providers.errors import UpstreamRejected
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.parsers.thought_reader import CLOSING
from translation.representation.json_types import Json

NAMES: Final[Mapping[str, str]] = {
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

_TAGS: Final = ("<think>", "<thinking>", *CLOSING, "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]")
"""Written as text even where they are special tokens of the model."""

_TAIL: Final = 200
_NO_LARK: Final = "llguidance is not there"
_NOT_HELD: Final = "llama.cpp cannot hold an answer to this schema: look for unknown types, references and patterns"


class LlamaServerEngine(RemoteEngine):
    """One llama-server."""

    parameters = frozenset(NAMES)

    @classmethod
    def of(cls, upstream: Upstream, _model: str, memory: Memory) -> "LlamaServerEngine":
        """A llama-server has one model, whatever it is asked for."""
        return cls(upstream, memory)

    async def render(self, chat: Json) -> Prompt:
        refuse_media(chat)
        if self._memory.get("window") is None:
            settings = (await self._upstream.get("/props", at_root=True)).get("default_generation_settings")
            window = settings.get("n_ctx") if isinstance(settings, dict) else None
            if isinstance(window, int) and window > 0:
                self._memory.window = window
            self._memory.keep("window", True)
        text = self.text_in(await self._upstream.ask("/apply-template", chat, at_root=True), "prompt")
        tokens = await self._tokenize(text, add_special=True)
        return Prompt(tokens=tokens, tail=text[-_TAIL:])

    async def _encode(self, text: str) -> list[int]:
        return await self._tokenize(text, add_special=False)

    async def decode(self, tokens: Sequence[int]) -> str:
        return self.text_in(await self._upstream.ask("/detokenize", {"tokens": list(tokens)}, at_root=True), "content")

    async def generate(self, prompt: Prompt, asked: Generation) -> AsyncGenerator[Piece, None]:
        form = KeptForm(asked.guide)
        async with aclosing(self._guided(prompt, asked)) as pieces:
            async for piece in pieces:
                if form.broken_by(piece):
                    raise UpstreamRejected(_NOT_HELD, provider=self._upstream.name, status=400)
                yield piece

    async def _guided(self, prompt: Prompt, asked: Generation) -> AsyncGenerator[Piece, None]:
        lark = _lark(asked.guide) if self._memory.get(_NO_LARK) is None else None
        pieces = self._generate(prompt, asked, {"grammar": lark} if lark else _held(asked.guide))
        begun = False
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    begun = True
                    yield piece
            return
        except UpstreamRejected:
            if lark is None or begun:
                raise
        # A server that was built without llguidance takes no such grammar: the schema alone has to do.
        self._memory.keep(_NO_LARK, True)
        async with aclosing(self._generate(prompt, asked, _held(asked.guide))) as pieces:
            async for piece in pieces:
                yield piece

    async def _generate(self, prompt: Prompt, asked: Generation, held: Json) -> AsyncGenerator[Piece, None]:
        body: Json = {
            "prompt": list(prompt.tokens),
            "n_predict": asked.max_tokens,
            "stop": list(asked.stop),
            "stream": True,
            "return_tokens": True,
            "cache_prompt": True,
            "preserved_tokens": list(_TAGS),
            **{NAMES[name]: value for name, value in asked.sampling.items() if name in NAMES},
            **held,
        }
        if asked.logprobs is not None:
            body["n_probs"] = max(1, asked.logprobs)
        seen = 0
        last: Piece | None = None
        async with aclosing(self._objects("/completion", body, at_root=True)) as objects:
            async for said in objects:
                tokens = self.tokens_in({"tokens": said.get("tokens", [])})
                made = said.get("tokens_predicted")
                missing = made - seen - len(tokens) if isinstance(made, int) else 0
                seen += missing + len(tokens)
                text = self.text_in(said, "content")
                if missing and tokens:
                    tokens, missing = await self._with_missing(text, tokens, missing)
                logprobs = _logprobs(said.get("completion_probabilities"), asked.logprobs)
                if said.get("stop") is not True:
                    yield Piece(text, tokens, logprobs, unnamed=missing, cached=_cached(said))
                    continue
                kind, word = said.get("stop_type"), said.get("stopping_word")
                stop = str(word) if kind == "word" else None
                ending: Finish = "length" if kind == "limit" else "stop"
                last = Piece(text, tokens, logprobs, ending, stop, _cached(said), missing)
        if last is None:
            raise self.broken()
        yield last

    async def _with_missing(self, text: str, tokens: list[int], missing: int) -> tuple[list[int], int]:
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
        asked = {"content": text, "add_special": add_special, "parse_special": True}
        return self.tokens_in(await self._upstream.ask("/tokenize", asked, at_root=True))


def _held(guide: Guide | None) -> Json:
    if guide is None:
        return {}
    if guide.regex is not None:
        raise Unrepresentable("llama.cpp holds answers to a schema or a grammar, not to a regex", param="regex")
    if guide.choice is not None:
        return {"grammar": "root ::= " + " | ".join(_quoted(each) for each in guide.choice)}
    if guide.grammar is not None:
        return {"grammar": guide.grammar}
    return {"json_schema": _spaced(guide.json_schema if guide.json_schema is not None else {"type": "object"})}


def _lark(guide: Guide | None) -> str | None:
    """A schema and what follows it, as llguidance is told of them."""
    if guide is None or guide.json_schema is None or not guide.after:
        return None
    after, schema = orjson.dumps(guide.after).decode(), orjson.dumps(_spaced(guide.json_schema)).decode()
    return f"%llguidance {{}}\nstart: value {after}\nvalue: %json {schema}"


def _spaced(schema: Json) -> Json:
    """The schema with what llguidance, and nothing else, reads in it: where there are spaces, and to be lenient.

    Without the first there may be any number of them, and small models that would rather write no JSON write spaces
    forever. Without the second a keyword that it does not know, `not` or `uniqueItems`, costs the whole schema.
    """
    if not schema:
        return schema  # llama.cpp's own converter knows the empty one, and none that has nothing but such a key
    spaces = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return {**schema, "x-guidance": {**spaces, "lenient": True}}


def _quoted(text: str) -> str:
    """A literal of a GBNF grammar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _cached(said: Json) -> int | None:
    timings = said.get("timings")
    cached = timings.get("cache_n") if isinstance(timings, dict) else None
    return cached if isinstance(cached, int) and cached >= 0 else None


def _logprobs(given: Any, rivals: int | None) -> list[Json] | None:
    if rivals is None or not isinstance(given, list):
        return None
    return [
        {**_probability(each), "top_logprobs": [_probability(other) for other in each["top_logprobs"][:rivals]]}
        for each in given
    ]


def _probability(given: Json) -> Json:
    return {"token": given["token"], "logprob": given["logprob"], "bytes": given["bytes"]}
