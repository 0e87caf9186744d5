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
from translation.gemini.lower import lower as lower_to_contents
from translation.gemini.lower import lower_to_count
from translation.gemini.lower import names_in as names_of_models
from translation.gemini.lower import path_of as path_of_contents
from translation.ollama.decode import OllamaDecoder
from translation.ollama.lower import lower as lower_to_ollama
from translation.representation.events import Event, Usage
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Lowered, Turn
from translation.responses import delta_template
from translation.responses.decode import ResponsesDecoder
from translation.responses.lower import lower as lower_to_responses
from translation.responses.relaying.whole_response import stream_of as stream_of_response


class Run(delta_template.Run, Protocol):
    """Chunks that differ from the last one in their text only, as most of most streams do."""

    def deltas(self, texts: Sequence[str]) -> list[Event]: ...


class Decoder(Protocol):
    """Chunks, or one whole answer, to events."""

    @property
    def usage(self) -> Usage | None: ...
    def feed(self, chunk: Json) -> list[Event]: ...
    def read(self, payloads: Sequence[bytes]) -> list[Event]: ...
    def finish(self) -> list[Event]: ...

    @property
    def run(self) -> Run | None:
        """What the next chunks are like if they only say more of one text, where that can be told."""
        ...


class Frames(Protocol):
    """Cuts reads into payloads, one for each chunk."""

    @property
    def between(self) -> bool:
        """Whether a chunk is known to begin with the next read."""
        ...

    def payloads(self, read: bytes) -> list[bytes]: ...
    def finish(self) -> list[Frame]: ...


class Framing(NamedTuple):
    """How chunks are told apart in a stream of this media type. `frames` is given the longest chunk, in bytes."""

    media_type: str
    frames: Callable[[int], Frames]


SSE = Framing("text/event-stream", FrameDecoder)
LINES = Framing("application/x-ndjson", LineDecoder)


class Closing(Protocol):
    """A decoder of a dialect in which nothing but the end of the body says that a stream is over."""

    @property
    def whole(self) -> bool:
        """Whether the answer is, so that little may follow."""
        ...


def closing(decoder: Decoder) -> Closing | None:
    """The decoder, if it is one. (`isinstance` with a Protocol takes a twentieth of a short request.)"""
    return cast("Closing", decoder) if hasattr(decoder, "whole") else None


class Listing(NamedTuple):
    """Where an upstream lists what it serves, and the names in its answer; `None` where that is no list."""

    path: str
    names: Callable[[Json], list[str] | None]


def names_in_data(answer: Json) -> list[str] | None:
    """As OpenAI lists models: `data`, each with an `id`."""
    rows = answer.get("data")
    if not isinstance(rows, list):
        return None
    return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


_MODELS: Final = Listing("/models", names_in_data)


class Question(NamedTuple):
    """What an upstream is asked for a count, and the key of its answer that holds it."""

    path: str
    body: Json
    key: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """How turns are said in one dialect over HTTP."""

    path: str | Callable[[Turn], str]
    """Where turns are asked; a function where the turn has a say in it."""
    lower: Callable[[Turn, Profile], Lowered]
    decoder: Callable[..., Decoder]
    """Takes where ids come from and a profile, and where `calls_in_text` tools, and whether calls are held."""
    listing: Listing = _MODELS
    counting: Callable[[Turn, Profile], Question] | None = None
    """How the dialect's own endpoint for counting tokens is asked, if it has one."""
    framing: Framing = SSE
    calls_in_text: bool = False
    """Whether the decoder can read calls out of text: then it is told of the turn's tools."""

    def path_of(self, turn: Turn) -> str:
        return self.path if isinstance(self.path, str) else self.path(turn)

    def decoder_of(self, turn: Turn, profile: Profile) -> Decoder:
        if self.calls_in_text:
            tools = () if turn.tool_choice == "none" else turn.tools
            return self.decoder(new_id, profile, tools, not turn.stream)
        return self.decoder(new_id, profile)


_COUNTED_MESSAGES = frozenset({"messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"})
"""Parameters of the Messages API that its input is made of; its endpoint for counting knows no others."""


def _count_messages(turn: Turn, profile: Profile) -> Question:
    body = lower_to_anthropic(turn, profile).body
    asked = {name: value for name, value in body.items() if name in _COUNTED_MESSAGES}
    return Question("/messages/count_tokens", asked, "input_tokens")


def _count_contents(turn: Turn, profile: Profile) -> Question:
    return Question(*lower_to_count(turn, profile))


def _names_in_tags(answer: Json) -> list[str] | None:
    """As Ollama lists models: `models`, each with a `name`."""
    rows = answer.get("models")
    if not isinstance(rows, list):
        return None
    return [row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]


SPOKEN: dict[WireDialect, Spoken] = {
    "chat": Spoken("/chat/completions", lower_to_chat, ChatDecoder, calls_in_text=True),
    "responses": Spoken("/responses", lower_to_responses, ResponsesDecoder),
    "ollama": Spoken(
        "/api/chat",
        lower_to_ollama,
        OllamaDecoder,
        listing=Listing("/api/tags", _names_in_tags),
        framing=LINES,
    ),
    "anthropic": Spoken(
        "/messages",
        lower_to_anthropic,
        AnthropicDecoder,
        listing=Listing("/models?limit=1000", names_in_data),
        counting=_count_messages,
    ),
    "gemini": Spoken(
        path_of_contents,
        lower_to_contents,
        GeminiDecoder,
        listing=Listing("/models?pageSize=1000", names_of_models),
        counting=_count_contents,
    ),
}


class Relayed(NamedTuple):
    """How bodies that clients wrote are passed on in one dialect."""

    path: str
    stream_of: Callable[[Json], bytes]
    """A whole answer as the stream it could have been."""


RELAYED: dict[Dialect, Relayed] = {
    "chat": Relayed("/chat/completions", stream_of_completion),
    "responses": Relayed("/responses", lambda answer: stream_of_response(answer, new_id)),
}
