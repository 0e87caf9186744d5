"""Requests to the scripted upstream, as tests examine them."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Request:
    """One recorded request.

    `headers` have lower-case names; `path` includes the query. `closed` is done once the connection that carried the
    request has ended, whoever ended it, with the monotonic time at which it did.
    """

    method: str
    path: str
    headers: dict[str, str]
    content: bytes
    received_at: float
    closed: asyncio.Future[float]

    @property
    def json(self) -> Any:
        """The body, parsed; raises ValueError when it is not JSON."""
        return json.loads(self.content)

    @property
    def model(self) -> str:
        """The requested model: that of the body, or else that of the path."""
        named: str = self.json.get("model") or self.path.partition("/models/")[2].partition(":")[0]
        return named

    @property
    def streams(self) -> bool:
        """Whether the body or the path requests a stream."""
        return bool(self.content) and (self.json.get("stream") is True or ":streamGenerateContent" in self.path)
