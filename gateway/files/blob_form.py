"""Reads a form with one file: its text fields, and the bytes of the file into a blob. Fields may come in any order."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from gateway.blobs.blob_store import BlobWriter
from gateway.http.forms.form_body import FormBody
from gateway.http.forms.multipart import PartStart
from translation.errors import InvalidRequest

_WRITTEN_BYTES: Final = 512 * 1024
"""Bytes are collected until there are so many, and then written. No larger part of a file is ever in memory."""

_MAX_FIELD_BYTES: Final = 1000


@dataclass(slots=True)
class FormContent:
    """The content of a form besides the bytes of its file. `filename` is None if the file was sent without a name."""

    filename: str | None = None
    size: int = 0
    fields: dict[str, str] = field(default_factory=dict)


class BlobForm:
    """Reads one form. `file_field` is the field with the file, `text_fields` are the others that it may have.

    `check_head` is called with the head of the file, `check_field` with each text field, and `count_bytes` with the
    number of bytes of each piece: each may refuse the form before the rest of it has arrived.
    """

    def __init__(
        self,
        body: FormBody,
        file_field: str,
        text_fields: Collection[str],
        count_bytes: Callable[[int], None],
        check_field: Callable[[str, str], object] = lambda name, value: None,
        check_head: Callable[[PartStart], object] = lambda part: None,
    ) -> None:
        self._body = body
        self._file_field = file_field
        self._text_fields = text_fields
        self._count_bytes = count_bytes
        self._check_field = check_field
        self._check_head = check_head
        self._content = FormContent()
        self._has_file = False
        self._part: PartStart | None = None
        self._text = bytearray()
        """The bytes of the text field that is being read."""
        self._pending = bytearray()
        """Bytes of the file that are not written yet."""

    async def read(self, blob: BlobWriter) -> FormContent:
        """Reads the form to its end, and writes its file. Raises InvalidRequest, and what FormBody raises."""
        while not self._body.ended:
            for piece in await self._body.read_pieces():
                if isinstance(piece, PartStart):
                    self._end_part()
                    self._begin_part(piece)
                elif self._part is not None and self._part.name == self._file_field:
                    self._count_bytes(len(piece))
                    self._content.size += len(piece)
                    self._pending += piece
                    if len(self._pending) >= _WRITTEN_BYTES:
                        await self._write(blob)
                else:
                    self._add_text(piece)
        self._end_part()
        if not self._has_file:
            raise InvalidRequest(
                f"Missing required parameter: '{self._file_field}': send it as a file of the form.",
                param=self._file_field,
                code="missing_required_parameter",
            )
        await self._write(blob)
        await self._body.read_to_end()
        return self._content

    async def _write(self, blob: BlobWriter) -> None:
        if self._pending:
            written = bytes(self._pending)
            self._pending.clear()
            await blob.write(written)

    def _begin_part(self, part: PartStart) -> None:
        is_file = part.name == self._file_field
        if not is_file and part.name not in self._text_fields:
            raise InvalidRequest(f"Unknown parameter: '{part.name}'.", param=part.name, code="unknown_parameter")
        if part.name in self._content.fields or (is_file and self._has_file):
            raise InvalidRequest(f"Invalid value for '{part.name}': it is in the form twice.", param=part.name)
        if not is_file and part.filename is not None:
            raise InvalidRequest(f"Invalid type for '{part.name}': expected a text, but got a file.", param=part.name)
        if is_file:
            self._has_file = True
            self._content.filename = part.filename
            self._check_head(part)
        self._part = part

    def _add_text(self, piece: bytes) -> None:
        self._text += piece
        if self._part is not None and len(self._text) > _MAX_FIELD_BYTES:
            raise InvalidRequest(
                f"Invalid value for '{self._part.name}': it is longer than {_MAX_FIELD_BYTES} bytes.",
                param=self._part.name,
            )

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None or part.name == self._file_field:
            return
        value = self._text.decode(errors="replace")
        self._text.clear()
        self._content.fields[part.name] = value
        self._check_field(part.name, value)
