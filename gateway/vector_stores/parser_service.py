"""Lets a parser service of the operator convert a document: sends it the file, and keeps its reply in a file.

The service has the contract of docling-serve: a form with the file in `files`, and a reply in JSON. The reply is not
parsed here, but by a child of the parser server, as the file itself would be.
"""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import IO, Final

import httpx2
import structlog

from dataplane.sharing.work_pool import run_in_pool
from gateway.config.tool_settings import FileSearchSettings
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.upstreams.retry_delays import read_retry_delay
from providers.egress import EgressClient, EgressRefused, GuardedSender

_log = structlog.get_logger(__name__)

_PATH: Final = "/v1/convert/file"
_CONNECT_S: Final = 5.0
_PIECE: Final = 262_144

_BYTES_PER_CHARACTER: Final = 6
"""The most bytes that JSON needs for a character of the first plane of Unicode."""
_REPLY_MARGIN: Final = 1_048_576

_BUSY_STATUSES: Final = frozenset({408, 425, 429})
_FILE_FAULTS: Final[Mapping[int, str]] = {
    413: "The file is too large for the parser service.",
    415: "The parser service does not read files of this kind.",
    422: "The parser service does not read files of this kind.",
}


class ParserServiceAway(Exception):
    """A parser service is busy or away, which passes. `named_s` is the wait that it asks for, and `why` is for the
    operator."""

    def __init__(self, why: str, named_s: float | None = None) -> None:
        super().__init__(why)
        self.why: Final = why
        self.named_s: Final = named_s


class ParserService:
    """The parser service of the configuration."""

    def __init__(self, url: str, settings: FileSearchSettings) -> None:
        self._url: Final = httpx2.URL(url.rstrip("/") + _PATH)
        self._key: Final = "" if settings.parser_key is None else settings.parser_key.get_secret_value()
        self._deadline_s: Final = settings.parse_s
        self._max_reply: Final = settings.parse_chars * _BYTES_PER_CHARACTER + _REPLY_MARGIN
        # The operator named the host, so it may have any address. Redirects are not followed.
        self._egress: Final = EgressClient(allow=[self._url.host])

    @asynccontextmanager
    async def open_reply(self, file: int, kind: str) -> AsyncGenerator[int, None]:
        """Lets the service convert a document, and opens its reply as a descriptor. `kind` is the ending of the name.

        Raises ParserServiceAway, and UnreadableFile for a failure that does not pass.
        """
        with tempfile.TemporaryFile() as reply:
            try:
                async with asyncio.timeout(self._deadline_s), aclosing(GuardedSender(self._egress)) as sender:
                    await self._store_reply(await sender.send(self._build_request(file, kind)), reply)
            except TimeoutError:
                raise ParserServiceAway("no reply within tools.file_search.parse_s") from None
            except EgressRefused:
                raise ParserServiceAway("its host cannot be resolved") from None
            except httpx2.HTTPError as error:
                raise ParserServiceAway(f"no complete reply: {type(error).__name__}") from None
            await run_in_pool(reply.seek, 0)
            yield reply.fileno()

    def _build_request(self, file: int, kind: str) -> httpx2.Request:
        boundary = secrets.token_hex(16)
        fields = {
            "to_formats": "md",
            "image_export_mode": "placeholder",
            "document_timeout": f"{self._deadline_s:g}",
        }
        head = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        )
        # The name of the file is the client's: the service needs only its ending.
        head += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="document{kind}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        tail = f"\r\n--{boundary}--\r\n".encode()
        size = os.fstat(file).st_size
        headers = {
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(len(head) + size + len(tail)),
            "accept": "application/json",
        }
        if self._key:
            headers["x-api-key"] = self._key
        timeout = {"connect": _CONNECT_S, "read": None, "write": None, "pool": None}
        content = _iterate_form(head.encode(), file, size, tail)
        return httpx2.Request("POST", self._url, headers=headers, content=content, extensions={"timeout": timeout})

    async def _store_reply(self, reply: httpx2.Response, copy: IO[bytes]) -> None:
        async with aclosing(reply):
            if reply.status_code != 200:
                raise _explain_status(reply)
            if reply.headers.get("content-encoding", "identity").lower() != "identity":
                raise UnreadableFile("server_error", "The parser service sent a reply that cannot be read.")
            size = 0
            async for piece in reply.aiter_raw():
                size += len(piece)
                if size > self._max_reply:
                    raise UnreadableFile("invalid_file", "The file has too much text.")
                await run_in_pool(copy.write, piece)


async def _iterate_form(head: bytes, file: int, size: int, tail: bytes) -> AsyncIterator[bytes]:
    yield head
    place = 0
    while place < size:
        piece = await run_in_pool(os.pread, file, min(_PIECE, size - place), place)
        if not piece:
            raise httpx2.WriteError("the file is shorter than it was")
        place += len(piece)
        yield piece
    yield tail


def _explain_status(reply: httpx2.Response) -> ParserServiceAway | UnreadableFile:
    status = reply.status_code
    if status in _BUSY_STATUSES or status >= 500:
        return ParserServiceAway(f"status {status}", read_retry_delay(reply.headers, time.time()))
    _log.warning("parser_service_refused", status=status)
    if (fault := _FILE_FAULTS.get(status)) is not None:
        return UnreadableFile("invalid_file" if status == 413 else "unsupported_file", fault)
    return UnreadableFile(
        "server_error", f"The parser service refuses the gateway with status {status}: its operator has to correct it."
    )
