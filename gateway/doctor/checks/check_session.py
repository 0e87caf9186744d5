"""Asks the gateway something on behalf of one model, over HTTP, and never waits for ever."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
import orjson

from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.transcript import Witness
from gateway.doctor.checks.verdicts import Refusal, TooSlow, Wrong
from gateway.replies.loss_header import LOSS_HEADER
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

_MOST_TOKENS: Final = 2048
"""Enough for a model that thinks before a short answer."""

_POLL_S: Final = 0.05


class _Dialect(NamedTuple):
    """What the two endpoints do not share."""

    path: str
    limit: str
    """The parameter for the most tokens of an answer."""
    named: bool
    """Whether frames have the names of their events."""


_RESPONSES: Final = _Dialect("/v1/responses", "max_output_tokens", named=True)
_CHAT: Final = _Dialect("/v1/chat/completions", "max_completion_tokens", named=False)


@dataclass(slots=True)
class Heard:
    """What a stream has said so far."""

    events: list[Json] = field(default_factory=list)
    """The chunks, where it is a completion."""
    done: bool = False
    """The frame that ends a stream has come."""

    @property
    def response(self) -> Json:
        """The response as the last event has it. Raises Wrong where it has none."""
        response = self.events[-1].get("response") if self.events else None
        if not isinstance(response, dict):
            raise Wrong("the stream ends without a response")
        return response


class Visit:
    """One check of one model. Keeps what its replies say they lost, and how soon the first one began."""

    def __init__(self, client: httpx.Client, subject: Subject, deadline_s: float) -> None:
        self.subject = subject
        self.losses: dict[str, None] = {}
        self.first_token_s: float | None = None
        self.answered = False
        """Whether any of its requests was answered with a response, good or bad."""
        self.witness = Witness()
        self._client = client
        self._deadline_s = deadline_s

    @property
    def max_tokens(self) -> int:
        """As many tokens as an answer may have that is not about lengths."""
        window = self.subject.capabilities.max_context_window
        return _MOST_TOKENS if window is None else max(16, min(_MOST_TOKENS, window // 4))

    def whole(self, **body: Any) -> Json:
        """The response to a request for a whole one. Raises Refusal, and Wrong for what is no JSON object."""
        response = self._post(_RESPONSES, body)
        if response.get("status") == "failed":
            raise Refusal(None, response.get("error") or {})
        return response

    def chat(self, **body: Any) -> Json:
        """The completion to a request for a whole one. Raises as `whole` does."""
        return self._post(_CHAT, body)

    def stream(self, **body: Any) -> Heard:
        """A stream up to its end. Raises Refusal where it is one or ends in one, Wrong where it has no end."""
        with self.streaming(**body) as (heard, events):
            for _ in events:
                pass
        if heard.events and heard.events[-1].get("type") == "response.failed":
            raise Refusal(None, heard.response.get("error") or {})
        return heard

    def chat_stream(self, **body: Any) -> Heard:
        """The chunks of a completion up to their end. Raises as `stream` does."""
        with self._streaming(_CHAT, body) as (heard, chunks):
            for _ in chunks:
                pass
        if heard.events and isinstance(error := heard.events[-1].get("error"), dict):
            raise Refusal(None, error)
        return heard

    @contextmanager
    def streaming(self, **body: Any) -> Iterator[tuple[Heard, Iterator[Json]]]:
        """A stream that may be left: what was heard of it, and its events as they come. Raises as `stream` does."""
        with self._streaming(_RESPONSES, body) as opened:
            yield opened

    def settled(self) -> bool:
        """Whether an embedded engine has stopped working before the deadline; of others it is not known."""
        deadline = time.monotonic() + self._deadline_s
        while self._working():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _post(self, dialect: _Dialect, body: Json) -> Json:
        asked = self._body(dialect, body)
        self.witness.sees(dialect.path, asked)
        try:
            reply = self._client.post(dialect.path, json=asked, timeout=self._deadline_s)
        except httpx.TimeoutException:
            raise self._too_slow() from None
        except httpx.HTTPError as error:
            raise Wrong(f"the connection broke: {error}") from error
        self.witness.hears(reply.status_code, reply.content)
        self._note_losses(reply)
        if reply.status_code != 200:
            raise _refusal(reply)
        self.answered = True
        return _json(reply.content)

    @contextmanager
    def _streaming(self, dialect: _Dialect, body: Json) -> Iterator[tuple[Heard, Iterator[Json]]]:
        asked = self._body(dialect, {**body, "stream": True})
        self.witness.sees(dialect.path, asked)
        began = time.monotonic()
        try:
            with self._client.stream("POST", dialect.path, json=asked, timeout=self._deadline_s) as reply:
                self._note_losses(reply)
                if reply.status_code != 200:
                    self.witness.hears(reply.status_code, reply.read())
                    raise _refusal(reply)
                self.answered = True
                heard = Heard()
                yield heard, self._events(reply, heard, dialect, began)
        except httpx.TimeoutException:
            raise self._too_slow() from None
        except httpx.HTTPError as error:
            raise Wrong(f"the connection broke: {error}") from error

    def _working(self) -> bool:
        try:
            ready = self._client.get("/readyz", timeout=self._deadline_s)
        except httpx.HTTPError as error:
            raise Wrong(f"the gateway does not tell how it is: {error}") from error
        return bool(_json(ready.content).get("engines", {}).get(self.subject.provider, {}).get("running"))

    def _events(self, reply: httpx.Response, heard: Heard, dialect: _Dialect, began: float) -> Iterator[Json]:
        frames = FrameDecoder()
        try:
            for read in reply.iter_raw():
                # Comments keep a silent stream alive, so that no read of it times out.
                if time.monotonic() - began > self._deadline_s:
                    raise self._too_slow()
                for frame in frames.feed(read):
                    self.witness.hears_frame(frame.payload)
                    if heard.done:
                        raise Wrong("something follows the end of the stream")
                    if frame.payload == DONE_PAYLOAD:
                        heard.done = True
                        continue
                    event = _json(frame.payload)
                    called = event.get("type") if dialect.named else None
                    if frame.event != called:
                        raise Wrong(f"a frame is called {frame.event} and holds {event.get('type')}")
                    if self.first_token_s is None and _says_something(event):
                        self.first_token_s = time.monotonic() - began
                    heard.events.append(event)
                    yield event
        except ProtocolViolation as error:
            raise Wrong(str(error)) from error

    def _body(self, dialect: _Dialect, body: Json) -> Json:
        return {"model": self.subject.name, "store": False, dialect.limit: self.max_tokens, **body}

    def _note_losses(self, reply: httpx.Response) -> None:
        self.losses |= dict.fromkeys(loss for loss in reply.headers.get(LOSS_HEADER, "").split(", ") if loss)

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"no end after {self._deadline_s:g} s")


def _says_something(event: Json) -> bool:
    """Whether it is the text or an argument that a client waits for; the role of a chunk is neither."""
    if str(event.get("type")).endswith(".delta"):
        return True
    choices = event.get("choices")
    delta = choices[0].get("delta") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _refusal(reply: httpx.Response) -> Refusal:
    error = _json(reply.content).get("error")
    if not isinstance(error, dict) or not error.keys() >= {"message", "type", "param", "code"}:
        raise Wrong(f"an answer of status {reply.status_code} is no error object")
    return Refusal(reply.status_code, error)


def _json(content: bytes) -> Json:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise Wrong(f"not JSON: {content[:80]!r}") from None
    if not isinstance(value, dict):
        raise Wrong(f"not a JSON object: {content[:80]!r}")
    return value
