"""Splits multipart forms (RFC 7578) into parts as they arrive, and encodes the parts again.

A form is never forwarded unchanged. Parsers differ in how they read malformed forms, and a second `model` that only the
upstream sees would bypass the models of a key. So parts are encoded with new headers and a new boundary, and ambiguous
forms are refused. Knows no path, and does no I/O.
"""

import re
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from translation.errors import InvalidRequest

_MAX_HEAD_BYTES: Final = 8 * 1024
_MAX_PARTS: Final = 1000

_BOUNDARY = re.compile(r"[\w'()+,./:=?-]{1,70}", re.ASCII)
_PARAMETER = re.compile(r';[ \t]*([\w-]+\*?)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;"\\]+)[ \t]*')
_NAME = re.compile(r"[\w.\[\]-]{1,100}", re.ASCII)
_PLAIN_ENCODINGS = frozenset({"7bit", "8bit", "binary"})
_UNSAFE_IN_QUOTES = {code: f"%{code:02X}" for code in (*range(32), 0x22, 0x5C, 0x7F)}
"""Escapes as browsers write them in the name of a file. Parsers differ about backslashes."""


class PartStart(NamedTuple):
    """The head of a part. `filename` and `content_type` are None if the client sent none."""

    name: str
    filename: str | None = None
    content_type: str | None = None


FormPiece: TypeAlias = PartStart | bytes
"""The head of a part, or a piece of its content."""


def parse_boundary(content_type: str) -> str:
    """Returns the boundary of a header `content-type`. Raises InvalidRequest if it is not the type of a form."""
    kind, _, _ = content_type.partition(";")
    parameters = _parse_parameters(content_type[len(kind) :])
    if kind.strip().lower() != "multipart/form-data" or parameters is None:
        raise InvalidRequest("the body must be a form: send content-type multipart/form-data", param="content-type")
    boundary = parameters.get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise InvalidRequest("content-type needs a boundary of 1 to 70 characters", param="content-type")
    return boundary


class FormSplitter:
    """Splits a form into the heads and the contents of its parts, however its bytes are cut.

    With `keeps_damaged_names`, bytes of a head that are not UTF-8 become U+FFFD. Otherwise the form is refused.
    """

    def __init__(self, boundary: str, *, keeps_damaged_names: bool = False) -> None:
        self._decoding_errors = "replace" if keeps_damaged_names else "strict"
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        # The first delimiter has no line before it.
        self._buffer = bytearray(b"\r\n")
        self._is_preamble = True
        self._in_head = False
        self._part_count = 0
        self.ended = False
        """Whether the last delimiter has arrived."""

    def feed(self, data: bytes) -> list[FormPiece]:
        """Returns the new pieces. Raises InvalidRequest for a form that is malformed or ambiguous."""
        pieces: list[FormPiece] = []
        if self.ended:
            return pieces  # bytes after the end have no meaning
        self._buffer += data
        while self._take_head(pieces) if self._in_head else self._take_content(pieces):
            continue
        return pieces

    def _take_content(self, pieces: list[FormPiece]) -> bool:
        """Takes the content up to the next delimiter. Returns False if more bytes have to arrive."""
        buffer, delimiter = self._buffer, self._delimiter
        position = buffer.find(delimiter)
        end = position if position >= 0 else max(0, len(buffer) - len(delimiter) + 1)
        if end:
            if self._is_preamble:
                raise _build_malformed_error("it must begin with its boundary")
            pieces.append(bytes(buffer[:end]))
            del buffer[:end]
        follower = bytes(buffer[len(delimiter) : len(delimiter) + 2])
        if position < 0 or len(follower) < 2:
            return False
        if follower == b"--":
            self.ended = True
            buffer.clear()
            return False
        if follower != b"\r\n":
            raise _build_malformed_error("a boundary is not followed by a line end")
        self._part_count += 1
        if self._part_count > _MAX_PARTS:
            raise _build_malformed_error(f"it has more than {_MAX_PARTS} parts")
        # The line end stays, so that an empty head is `\r\n\r\n`.
        del buffer[: len(delimiter)]
        self._is_preamble, self._in_head = False, True
        return True

    def _take_head(self, pieces: list[FormPiece]) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end > _MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > _MAX_HEAD_BYTES):
            raise _build_malformed_error(f"the head of a part is longer than {_MAX_HEAD_BYTES // 1024} KiB")
        if end < 0:
            return False
        pieces.append(_parse_head(bytes(self._buffer[2:end]), self._decoding_errors))
        del self._buffer[: end + 4]
        self._in_head = False
        return True


def render_part_start(boundary: str, part: PartStart) -> bytes:
    """Returns the delimiter and the head of a part. Its content and a line end follow."""
    lines = [f"--{boundary}", f'Content-Disposition: form-data; name="{part.name}"']
    if part.filename is not None:
        lines[1] += f'; filename="{part.filename.translate(_UNSAFE_IN_QUOTES)}"'
    if part.content_type is not None:
        lines.append(f"Content-Type: {part.content_type}")
    return "\r\n".join([*lines, "", ""]).encode()


def render_form_end(boundary: str) -> bytes:
    """Returns the delimiter after the last part."""
    return f"--{boundary}--\r\n".encode()


def _parse_head(head: bytes, decoding_errors: str) -> PartStart:
    try:
        lines = head.decode(errors=decoding_errors).split("\r\n")
    except UnicodeDecodeError:
        raise _build_malformed_error("the head of a part is not UTF-8") from None
    disposition = content_type = None
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or any(ord(character) < 32 and character != "\t" for character in line):
            raise _build_malformed_error("the head of a part has a line that is no header")
        match name.lower():
            case "content-disposition" if disposition is None:
                disposition = value
            case "content-type" if content_type is None:
                content_type = value
            case "content-length":
                continue
            case "content-transfer-encoding" if value.lower() in _PLAIN_ENCODINGS:
                continue
            case _:
                raise _build_malformed_error(f"the header {name!r:.100} of a part is unknown, encoded or there twice")
    kind, _, _ = (disposition or "").partition(";")
    parameters = _parse_parameters((disposition or "")[len(kind) :])
    if kind.strip().lower() != "form-data" or parameters is None or not _NAME.fullmatch(parameters.get("name", "")):
        raise _build_malformed_error('a part needs one header `Content-Disposition: form-data; name="..."`')
    return PartStart(parameters["name"], parameters.get("filename"), content_type)


def _parse_parameters(text: str) -> dict[str, str] | None:
    """Returns the parameters of a header value, with `filename*` as `filename`. None if they are malformed or one of
    them is there twice."""
    parameters: dict[str, str] = {}
    extended = None
    position = 0
    for match in _PARAMETER.finditer(text):
        if match.start() != position:
            return None
        position = match.end()
        name, value = match[1].lower(), match[2]
        if value.startswith('"'):
            value = value[1:-1].replace('\\"', '"')
        if name == "filename*":
            extended = unquote(value.rpartition("'")[2])
        elif name in parameters or name.endswith("*"):
            return None
        else:
            parameters[name] = value
    if text[position:].strip(" \t;"):
        return None
    return parameters if extended is None else {**parameters, "filename": extended}


def _build_malformed_error(what: str) -> InvalidRequest:
    return InvalidRequest(f"the multipart form is malformed: {what}", param=None)
