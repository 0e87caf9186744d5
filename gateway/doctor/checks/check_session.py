"""Asks the gateway something on behalf of one model, over HTTP, and never waits for ever."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
import orjson

from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.transcript import Transcript
from gateway.doctor.checks.verdicts import CheckFailed, ErrorReply, TimedOut
from gateway.replies.loss_header import LOSS_HEADER
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

_MAX_TOKENS: Final = 2048
"""Enough for a model that thinks before a short answer."""

_POLL_INTERVAL_S: Final = 0.05


class _Endpoint(NamedTuple):
    """What the two endpoints do not share."""

    path: str
    limit_param: str
    """The parameter for the most tokens of an answer."""
    has_event_names: bool
    """Whether frames have the names of their events."""


_RESPONSES: Final = _Endpoint("/v1/responses", "max_output_tokens", has_event_names=True)
_CHAT: Final = _Endpoint("/v1/chat/completions", "max_completion_tokens", has_event_names=False)


@dataclass(slots=True)
class ReceivedStream:
    """What a stream has said so far."""

    events: list[Json] = field(default_factory=list)
    """The chunks, where it is a completion."""
    is_done: bool = False
    """The frame that ends a stream has come."""

    @property
    def response(self) -> Json:
        """The response as the last event has it. Raises Wrong where it has none."""
        response = self.events[-1].get("response") if self.events else None
        if not isinstance(response, dict):
            raise CheckFailed("the stream ends without a response")
        return response


class CheckSession:
    """One check of one model. Keeps what its replies say they lost, and how soon the first one began."""

    def __init__(self, client: httpx.Client, subject: Subject, deadline_s: float) -> None:
        self.subject = subject
        self.losses: dict[str, None] = {}
        self.first_token_s: float | None = None
        self.was_answered = False
        """Whether any of its requests was answered with a response, good or bad."""
        self.transcript = Transcript()
        self._client = client
        self._deadline_s = deadline_s

    @property
    def max_tokens(self) -> int:
        """As many tokens as an answer may have that is not about lengths."""
        window = self.subject.capabilities.max_context_window
        return _MAX_TOKENS if window is None else max(16, min(_MAX_TOKENS, window // 4))

    def create_response(self, **body: Any) -> Json:
        """The response to a request for a whole one. Raises Refusal, and Wrong for what is no JSON object."""
        response = self._post(_RESPONSES, body)
        if response.get("status") == "failed":
            raise ErrorReply(None, response.get("error") or {})
        return response

    def create_completion(self, **body: Any) -> Json:
        """The completion to a request for a whole one. Raises as `whole` does."""
        return self._post(_CHAT, body)

    def stream_response(self, **body: Any) -> ReceivedStream:
        """A stream up to its end. Raises Refusal where it is one or ends in one, Wrong where it has no end."""
        with self.open_response_stream(**body) as (received, events):
            for _ in events:
                pass
        if received.events and received.events[-1].get("type") == "response.failed":
            raise ErrorReply(None, received.response.get("error") or {})
        return received

    def stream_completion(self, **body: Any) -> ReceivedStream:
        """The chunks of a completion up to their end. Raises as `stream` does."""
        with self._open_stream(_CHAT, body) as (received, chunks):
            for _ in chunks:
                pass
        if received.events and isinstance(error := received.events[-1].get("error"), dict):
            raise ErrorReply(None, error)
        return received

    @contextmanager
    def open_response_stream(self, **body: Any) -> Iterator[tuple[ReceivedStream, Iterator[Json]]]:
        """A stream that may be left: what was heard of it, and its events as they come. Raises as `stream` does."""
        with self._open_stream(_RESPONSES, body) as open_stream:
            yield open_stream

    def wait_until_idle(self) -> bool:
        """Whether an embedded engine has stopped working before the deadline; of others it is not known."""
        deadline = time.monotonic() + self._deadline_s
        while self._is_engine_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True

    def _post(self, dialect: _Endpoint, body: Json) -> Json:
        request_body = self._build_body(dialect, body)
        self.transcript.record_request(dialect.path, request_body)
        try:
            reply = self._client.post(dialect.path, json=request_body, timeout=self._deadline_s)
        except httpx.TimeoutException:
            raise self._timed_out() from None
        except httpx.HTTPError as error:
            raise CheckFailed(f"the connection broke: {error}") from error
        self.transcript.record_reply(reply.status_code, reply.content)
        self._record_losses(reply)
        if reply.status_code != 200:
            raise _parse_error(reply)
        self.was_answered = True
        return _parse_json(reply.content)

    @contextmanager
    def _open_stream(self, dialect: _Endpoint, body: Json) -> Iterator[tuple[ReceivedStream, Iterator[Json]]]:
        request_body = self._build_body(dialect, {**body, "stream": True})
        self.transcript.record_request(dialect.path, request_body)
        began = time.monotonic()
        try:
            with self._client.stream("POST", dialect.path, json=request_body, timeout=self._deadline_s) as reply:
                self._record_losses(reply)
                if reply.status_code != 200:
                    self.transcript.record_reply(reply.status_code, reply.read())
                    raise _parse_error(reply)
                self.was_answered = True
                received = ReceivedStream()
                yield received, self._read_events(reply, received, dialect, began)
        except httpx.TimeoutException:
            raise self._timed_out() from None
        except httpx.HTTPError as error:
            raise CheckFailed(f"the connection broke: {error}") from error

    def _is_engine_running(self) -> bool:
        try:
            ready = self._client.get("/readyz", timeout=self._deadline_s)
        except httpx.HTTPError as error:
            raise CheckFailed(f"the gateway does not tell how it is: {error}") from error
        return bool(_parse_json(ready.content).get("engines", {}).get(self.subject.provider, {}).get("running"))

    def _read_events(
        self, reply: httpx.Response, received: ReceivedStream, dialect: _Endpoint, began: float
    ) -> Iterator[Json]:
        frames = FrameDecoder()
        try:
            for read in reply.iter_raw():
                # Comments keep a silent stream alive, so that no read of it times out.
                if time.monotonic() - began > self._deadline_s:
                    raise self._timed_out()
                for frame in frames.feed(read):
                    self.transcript.record_frame(frame.payload)
                    if received.is_done:
                        raise CheckFailed("something follows the end of the stream")
                    if frame.payload == DONE_PAYLOAD:
                        received.is_done = True
                        continue
                    event = _parse_json(frame.payload)
                    expected_name = event.get("type") if dialect.has_event_names else None
                    if frame.event != expected_name:
                        raise CheckFailed(f"a frame is called {frame.event} and holds {event.get('type')}")
                    if self.first_token_s is None and _has_content(event):
                        self.first_token_s = time.monotonic() - began
                    received.events.append(event)
                    yield event
        except ProtocolViolation as error:
            raise CheckFailed(str(error)) from error

    def _build_body(self, dialect: _Endpoint, body: Json) -> Json:
        return {"model": self.subject.name, "store": False, dialect.limit_param: self.max_tokens, **body}

    def _record_losses(self, reply: httpx.Response) -> None:
        self.losses |= dict.fromkeys(loss for loss in reply.headers.get(LOSS_HEADER, "").split(", ") if loss)

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"no end after {self._deadline_s:g} s")


def _has_content(event: Json) -> bool:
    """Whether it is the text or an argument that a client waits for; the role of a chunk is neither."""
    if str(event.get("type")).endswith(".delta"):
        return True
    choices = event.get("choices")
    delta = choices[0].get("delta") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _parse_error(reply: httpx.Response) -> ErrorReply:
    error = _parse_json(reply.content).get("error")
    if not isinstance(error, dict) or not error.keys() >= {"message", "type", "param", "code"}:
        raise CheckFailed(f"an answer of status {reply.status_code} is no error object")
    return ErrorReply(reply.status_code, error)


def _parse_json(content: bytes) -> Json:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise CheckFailed(f"not JSON: {content[:80]!r}") from None
    if not isinstance(value, dict):
        raise CheckFailed(f"not a JSON object: {content[:80]!r}")
    return value
