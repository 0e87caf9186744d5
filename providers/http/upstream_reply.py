"""One upstream's reply while its body is read. Knows no dialect."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NoReturn, Protocol, TypeAlias

import httpx

from dataplane.sharing.work_pool import run_in_pool
from dataplane.source import Sink, Source
from dataplane.transport import ReplyBody
from providers.errors import ProviderError, UpstreamGarbled, UpstreamTimeout
from providers.http.transports import HttpxBody
from translation.errors import ProtocolViolation
from translation.framing.reply_weight import LIGHT_BYTES, describe_remedy, require_few_numbers

_LF = 0x0A

HTTP_FAILURES = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)
"""All failures that a transport raises."""

END_GRACE_S = 0.25
"""The seconds for which a stream is read after its end. They are enough for a late usage chunk, and for the end of the
body, after which the connection can be reused."""


def select_headers(headers: Mapping[bytes, bytes], prefix: bytes) -> dict[str, str]:
    """Returns the headers whose names, which are in lower case, begin with `prefix`, as texts."""
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items() if name.startswith(prefix)
    }


class ReplyOrigin(Protocol):
    """The part of an upstream that its replies need: its name, its bound of whole replies, and the errors for
    failures of the transport."""

    @property
    def name(self) -> str: ...

    @property
    def max_frame_bytes(self) -> int: ...

    def raise_provider_error(self, failure: Exception, *, reply_started: bool) -> NoReturn:
        """Raises the ProviderError for a failure of the transport."""
        ...


RawReply: TypeAlias = ReplyBody | HttpxBody
"""An upstream's reply with any `status`. The names of its `headers` are in lower case."""


class UpstreamReply(Source[bytes]):
    """An upstream's reply with a success status. `content_type` is its media type in lower case, without parameters.

    `take` raises UpstreamTimeout if the upstream sends nothing for `silence_s`, or sends bytes but no line end for that
    time. It raises UpstreamBroken if the reply breaks off.
    """

    ended = False

    def __init__(self, upstream: ReplyOrigin, reply: RawReply, silence_s: float) -> None:
        self._upstream = upstream
        self._source = reply
        self._silence_s = silence_s
        self._partial_line_since: float | None = None
        self.content_type = _media_type(reply.headers.get(b"content-type", b""))

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The headers by their names in lower case."""
        return self._source.headers

    @property
    def content_type_header(self) -> str:
        """The header `content-type` as the upstream sent it; empty if there is none."""
        return self._source.headers.get(b"content-type", b"").decode("latin-1")

    @property
    def content_length(self) -> int | None:
        """The number of bytes of the body. None if the upstream did not announce it, or compressed the body."""
        length = self._source.headers.get(b"content-length", b"")
        is_plain = self._source.headers.get(b"content-encoding", b"identity") == b"identity"
        return int(length) if is_plain and length.isdigit() else None

    def take(self) -> bytes:
        try:
            read = self._source.take()
        except HTTP_FAILURES as failure:
            self._upstream.raise_provider_error(failure, reply_started=True)
        self.ended = self._source.ended
        return self.take_read(read) if read else read

    def take_read(self, read: bytes) -> bytes:
        if _LF in read:
            self._partial_line_since = None
        else:
            self._check_drip()
        return read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._source.wait_for_read(sink)

    async def iterate_reads(self) -> AsyncGenerator[bytes, None]:
        """Yields a body without lines as it arrives. Raises ProviderError."""
        while not self.ended:
            if read := self._take():
                yield read
            elif not self.ended:
                await self._source.wait_for_read()

    async def read_whole(self) -> bytes:
        limit = self._upstream.max_frame_bytes
        body = await self.read_body(limit)
        try:
            if len(body) > LIGHT_BYTES:
                await run_in_pool(require_few_numbers, body, limit)
        except ProtocolViolation as violation:
            raise UpstreamGarbled(str(violation), provider=self._upstream.name) from violation
        return body

    async def read_body(self, limit: int) -> bytes:
        """Returns the whole body. Raises UpstreamGarbled if it is longer than `limit` bytes."""
        body: bytes | bytearray = b""
        try:
            while not self.ended:
                if read := self._take():
                    if not body:
                        body = read  # which is all of most replies
                    else:
                        body = body if isinstance(body, bytearray) else bytearray(body)
                        body += read
                    if len(body) > limit:
                        raise UpstreamGarbled(
                            f"the upstream's reply is longer than {limit} bytes; {describe_remedy(limit)}",
                            provider=self._upstream.name,
                        )
                elif not self.ended:
                    await self._source.wait_for_read()
        finally:
            if not self._source.ended:
                await self.close()
        return bytes(body)

    async def close(self, *, whole: bool = False) -> None:
        """Returns the connection to the pool, or closes it if the body was not read to its end.

        With `whole` the rest of the body is read first, if it arrives within `END_GRACE_S`.
        """
        try:
            if whole and not self.ended:
                await self._drain()
        finally:
            if not self._source.ended:
                with suppress(*HTTP_FAILURES):  # the connection is closed in any case
                    await self._source.close()

    def _take(self) -> bytes:
        try:
            read = self._source.take()
        except HTTP_FAILURES as failure:
            self._upstream.raise_provider_error(failure, reply_started=True)
        self.ended = self._source.ended
        return read

    def _check_drip(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._partial_line_since is None:
            self._partial_line_since = now
        elif now - self._partial_line_since > self._silence_s:
            raise UpstreamTimeout(
                f"the upstream sent no whole line for {self._silence_s:g} s", provider=self._upstream.name
            )

    async def _drain(self) -> None:
        """Reads to the end of the body if it arrives at once, so that the connection can be reused."""
        with suppress(TimeoutError, ProviderError):
            async with asyncio.timeout(END_GRACE_S):
                while not self.ended:
                    if not self._take() and not self.ended:
                        await self._source.wait_for_read()


@lru_cache(maxsize=64)
def _media_type(header: bytes) -> str:
    return header.partition(b";")[0].strip().lower().decode("latin-1")
