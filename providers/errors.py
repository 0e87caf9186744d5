"""What can go wrong upstream, named by meaning.

ProviderError
  UpstreamUnreachable      no connection, or it broke before the reply began            retryable
  UpstreamTimeout          connected, then silence                                      retryable
  UpstreamBroken           the reply broke off in the middle                            retryable
  UpstreamGarbled          it answered with something that is not its own protocol
  EngineUnavailable        our own engine is starting, or it died and is being started again   retryable
  UpstreamRejected         it answered with an error
    UpstreamRateLimited      429                                                        retryable
    UpstreamOverloaded       503, 529                                                   retryable
    UpstreamUnauthorized     401, 403: our credentials, not the client's
    ContextLengthExceeded    the prompt does not fit the model
    UpstreamModelNotFound    404 for the model
"""

from collections.abc import Mapping


class ProviderError(Exception):
    """Root. The text may be shown to a client only where the gateway's error table says so."""

    retryable = False

    def __init__(self, message: str, *, provider: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider


class UpstreamUnreachable(ProviderError):
    retryable = True


class UpstreamTimeout(ProviderError):
    retryable = True


class UpstreamBroken(ProviderError):
    retryable = True


class UpstreamGarbled(ProviderError):
    pass


class EngineUnavailable(ProviderError):
    """`headers` help the client wait."""

    retryable = True

    def __init__(self, message: str, *, provider: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, provider=provider)
        self.headers = {"retry-after": str(retry_after_s)}


class UpstreamRejected(ProviderError):
    """An error answer. `status` is the upstream's; `code`, `kind` and `param` are its own words, where it has them."""

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
        self.status = status
        self.code = code
        self.kind = kind
        self.param = param
        self.headers = dict(headers or {})
        """Headers that help the client wait: retry-after, retry-after-ms, x-should-retry."""


class UpstreamRateLimited(UpstreamRejected):
    retryable = True


class UpstreamOverloaded(UpstreamRejected):
    retryable = True


class UpstreamUnauthorized(UpstreamRejected):
    pass


class ContextLengthExceeded(UpstreamRejected):
    pass


class UpstreamModelNotFound(UpstreamRejected):
    pass
