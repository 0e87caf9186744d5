"""Sends the requests of one check of one model to the gateway over HTTP. Every request has a deadline."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
import orjson

from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.transcript import Transcript
from gateway.doctor.checks.verdicts import UNSUPPORTED_PARAMETER, CheckFailed, RequestFailed, TimedOut
from gateway.replies.loss_header import LOSS_HEADER
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

_MAX_TOKENS: Final = 2048
"""The most tokens of a reply. This is enough for a model that thinks before a short answer."""

_POLL_INTERVAL_S: Final = 0.05


class _ProbedApi(NamedTuple):
    """The differences between the APIs that requests are sent to."""

    path: str
    limit_param: str
    """The parameter that limits the tokens of a reply."""
    has_event_names: bool
    """Whether server-sent event frames have the names of their events."""
    stores: bool = True
    """Whether requests have `store`, which is off."""


_RESPONSES: Final = _ProbedApi("/v1/responses", "max_output_tokens", has_event_names=True)
_CHAT: Final = _ProbedApi("/v1/chat/completions", "max_completion_tokens", has_event_names=False)
_MESSAGES: Final = _ProbedApi("/v1/messages", "max_tokens", has_event_names=True, stores=False)

_COUNTING: Final = _ProbedApi("/v1/messages/count_tokens", "max_tokens", has_event_names=False, stores=False)

_CODES_OF_TYPES: Final = {
    "invalid_request_error": UNSUPPORTED_PARAMETER,
    "rate_limit_error": "rate_limit_exceeded",
    "overloaded_error": "upstream_overloaded",
    "billing_error": "insufficient_quota",
    "not_found_error": "model_not_found",
    "timeout_error": "upstream_timeout",
}
"""Type of an error of the Messages API, which has no codes -> the code of other APIs. All refused requests have one
type."""


@dataclass(slots=True)
class ReceivedStream:
    """The part of a stream that has been received."""

    events: list[Json] = field(default_factory=list)
    """The events of a response or a message, or the chunks of a completion."""
    is_done: bool = False
    """Whether the frame `[DONE]` has been received."""

    @property
    def response(self) -> Json:
        """The response object of the last event. Raises CheckFailed if that event has none."""
        response = self.events[-1].get("response") if self.events else None
        if not isinstance(response, dict):
            raise CheckFailed("the stream ends without a response")
        return response


class CheckSession:
    """Sends the requests of one check of one model. Records the losses of replies and the time to the first token."""

    def __init__(self, client: httpx.Client, subject: Subject, deadline_s: float) -> None:
        self.subject = subject
        self.losses: dict[str, None] = {}
        self.first_token_s: float | None = None
        self.was_answered = False
        """Whether any request got a reply with status 200."""
        self.transcript = Transcript()
        self._client = client
        self._deadline_s = deadline_s

    @property
    def max_tokens(self) -> int:
        """The token limit of replies in checks that are not about lengths."""
        window = self.subject.capabilities.max_context_window
        return _MAX_TOKENS if window is None else max(16, min(_MAX_TOKENS, window // 4))

    def create_response(self, **body: Any) -> Json:
        """Requests a whole response.

        Raises RequestFailed, TimedOut, and CheckFailed for a reply that is no JSON object.
        """
        response = self._post(_RESPONSES, body)
        if response.get("status") == "failed":
            raise RequestFailed(None, response.get("error") or {})
        return response

    def create_completion(self, **body: Any) -> Json:
        """Requests a whole completion. Raises like `create_response`."""
        return self._post(_CHAT, body)

    def stream_response(self, **body: Any) -> ReceivedStream:
        """Requests a stream and reads it to its end.

        Raises RequestFailed if the reply is an error or ends with one, TimedOut, and CheckFailed for a malformed
        stream.
        """
        with self.open_response_stream(**body) as (received, events):
            for _ in events:
                pass
        if received.events and received.events[-1].get("type") == "response.failed":
            raise RequestFailed(None, received.response.get("error") or {})
        return received

    def stream_completion(self, **body: Any) -> ReceivedStream:
        """Requests a stream of completion chunks and reads it to its end. Raises like `stream_response`."""
        with self._open_stream(_CHAT, body) as (received, chunks):
            for _ in chunks:
                pass
        if received.events and isinstance(error := received.events[-1].get("error"), dict):
            raise RequestFailed(None, error)
        return received

    def create_message(self, **body: Any) -> Json:
        """Requests a whole message. Raises like `create_response`."""
        return self._post(_MESSAGES, body)

    def count_message_tokens(self, **body: Any) -> Json:
        """Requests the number of input tokens of a message. Raises like `create_response`."""
        return self._post(_COUNTING, body)

    def stream_message(self, **body: Any) -> ReceivedStream:
        """Requests the stream of a message and reads it to its end. Raises like `stream_response`."""
        with self._open_stream(_MESSAGES, body) as (received, events):
            for _ in events:
                pass
        if received.events and isinstance(error := received.events[-1].get("error"), dict):
            raise _build_failure(None, error)
        return received

    @contextmanager
    def open_response_stream(self, **body: Any) -> Iterator[tuple[ReceivedStream, Iterator[Json]]]:
        """Requests a stream from which the caller may disconnect early, by leaving the block.

        Yields what was received, and an iterator that reads further events. Raises like `stream_response`.
        """
        with self._open_stream(_RESPONSES, body) as open_stream:
            yield open_stream

    def wait_until_idle(self) -> bool:
        """Waits until an embedded engine runs no request. Returns False if requests run at the deadline.

        For other providers this is unknown, and the result is True.
        """
        deadline = time.monotonic() + self._deadline_s
        while self._is_engine_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True

    def _post(self, api: _ProbedApi, body: Json) -> Json:
        request_body = self._build_body(api, body)
        self.transcript.record_request(api.path, request_body)
        try:
            reply = self._client.post(api.path, json=request_body, timeout=self._deadline_s)
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
    def _open_stream(self, api: _ProbedApi, body: Json) -> Iterator[tuple[ReceivedStream, Iterator[Json]]]:
        request_body = self._build_body(api, {**body, "stream": True})
        self.transcript.record_request(api.path, request_body)
        began = time.monotonic()
        try:
            with self._client.stream("POST", api.path, json=request_body, timeout=self._deadline_s) as reply:
                self._record_losses(reply)
                if reply.status_code != 200:
                    self.transcript.record_reply(reply.status_code, reply.read())
                    raise _parse_error(reply)
                self.was_answered = True
                received = ReceivedStream()
                yield received, self._read_events(reply, received, api, began)
        except httpx.TimeoutException:
            raise self._timed_out() from None
        except httpx.HTTPError as error:
            raise CheckFailed(f"the connection broke: {error}") from error

    def _is_engine_running(self) -> bool:
        try:
            ready = self._client.get("/readyz", timeout=self._deadline_s)
        except httpx.HTTPError as error:
            raise CheckFailed(f"the request of /readyz failed: {error}") from error
        return bool(_parse_json(ready.content).get("engines", {}).get(self.subject.provider, {}).get("running"))

    def _read_events(
        self, reply: httpx.Response, received: ReceivedStream, api: _ProbedApi, began: float
    ) -> Iterator[Json]:
        frames = FrameDecoder(is_own=True)
        try:
            for read in reply.iter_raw():
                # The gateway sends comments while a stream is silent, so that no read times out.
                if time.monotonic() - began > self._deadline_s:
                    raise self._timed_out()
                for frame in frames.feed(read):
                    self.transcript.record_frame(frame.payload)
                    if received.is_done:
                        raise CheckFailed("a frame follows the end of the stream")
                    if frame.payload == DONE_PAYLOAD:
                        received.is_done = True
                        continue
                    event = _parse_json(frame.payload)
                    expected_name = event.get("type") if api.has_event_names else None
                    if frame.event != expected_name:
                        raise CheckFailed(f"a frame named {frame.event} has an event of type {event.get('type')}")
                    if self.first_token_s is None and _has_content(event):
                        self.first_token_s = time.monotonic() - began
                    received.events.append(event)
                    yield event
        except ProtocolViolation as error:
            raise CheckFailed(str(error)) from error

    def _build_body(self, api: _ProbedApi, body: Json) -> Json:
        storing = {"store": False} if api.stores else {}
        return {"model": self.subject.name, **storing, api.limit_param: self.max_tokens, **body}

    def _record_losses(self, reply: httpx.Response) -> None:
        self.losses |= dict.fromkeys(loss for loss in reply.headers.get(LOSS_HEADER, "").split(", ") if loss)

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"the reply did not end within {self._deadline_s:g} s")


def _has_content(event: Json) -> bool:
    """Returns whether an event has text or arguments. The role in a chunk does not count."""
    kind = str(event.get("type"))
    if kind.endswith(".delta") or kind == "content_block_delta":
        return True
    choices = event.get("choices")
    delta = choices[0].get("delta") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _parse_error(reply: httpx.Response) -> RequestFailed:
    body = _parse_json(reply.content)
    error = body.get("error")
    expected_keys = {"message", "type"} if body.get("type") == "error" else {"message", "type", "param", "code"}
    if not isinstance(error, dict) or not error.keys() >= expected_keys:
        raise CheckFailed(f"a reply with status {reply.status_code} is not an error object")
    return _build_failure(reply.status_code, error)


def _build_failure(status: int | None, error: Json) -> RequestFailed:
    failure = RequestFailed(status, error)
    if "code" not in error:
        failure.code = _CODES_OF_TYPES.get(str(error.get("type")))
    return failure


def _parse_json(content: bytes) -> Json:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise CheckFailed(f"not JSON: {content[:80]!r}") from None
    if not isinstance(value, dict):
        raise CheckFailed(f"not a JSON object: {content[:80]!r}")
    return value
