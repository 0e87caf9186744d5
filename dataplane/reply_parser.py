"""Parses the replies of one connection to an upstream, and knows the head and the end of the current one."""

from collections.abc import Callable, Mapping

import httptools

from dataplane.core import Receiver


class ReplyParser:
    """The replies of one connection, one after the other. Call `expect_reply` with each request.

    `on_body` is called with each piece of a body, and `receiver` with the borders of its chunks.
    """

    __slots__ = (
        "_ends_with_connection",
        "has_begun",
        "head_is_complete",
        "header_of",
        "headers",
        "is_complete",
        "is_expected",
        "is_reused",
        "keeps_alive",
        "on_body",
        "on_chunk_complete",
        "on_chunk_header",
        "parser",
        "status",
    )

    def __init__(self, receiver: Receiver, on_body: Callable[[bytes], None]) -> None:
        # The parser calls them for every chunk, and further methods would cost more.
        self.on_body = on_body
        self.on_chunk_header = receiver.on_chunk_header
        self.on_chunk_complete = receiver.on_chunk_complete
        self.status = 0
        """The status of the reply."""
        self.headers: list[tuple[bytes, bytes]] = []
        """The headers of the reply in order, with lower-case names."""
        self.header_of: Mapping[bytes, bytes] = {}
        """The same headers by name. Of several with one name, it has the last."""
        self.has_begun = False
        self.head_is_complete = False
        self.is_complete = False
        """Whether the end of the reply has arrived."""
        self.is_expected = False
        """Whether a request was sent whose reply has not ended."""
        self.is_reused = False
        """Whether the connection has received a reply before this one."""
        self.keeps_alive = True
        """Whether another request may follow the reply."""
        self._ends_with_connection = False
        self.parser = httptools.HttpResponseParser(self)
        """It is fed with the bytes of the connection."""

    def expect_reply(self) -> None:
        """Forgets the reply before, if there was one."""
        if self.head_is_complete:
            self.is_reused = True
            self.headers = []
            self.has_begun = self.head_is_complete = self.is_complete = self._ends_with_connection = False
        self.is_expected = True
        self.keeps_alive = True

    def complete_at_close(self) -> None:
        """Completes a reply without a length, because the server closed the connection."""
        if self.head_is_complete and self._ends_with_connection:
            self.is_complete = True

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise httptools.HttpParserError("the server sent a second reply")
        self.has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self.header_of = names = dict(self.headers)
        self._ends_with_connection = b"content-length" not in names and b"transfer-encoding" not in names
        self.head_is_complete = True

    def on_message_complete(self) -> None:
        if not self.head_is_complete:
            return
        self.is_complete = True
        self.is_expected = False
        self.keeps_alive = self.parser.should_keep_alive() and not self._ends_with_connection
