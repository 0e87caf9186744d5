"""How each dialect is spoken over HTTP: where a turn is asked, in which body, and how its reply is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, cast

from providers.base import Dialect, WireDialect
from providers.new_id import new_id
from translation.anthropic.decode import AnthropicDecoder
from translation.anthropic.lower import lower as lower_to_anthropic
from translation.chat.decode import ChatDecoder
from translation.chat.forms import stream_of as stream_of_completion
from translation.chat.lowering.lower import lower as lower_to_chat
from translation.framing.ndjson import LineDecoder
from translation.framing.sse import Frame, FrameDecoder
from translation.gemini.decode import GeminiDecoder
from translation.gemini.lower import build_count_request
from translation.gemini.lower import lower as lower_to_contents
from translation.gemini.lower import parse_model_names as names_of_models
from translation.gemini.lower import path_of as path_of_contents
from translation.ollama.decode import OllamaDecoder
from translation.ollama.lower import lower as lower_to_ollama
from translation.representation.delta_runs import DeltaRun
from translation.representation.events import Event, Usage
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.decode import ResponsesDecoder
from translation.responses.lower import lower as lower_to_responses
from translation.responses.relaying.whole_response import stream_of as stream_of_response


class DecoderRun(DeltaRun, Protocol):
    """Chunks that differ from the last one in their text only, as most of most streams do."""

    def take_texts(self, texts: Sequence[str]) -> list[Event]: ...


class Decoder(Protocol):
    """Chunks, or one whole answer, to events."""

    @property
    def usage(self) -> Usage | None: ...
    def feed(self, chunk: Json) -> list[Event]: ...
    def decode_payloads(self, payloads: Sequence[bytes]) -> list[Event]: ...
    def finish(self) -> list[Event]: ...

    @property
    def delta_run(self) -> DecoderRun | None:
        """What the next chunks are like if they only say more of one text, where that can be told."""
        ...


class PayloadSplitter(Protocol):
    """Cuts reads into payloads, one for each chunk."""

    @property
    def at_boundary(self) -> bool:
        """Whether a chunk is known to begin with the next read."""
        ...

    def parse_payloads(self, read: bytes) -> list[bytes]: ...
    def finish(self) -> list[Frame]: ...


class Framing(NamedTuple):
    """How chunks are told apart in a stream of this media type. `frames` is given the longest chunk, in bytes."""

    media_type: str
    new_splitter: Callable[[int], PayloadSplitter]


SSE = Framing("text/event-stream", FrameDecoder)
NDJSON = Framing("application/x-ndjson", LineDecoder)


class EndOfBodyDecoder(Protocol):
    """A decoder of a dialect in which nothing but the end of the body says that a stream is over."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer is, so that little may follow."""
        ...


def as_end_of_body_decoder(decoder: Decoder) -> EndOfBodyDecoder | None:
    """The decoder, if it is one. (`isinstance` with a Protocol takes a twentieth of a short request.)"""
    return cast("EndOfBodyDecoder", decoder) if hasattr(decoder, "is_complete") else None


class ModelList(NamedTuple):
    """Where an upstream lists what it serves, and the names in its answer; `None` where that is no list."""

    path: str
    parse_names: Callable[[Json], list[str] | None]


def parse_openai_model_list(answer: Json) -> list[str] | None:
    """As OpenAI lists models: `data`, each with an `id`."""
    rows = answer.get("data")
    if not isinstance(rows, list):
        return None
    return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


_OPENAI_MODEL_LIST: Final = ModelList("/models", parse_openai_model_list)


class CountRequest(NamedTuple):
    """What an upstream is asked for a count, and the key of its answer that holds it."""

    path: str
    body: Json
    result_key: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """How turns are said in one dialect over HTTP."""

    path: str | Callable[[Turn], str]
    """Where turns are asked; a function where the turn has a say in it."""
    lower: Callable[[Turn, Profile], LoweredRequest]
    decoder: Callable[..., Decoder]
    """Takes where ids come from and a profile, and where `calls_in_text` tools, and whether calls are held."""
    model_list: ModelList = _OPENAI_MODEL_LIST
    build_count_request: Callable[[Turn, Profile], CountRequest] | None = None
    """How the dialect's own endpoint for counting tokens is asked, if it has one."""
    framing: Framing = SSE
    parses_text_calls: bool = False
    """Whether the decoder can read calls out of text: then it is told of the turn's tools."""

    def path_of(self, turn: Turn) -> str:
        return self.path if isinstance(self.path, str) else self.path(turn)

    def new_decoder(self, turn: Turn, profile: Profile) -> Decoder:
        if self.parses_text_calls:
            tools = () if turn.tool_choice == "none" else turn.tools
            return self.decoder(new_id, profile, tools, not turn.stream)
        return self.decoder(new_id, profile)


_MESSAGES_COUNT_PARAMETERS = frozenset(
    {"messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"}
)
"""Parameters of the Messages API that its input is made of; its endpoint for counting knows no others."""


def _build_anthropic_count(turn: Turn, profile: Profile) -> CountRequest:
    body = lower_to_anthropic(turn, profile).body
    count_body = {name: value for name, value in body.items() if name in _MESSAGES_COUNT_PARAMETERS}
    return CountRequest("/messages/count_tokens", count_body, "input_tokens")


def _build_gemini_count(turn: Turn, profile: Profile) -> CountRequest:
    return CountRequest(*build_count_request(turn, profile))


def _parse_ollama_model_list(answer: Json) -> list[str] | None:
    """As Ollama lists models: `models`, each with a `name`."""
    rows = answer.get("models")
    if not isinstance(rows, list):
        return None
    return [row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]


SPOKEN: dict[WireDialect, Spoken] = {
    "chat": Spoken("/chat/completions", lower_to_chat, ChatDecoder, parses_text_calls=True),
    "responses": Spoken("/responses", lower_to_responses, ResponsesDecoder),
    "ollama": Spoken(
        "/api/chat",
        lower_to_ollama,
        OllamaDecoder,
        model_list=ModelList("/api/tags", _parse_ollama_model_list),
        framing=NDJSON,
    ),
    "anthropic": Spoken(
        "/messages",
        lower_to_anthropic,
        AnthropicDecoder,
        model_list=ModelList("/models?limit=1000", parse_openai_model_list),
        build_count_request=_build_anthropic_count,
    ),
    "gemini": Spoken(
        path_of_contents,
        lower_to_contents,
        GeminiDecoder,
        model_list=ModelList("/models?pageSize=1000", names_of_models),
        build_count_request=_build_gemini_count,
    ),
}


class RelayDialectSpec(NamedTuple):
    """How bodies that clients wrote are passed on in one dialect."""

    path: str
    to_stream: Callable[[Json], bytes]
    """A whole answer as the stream it could have been."""


RELAY_DIALECTS: dict[Dialect, RelayDialectSpec] = {
    "chat": RelayDialectSpec("/chat/completions", stream_of_completion),
    "responses": RelayDialectSpec("/responses", lambda answer: stream_of_response(answer, new_id)),
}
