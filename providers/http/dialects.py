"""One table row per dialect over HTTP: the path of a turn, its body, and how its reply is decoded. It does no I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from providers.base import Dialect, WireDialect
from providers.new_id import new_id
from translation.chat.reply_forms import build_completion_stream
from translation.chat.upstream.decode import ChatDecoder
from translation.chat.upstream.lower import TURN_PARAMS as CHAT_TURN_PARAMS
from translation.chat.upstream.lower import lower as lower_to_chat
from translation.errors import ProtocolViolation
from translation.framing.ndjson import LineDecoder
from translation.framing.sse import Frame, FrameDecoder
from translation.gemini.upstream.decode import GeminiDecoder
from translation.gemini.upstream.lower import TURN_PARAMS as GEMINI_TURN_PARAMS
from translation.gemini.upstream.lower import build_count_request
from translation.gemini.upstream.lower import lower as lower_to_contents
from translation.gemini.upstream.lower import parse_model_names as parse_gemini_model_names
from translation.gemini.upstream.lower import path_of as path_of_contents
from translation.messages.relaying.reply_forms import build_message_stream
from translation.messages.upstream.decode import AnthropicDecoder
from translation.messages.upstream.lower import TURN_PARAMS as MESSAGES_TURN_PARAMS
from translation.messages.upstream.lower import lower as lower_to_anthropic
from translation.messages.upstream.thinking import BETAS
from translation.ollama.upstream.decode import OllamaDecoder
from translation.ollama.upstream.lower import TURN_PARAMS as OLLAMA_TURN_PARAMS
from translation.ollama.upstream.lower import lower as lower_to_ollama
from translation.representation.delta_runs import DeltaRun
from translation.representation.events import Event, Usage
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.relaying.whole_response import build_response_stream
from translation.responses.upstream.decode import ResponsesDecoder
from translation.responses.upstream.lower import TURN_PARAMS as RESPONSES_TURN_PARAMS
from translation.responses.upstream.lower import lower as lower_to_responses


class DecodedDeltaRun(DeltaRun, Protocol):
    """A delta run as a decoder has learnt it: chunks that differ in their text only, as most chunks of a stream do."""

    def take_texts(self, texts: Sequence[str]) -> list[Event]:
        """Returns the events of the texts that `parse_texts` returned for a read, as decoding would."""
        ...


class Decoder(Protocol):
    """Decodes the chunks of a stream, or one JSON reply, to events."""

    @property
    def usage(self) -> Usage | None:
        """The token usage, once the upstream has sent it."""
        ...

    def feed(self, chunk: Json) -> list[Event]:
        """Returns the events of a chunk or of a whole JSON reply."""
        ...

    def decode_payloads(self, payloads: Sequence[bytes], batch: list[Event] | None = None) -> list[Event]:
        """Parses the payloads of a read, and returns the events of their chunks.

        Appends to `batch`, if given: after an exception it holds the events of the chunks before.
        """
        ...

    def finish(self) -> list[Event]:
        """Returns the last events when the upstream has ended its reply, ending in Finished or Failed."""
        ...

    @property
    def delta_run(self) -> DecodedDeltaRun | None:
        """The delta run that the next chunks belong to, if they only continue one text; None if that is not known."""
        ...


class PayloadSplitter(Protocol):
    """Splits reads into payloads, one for each chunk."""

    @property
    def at_boundary(self) -> bool:
        """Whether the next read begins with a new chunk: nothing of the last read is pending."""
        ...

    def parse_payloads(self, read: bytes) -> list[bytes]:
        """Returns the payloads that a read completes. Raises ProtocolViolation for a chunk that is too long."""
        ...

    def finish(self) -> list[Frame]:
        """Returns what the upstream sent after its last delimiter, as at most one frame. It may be cut off."""
        ...


class EndOfBodyDecoder(Protocol):
    """A decoder for streams that only the end of the body ends."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete, so that only a little more may follow."""
        ...


@dataclass(frozen=True, slots=True)
class Framing:
    """How a stream of a media type is split into chunks. `new_splitter` takes the maximum size of a chunk in bytes."""

    media_type: str
    new_splitter: Callable[[int], PayloadSplitter]
    ends_with_body: bool = False
    """Whether only the end of the body ends a stream. The decoder is then an EndOfBodyDecoder."""


SSE = Framing("text/event-stream", FrameDecoder)
SSE_WITHOUT_END = replace(SSE, ends_with_body=True)
NDJSON = Framing("application/x-ndjson", LineDecoder)


class ModelList(NamedTuple):
    """The path of an upstream's list of models. `parse_names` returns their names, or None for a malformed list."""

    path: str
    parse_names: Callable[[Json], list[str] | None]


def parse_openai_model_list(answer: Json) -> list[str] | None:
    """Returns the model names of OpenAI's format: `data` is a list of objects with an `id`."""
    rows = answer.get("data")
    if not isinstance(rows, list):
        return None
    return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


_OPENAI_MODEL_LIST: Final = ModelList("/models", parse_openai_model_list)


class CountRequest(NamedTuple):
    """A request that counts the tokens of a turn's input. `result_key` is the key of the count in the reply, and
    `header_params` are parameters of the body that are sent as headers."""

    path: str
    body: Json
    result_key: str
    header_params: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class DialectSpec:
    """How turns are sent and decoded in one dialect over HTTP."""

    path: str | Callable[[Turn], str]
    """The path that turns are posted to; a function if it depends on the turn."""
    lower: Callable[[Turn, Profile], LoweredRequest]
    decoder: Callable[..., Decoder]
    """Takes a function that returns new ids, and a profile. With `parses_text_calls` it also takes the turn's tools."""
    turn_params: Mapping[str, str]
    """The upstream's parameters -> those of a turn, for errors of the upstream that name one."""
    model_list: ModelList = _OPENAI_MODEL_LIST
    build_count_request: Callable[[Turn, Profile], CountRequest] | None = None
    """Builds the request to the dialect's own endpoint for counting tokens, if it has one."""
    framing: Framing = SSE
    parses_text_calls: bool = False
    """Whether the decoder can parse tool calls in text. It then needs the turn's tools."""
    header_params: Mapping[str, str] = field(default_factory=dict)
    """Maps parameters of the body to the headers that they are sent as."""

    def path_of(self, turn: Turn) -> str:
        """Returns the path that the turn is posted to."""
        return self.path if isinstance(self.path, str) else self.path(turn)

    def new_decoder(self, turn: Turn, profile: Profile) -> Decoder:
        """Returns a decoder for the reply to the turn."""
        if self.parses_text_calls:
            tools = () if turn.tool_choice == "none" else turn.tools
            return self.decoder(new_id, profile, tools)
        return self.decoder(new_id, profile)


_MESSAGES_COUNT_PARAMETERS = frozenset(
    {BETAS, "messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"}
)
"""The parameters of the Messages API that contribute to the input. The endpoint for counting accepts no others. It
checks past thinking as the endpoint for messages does, so that it needs the same betas."""


_MESSAGES_COUNT_PATH: Final = "/messages/count_tokens"

_MESSAGES_HEADER_PARAMS: Final = {"anthropic_version": "anthropic-version", "anthropic_beta": "anthropic-beta"}
"""https://platform.claude.com/docs/en/api/beta-headers"""


def _build_anthropic_count(turn: Turn, profile: Profile) -> CountRequest:
    body = lower_to_anthropic(turn, profile).body
    count_body = {name: value for name, value in body.items() if name in _MESSAGES_COUNT_PARAMETERS}
    return CountRequest(_MESSAGES_COUNT_PATH, count_body, "input_tokens", _MESSAGES_HEADER_PARAMS)


def _build_gemini_count(turn: Turn, profile: Profile) -> CountRequest:
    return CountRequest(*build_count_request(turn, profile))


def _parse_ollama_model_list(answer: Json) -> list[str] | None:
    """Returns the model names of Ollama's format: `models` is a list of objects with a `name`."""
    rows = answer.get("models")
    if not isinstance(rows, list):
        return None
    return [row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]


DIALECTS: dict[WireDialect, DialectSpec] = {
    "chat": DialectSpec("/chat/completions", lower_to_chat, ChatDecoder, CHAT_TURN_PARAMS, parses_text_calls=True),
    "responses": DialectSpec("/responses", lower_to_responses, ResponsesDecoder, RESPONSES_TURN_PARAMS),
    "ollama": DialectSpec(
        "/api/chat",
        lower_to_ollama,
        OllamaDecoder,
        OLLAMA_TURN_PARAMS,
        model_list=ModelList("/api/tags", _parse_ollama_model_list),
        framing=NDJSON,
    ),
    "anthropic": DialectSpec(
        "/messages",
        lower_to_anthropic,
        AnthropicDecoder,
        MESSAGES_TURN_PARAMS,
        model_list=ModelList("/models?limit=1000", parse_openai_model_list),
        build_count_request=_build_anthropic_count,
        header_params=_MESSAGES_HEADER_PARAMS,
    ),
    "gemini": DialectSpec(
        path_of_contents,
        lower_to_contents,
        GeminiDecoder,
        GEMINI_TURN_PARAMS,
        model_list=ModelList("/models?pageSize=1000", parse_gemini_model_names),
        build_count_request=_build_gemini_count,
        framing=SSE_WITHOUT_END,
    ),
}


PROTOCOL_ERRORS: Final = (ProtocolViolation, AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""The exceptions that decoders, and `to_stream` of relays, raise for values whose types or nesting do not follow the
protocol."""

NO_PROTOCOL: Final = "the upstream's reply does not follow its protocol"


@dataclass(frozen=True, slots=True)
class RelayDialectSpec:
    """How the bodies of clients are relayed in one dialect."""

    path: str
    to_stream: Callable[[Json], bytes]
    """Returns a JSON reply as the bytes of the stream that it could have been."""
    header_params: Mapping[str, str] = field(default_factory=dict)
    """Maps parameters of the body to the headers that they are sent as."""
    limit_prefix: bytes = b""
    """The prefix of the reply's headers about rate limits, which are relayed too; empty if none are."""
    count_path: str = ""
    """The path of the endpoint that counts the tokens of such a body; empty if there is none."""


RELAY_DIALECTS: dict[Dialect, RelayDialectSpec] = {
    "chat": RelayDialectSpec("/chat/completions", build_completion_stream),
    "messages": RelayDialectSpec(
        "/messages",
        build_message_stream,
        _MESSAGES_HEADER_PARAMS,
        b"anthropic-ratelimit-",
        _MESSAGES_COUNT_PATH,
    ),
    "responses": RelayDialectSpec("/responses", lambda answer: build_response_stream(answer, new_id)),
}
