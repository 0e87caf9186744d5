"""Loads the contents of files that a request names, as models can read them."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Final

from dataplane.sharing.work_pool import run_in_pool
from gateway.errors import FileNotFound
from gateway.files.stored_files import StoredFiles
from gateway.state.file_records import StoredFile
from translation.errors import InvalidRequest
from translation.lowering.input_files import FileContent

_MB: Final = 1024 * 1024
_PLAIN_TEXT: Final = "text/plain"
_BINARY: Final = "application/octet-stream"

_SIGNATURES: Final[Sequence[tuple[bytes, str]]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\f\r\x1b")
"""Control characters that no text has."""


class FileContents:
    """Loads files for requests. The files of one request may have `max_bytes` together, which is the limit of a body
    too. A file counts at each place that names it, because its content is put in there."""

    def __init__(self, files: StoredFiles, max_bytes: int) -> None:
        self._files = files
        self._max_bytes = max_bytes

    async def load(
        self, owner: str, params: Mapping[str, str], counts: Mapping[str, int]
    ) -> tuple[Mapping[str, FileContent], int]:
        """Returns files by their ids, and the bytes of all places. `params` maps ids to the first parameters that name
        them, `counts` to the number of their places.

        Raises FileNotFound with the parameter, InvalidRequest if they are too large, FileStorageUnavailable and
        StoreUnavailable.
        """
        described = await self._files.load_files(owner, list(params))
        size = 0
        for file_id, param in params.items():
            if file_id not in described:
                raise FileNotFound(file_id, param=param)
            size += described[file_id].size * counts[file_id]
            if size > self._max_bytes:
                raise InvalidRequest(
                    f"the files of this request have more than {self._max_bytes / _MB:g} MiB together "
                    "(server.max_body_mb): search in large files instead of sending them to a model",
                    param=param,
                )
        return {file_id: await self._load_content(owner, described[file_id]) for file_id in params}, size

    async def _load_content(self, owner: str, file: StoredFile) -> FileContent:
        async with self._files.open_file(owner, file) as pieces:
            data = b"".join([piece async for piece in pieces])
        return await run_in_pool(build_content, file.filename, data)


def build_content(filename: str, data: bytes) -> FileContent:
    """Returns the content of a file. Its bytes decide what kind of file it is; its name only decides if they do not."""
    media_type = _find_signature(data)
    text = _decode_text(data) if media_type is None else None
    if media_type is None:
        guessed, _ = mimetypes.guess_type(filename)
        fallback = _BINARY if text is None else _PLAIN_TEXT
        # A text with the name of an image is no image.
        media_type = guessed if guessed is not None and not guessed.startswith("image/") else fallback
    data_url = f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
    return FileContent(filename, data_url, media_type.startswith("image/"), text)


def _find_signature(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if data.startswith(signature)), None)


def _decode_text(data: bytes) -> str | None:
    """Returns the text of a file in UTF-8, or in UTF-16 with a mark; None if it is not text."""
    encoding = "utf-16" if data.startswith(_UTF_16_MARKS) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if any(map(text.__contains__, map(chr, _CONTROLS))) else text
