"""The body of a multipart form, in pieces as it arrives: within its size, its deadline and its longest pause."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT, ClientWriter
from gateway.errors import BodyTooSlow, GatewayError, UnsupportedEncoding
from gateway.http.body import build_too_large_error, discard_body
from gateway.http.forms.multipart import FormPiece, FormSplitter, parse_boundary
from gateway.http.guard import ClientDisconnected
from gateway.http.headers import headers_of
from translation.errors import InvalidRequest


class FormPace(NamedTuple):
    """A form may pause for `silence_s` seconds, and take `total_s` in all."""

    silence_s: float
    total_s: float


class FormBody:
    """One form. `open` checks its headers; then `read_pieces` is called until `ended`.

    Methods raise InvalidRequest, UnsupportedEncoding, BodyTooSlow, ClientDisconnected, and the error of
    `make_too_large` for more than `max_bytes`.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        max_bytes: int,
        pace: FormPace,
        make_too_large: Callable[[int], GatewayError] = build_too_large_error,
    ) -> None:
        self._headers = headers = headers_of(scope)
        self._waits_for_continue = b"expect" in headers
        self._client: ClientWriter | None = scope.get(CLIENT)
        self._receive = receive
        self._max_bytes = max_bytes
        self._make_too_large = make_too_large
        self._pace = pace
        self._splitter: FormSplitter
        self.size = 0
        """The bytes that have arrived."""
        self.is_read = False
        """Whether the body has been read to its end."""
        self._deadline = asyncio.get_running_loop().time() + pace.total_s

    def open(self, *, keeps_damaged_names: bool = False) -> None:
        """Raises the errors for headers that a form cannot have.

        With `keeps_damaged_names`, bytes in the head of a part that are not UTF-8 are replaced instead of refused.
        """
        encoding = self._headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding.lower() != "identity":
            message = f"the body is encoded as {encoding[:100]!r}: send a form without content-encoding"
            raise UnsupportedEncoding(message, headers={"accept-encoding": "identity"})
        if self.declared_size > self._max_bytes:
            raise self._make_too_large(self._max_bytes)
        boundary = parse_boundary(self._headers.get(b"content-type", b"").decode("latin-1"))
        self._splitter = FormSplitter(boundary, keeps_damaged_names=keeps_damaged_names)

    @property
    def declared_size(self) -> int:
        """The length of the body that its client has declared, 0 if it has not."""
        declared = self._headers.get(b"content-length", b"")
        return int(declared) if declared.isdigit() else 0

    @property
    def ended(self) -> bool:
        """Whether the last boundary has arrived."""
        return self._splitter.ended

    async def read_pieces(self) -> list[FormPiece]:
        """Returns the next heads and contents of parts."""
        if self.is_read:
            raise InvalidRequest("the multipart form is malformed: it ends before its last boundary", param=None)
        return self._splitter.feed(await self._read())

    async def read_to_end(self) -> None:
        """Reads the bytes after the last boundary, which have no meaning."""
        while not self.is_read:
            await self._read()

    async def discard(self) -> None:
        """Drops the rest of a form that is refused, so that its client reads the reply."""
        if not self.is_read and not self._waits_for_continue:
            with suppress(ClientDisconnected):
                await discard_body(self._receive)

    async def _read(self) -> bytes:
        pace = self._pace
        try:
            async with asyncio.timeout(min(pace.silence_s, self._deadline - asyncio.get_running_loop().time())):
                message = await self._receive()
        except TimeoutError:
            self._waits_for_continue = True  # the client sends nothing: there is nothing to drop
            raise BodyTooSlow(
                f"the form paused for {pace.silence_s:g} s (server.body_s), or took more than {pace.total_s:g} s "
                "(server.form_s)"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        self.is_read = not message.get("more_body", False)
        if self.is_read and self._client is not None:
            self._client.resume_reading()
        data: bytes = message.get("body", b"")
        self.size += len(data)
        if self.size > self._max_bytes:
            raise self._make_too_large(self._max_bytes)
        return data
