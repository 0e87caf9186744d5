"""Checks the headers that somebody other than the operator has the gateway send to an MCP server."""

import re
from collections.abc import Mapping
from typing import Final

from translation.errors import InvalidRequest

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONNECTION_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers by which a client could have the gateway send another request than its own."""


def check_headers(headers: Mapping[str, str], param: str) -> None:
    """Raises InvalidRequest for headers that cannot be sent, or that say how the request itself is sent."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest(f"{name[:100]!r} is not the name of a header", param=param)
        if name.lower() in _CONNECTION_HEADERS or name.lower().startswith("proxy-"):
            raise InvalidRequest(f"the header {name!r} cannot be set: the gateway sets it", param=param)
        if not (value.isascii() and value.isprintable()):
            raise InvalidRequest(f"the value of the header {name!r} must be printable ASCII text", param=param)
