"""Errors of upstreams and engines, named by meaning. The gateway's error table decides what clients see.

ProviderError
  UpstreamUnreachable      no connection, or it broke before the reply began
  UpstreamTimeout          connected, but nothing was received in time
  UpstreamBroken           the reply broke off in the middle
  UpstreamGarbled          the reply does not follow the upstream's protocol
  EngineUnavailable        an embedded engine is starting or restarting
  UpstreamRejected         the upstream replied with an error
    UpstreamRateLimited      status 429
    UpstreamOverloaded       status 503 or 529
      ConnectionsExhausted     the gateway has no free connection to the upstream
    UpstreamUnauthorized     status 401 or 403: the gateway's credentials, not the client's
    ContextLengthExceeded    the prompt does not fit into the model's context
    UpstreamModelNotFound    status 404 for the model
"""

import re
from collections.abc import Callable, Mapping
from typing import Any


class ProviderError(Exception):
    """The root of the hierarchy. Clients see `message` only if the gateway's error table allows it."""

    def __init__(self, message: str, *, provider: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider


class UpstreamUnreachable(ProviderError):
    """`was_sent`: the request was sent, or a part of it, so that the upstream may have begun it."""

    def __init__(self, message: str, *, provider: str = "", was_sent: bool = False) -> None:
        super().__init__(message, provider=provider)
        self.was_sent = was_sent


class UpstreamTimeout(ProviderError):
    pass


class UpstreamBroken(ProviderError):
    pass


class UpstreamGarbled(ProviderError):
    pass


class EngineUnavailable(ProviderError):
    """An embedded engine is starting or restarting. `headers` say when the client should retry."""

    def __init__(self, message: str, *, provider: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, provider=provider)
        self.headers = {"retry-after": str(retry_after_s)}


class UpstreamRejected(ProviderError):
    """The upstream replied with an error. `status` is the upstream's; so are `code`, `kind` (the error's type) and
    `param`, if the upstream sent them."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int = 500,
        code: str | None = None,
        kind: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, provider=provider)
        self.details: Mapping[str, Any] | None = None
        """The `details` of the upstream's error, an object by which clients of the Messages API recover."""
        self.status = status
        self.code = code
        self.kind = kind
        self.param = param
        self.headers = dict(headers or {})
        """Headers that say when the client should retry: retry-after, retry-after-ms, x-should-retry. A relay may add
        others."""
        self.raw_headers: Mapping[bytes, bytes] = {}
        """All headers of the upstream's reply, by their names in lower case."""

    def redact(self, scrub: Callable[[str], str]) -> None:
        """Redacts the texts of the upstream: the message, the code, the type and the parameter."""
        self.message = scrub(self.message)
        self.args = (self.message,)
        self.code, self.kind, self.param = (value and scrub(value) for value in (self.code, self.kind, self.param))


class UpstreamRateLimited(UpstreamRejected):
    pass


class UpstreamOverloaded(UpstreamRejected):
    pass


class ConnectionsExhausted(UpstreamOverloaded):
    """All connections that the gateway may have to the upstream are in use, so nothing was sent."""


class UpstreamUnauthorized(UpstreamRejected):
    pass


class ContextLengthExceeded(UpstreamRejected):
    """`param` is the upstream's name of what is too long. The gateway replaces it by the client's."""

    def name_window(self, window: int) -> None:
        """Adds the size of the context window in tokens to the message, unless it is in there."""
        if str(window) not in re.findall(r"\d+", self.message.replace(",", "")):
            self.message = f"{self.message.rstrip(' .')}: the model's context is {window} tokens"
            self.args = (self.message,)


class UpstreamModelNotFound(UpstreamRejected):
    pass
