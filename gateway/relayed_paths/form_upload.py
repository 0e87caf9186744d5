"""Reads a form while it is forwarded: finds its model, and holds only the parts before it in memory."""

from collections.abc import AsyncGenerator, Iterable
from typing import Final, NamedTuple

from starlette.types import Receive, Scope

from gateway.http.forms.form_body import FormBody, FormPace
from gateway.http.forms.multipart import FormPiece, PartStart, render_form_end, render_part_start
from providers.new_id import random_hex
from providers.relayed_paths import Form
from translation.errors import InvalidRequest

_MODEL: Final = "model"
_MAX_MODEL_BYTES: Final = 1000


class FormLimits(NamedTuple):
    """The most bytes of a form, the most bytes that are held until its model arrives, and its pace."""

    max_bytes: int
    max_lookahead_bytes: int
    pace: FormPace


class FormUpload:
    """One form. Call `read_model`, and then `forward`, again only as long as the form is not forwarded.

    `model` is the model in the URL, if there is one. Both methods raise InvalidRequest, UnsupportedEncoding,
    BodyTooLarge, BodyTooSlow and ClientDisconnected.
    """

    def __init__(self, scope: Scope, receive: Receive, limits: FormLimits, model: str | None) -> None:
        self._body = FormBody(scope, receive, limits.max_bytes, limits.pace)
        self._max_lookahead_bytes = limits.max_lookahead_bytes
        self._model = model
        self._model_content: bytes | None = None
        """The bytes of the part with the model so far; None before the part begins."""
        self._in_model = False
        self._held: list[FormPiece] = []
        self.is_forwarded = False
        """Whether a byte of the form has been taken for an upstream."""

    async def read_model(self) -> str:
        """Reads the form up to its model, and returns the model's name."""
        self._body.open()
        while self._model is None:
            if self._body.ended:
                raise InvalidRequest(
                    "model is required: send it as a field of the form, or in the URL as ?model=",
                    param=_MODEL,
                    code="missing_required_parameter",
                )
            if self._body.size > self._max_lookahead_bytes:
                raise InvalidRequest(
                    f"the first {self._max_lookahead_bytes / 1024:g} KB of the form have no model "
                    "(server.max_form_lookahead_kb): send the field `model` before the files, or in the URL as ?model=",
                    param=_MODEL,
                )
            self._held += await self._read_pieces()
        return self._model

    def forward(self, model: str) -> Form:
        """Returns the form for the upstream, with the upstream's name of the model as the first field."""
        boundary = random_hex()
        return Form(f"multipart/form-data; boundary={boundary}", self._render(boundary, model))

    async def discard(self) -> None:
        """Drops the rest of a form that is not forwarded, so that its client reads the reply."""
        await self._body.discard()

    async def _render(self, boundary: str, model: str) -> AsyncGenerator[bytes, None]:
        pieces: Iterable[FormPiece] = [PartStart(_MODEL), model.encode(), *self._held]
        self._held.clear()
        self.is_forwarded = True
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
            if self._body.ended:
                break
            if rendered:
                yield bytes(rendered)
            pieces = await self._read_pieces()
        await self._body.read_to_end()
        yield bytes(rendered) + b"\r\n" + render_form_end(boundary)

    async def _read_pieces(self) -> list[FormPiece]:
        """Returns the next pieces that do not belong to the model."""
        others: list[FormPiece] = []
        for piece in await self._body.read_pieces():
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
        if self._body.ended:
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
