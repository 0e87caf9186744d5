"""What can go wrong while translating.

TranslationError
  InvalidRequest       the client's request is malformed; `param` is the dotted path of the field
    Unrepresentable    the request is well formed, but this upstream or dialect cannot honour it
  ProtocolViolation    the upstream broke its own protocol
"""


class TranslationError(Exception):
    """Root of everything `translation/` raises."""


class InvalidRequest(TranslationError):
    """The request cannot be served as written. `message` says what to write instead."""

    def __init__(self, message: str, *, param: str | None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class Unrepresentable(InvalidRequest):
    """The client asked for something the upstream's dialect has no way to say."""

    def __init__(self, message: str, *, param: str | None) -> None:
        super().__init__(message, param=param, code="unsupported_parameter")


class ProtocolViolation(TranslationError):
    """The upstream sent something that is not its own protocol. The text never holds credentials or URLs."""
