"""Reads a form while it is forwarded: finds its model, and holds only the parts before it in memory."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT, ClientWriter
from gateway.errors import BodyTooSlow, UnsupportedEncoding
from gateway.http.body import build_too_large_error, discard_body
from gateway.http.guard import ClientDisconnected
from gateway.http.headers import headers_of
from gateway.relayed_paths.multipart import (
    FormPiece,
    FormSplitter,
    PartStart,
    parse_boundary,
    render_form_end,
    render_part_start,
)
from providers.new_id import random_hex
from providers.relayed_paths import Form
from translation.errors import InvalidRequest

_MODEL: Final = "model"
_MAX_MODEL_BYTES: Final = 1000


class FormLimits(NamedTuple):
    """The most bytes of a form, and the most bytes that are held until its model arrives.

    A form may pause for `silence_s` seconds, and take `total_s` in all.
    """

    max_bytes: int
    max_lookahead_bytes: int
    silence_s: float
    total_s: float


class FormUpload:
    """One form. Call `read_model`, and then `forward` once.

    `model` is the model in the URL, if there is one. Both methods raise InvalidRequest, UnsupportedEncoding,
    BodyTooLarge, BodyTooSlow and ClientDisconnected.
    """

    def __init__(self, scope: Scope, receive: Receive, limits: FormLimits, model: str | None) -> None:
        self._headers = headers = headers_of(scope)
        self._waits_for_continue = b"expect" in headers
        self._splitter: FormSplitter
        self._client: ClientWriter | None = scope.get(CLIENT)
        self._receive = receive
        self._limits = limits
        self._model = model
        self._model_content: bytes | None = None
        """The bytes of the part with the model so far; None before the part begins."""
        self._in_model = False
        self._held: list[FormPiece] = []
        self._size = 0
        self._is_read = False
        self._deadline = asyncio.get_running_loop().time() + limits.total_s

    async def read_model(self) -> str:
        """Reads the form up to its model, and returns the model's name."""
        self._splitter = FormSplitter(self._check_head())
        while self._model is None:
            if self._splitter.ended:
                raise InvalidRequest(
                    "model is required: send it as a field of the form, or in the URL as ?model=",
                    param=_MODEL,
                    code="missing_required_parameter",
                )
            if self._size > self._limits.max_lookahead_bytes:
                raise InvalidRequest(
                    f"the first {self._limits.max_lookahead_bytes / 1024:g} KB of the form have no model "
                    "(server.max_form_lookahead_kb): send the field `model` before the files, or in the URL as ?model=",
                    param=_MODEL,
                )
            self._held += await self._read_pieces()
        return self._model

    def _check_head(self) -> str:
        """Returns the boundary of the form. Raises the errors for headers that a form cannot have."""
        encoding = self._headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding.lower() != "identity":
            message = f"the body is encoded as {encoding[:100]!r}: send a form without content-encoding"
            raise UnsupportedEncoding(message, headers={"accept-encoding": "identity"})
        declared, max_bytes = self._headers.get(b"content-length", b""), self._limits.max_bytes
        if declared.isdigit() and int(declared) > max_bytes:
            raise build_too_large_error(max_bytes)
        return parse_boundary(self._headers.get(b"content-type", b"").decode("latin-1"))

    def forward(self, model: str) -> Form:
        """Returns the form for the upstream, with the upstream's name of the model as the first field."""
        boundary = random_hex()
        return Form(f"multipart/form-data; boundary={boundary}", self._render(boundary, model))

    async def discard(self) -> None:
        """Drops the rest of a form that is not forwarded, so that its client reads the reply."""
        if not self._is_read and not self._waits_for_continue:
            with suppress(ClientDisconnected):
                await discard_body(self._receive)

    async def _render(self, boundary: str, model: str) -> AsyncGenerator[bytes, None]:
        pieces: Iterable[FormPiece] = [PartStart(_MODEL), model.encode(), *self._held]
        self._held.clear()
        is_first = True
        while True:
            rendered = bytearray()
            for piece in pieces:
                if isinstance(piece, PartStart):
                    rendered += b"" if is_first else b"\r\n"
                    rendered += render_part_start(boundary, piece)
                    is_first = False
                else:
                    rendered += piece
            if self._splitter.ended:
                break
            if rendered:
                yield bytes(rendered)
            pieces = await self._read_pieces()
        while not self._is_read:
            await self._read()  # bytes after the form have no meaning
        yield bytes(rendered) + b"\r\n" + render_form_end(boundary)

    async def _read_pieces(self) -> list[FormPiece]:
        """Returns the next pieces that do not belong to the model."""
        if self._is_read:
            raise InvalidRequest("the multipart form is malformed: it ends before its last boundary", param=None)
        others: list[FormPiece] = []
        for piece in self._splitter.feed(await self._read()):
            if isinstance(piece, PartStart):
                self._end_model()
                if piece.name == _MODEL:
                    self._begin_model(piece)
                    continue
            elif self._in_model:
                self._model_content = (self._model_content or b"") + piece
                if len(self._model_content) > _MAX_MODEL_BYTES:
                    raise InvalidRequest(f"model is longer than {_MAX_MODEL_BYTES} bytes", param=_MODEL)
                continue
            others.append(piece)
        if self._splitter.ended:
            self._end_model()
        return others

    def _begin_model(self, part: PartStart) -> None:
        if self._model_content is not None or part.filename is not None:
            problem = "is in the form twice" if part.filename is None else "is a file: send it as a plain field"
            raise InvalidRequest(f"model {problem}", param=_MODEL)
        self._model_content = b""
        self._in_model = True

    def _end_model(self) -> None:
        if not self._in_model:
            return
        self._in_model = False
        try:
            model = (self._model_content or b"").decode()
        except UnicodeDecodeError:
            raise InvalidRequest("model is not UTF-8 text", param=_MODEL) from None
        if self._model not in (None, model):
            raise InvalidRequest("the form and the URL name different models: send one of them", param=_MODEL)
        self._model = model

    async def _read(self) -> bytes:
        limits = self._limits
        try:
            async with asyncio.timeout(min(limits.silence_s, self._deadline - asyncio.get_running_loop().time())):
                message = await self._receive()
        except TimeoutError:
            self._waits_for_continue = True  # the client sends nothing: there is nothing to drop
            raise BodyTooSlow(
                f"the form paused for {limits.silence_s:g} s (server.body_s), or took more than {limits.total_s:g} s "
                "(server.form_s)"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        self._is_read = not message.get("more_body", False)
        if self._is_read and self._client is not None:
            self._client.resume_reading()
        data: bytes = message.get("body", b"")
        self._size += len(data)
        if self._size > limits.max_bytes:
            raise build_too_large_error(limits.max_bytes)
        return data
