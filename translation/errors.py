"""The errors that `translation/` raises.

TranslationError
  InvalidRequest       the client's request is malformed; `param` is the dotted path of the field
    Unrepresentable    the request is well formed, but this upstream or dialect cannot honour it
  ProtocolViolation    the upstream broke its own protocol
"""


class TranslationError(Exception):
    """The base class of the errors that `translation/` raises."""


class InvalidRequest(TranslationError):
    """The request cannot be served as written. `message` tells the client what to change.

    `param` is the dotted path of the field, or None for the whole body. `code` is the error code of the OpenAI API.
    """

    def __init__(self, message: str, *, param: str | None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class Unrepresentable(InvalidRequest):
    """The client asked for something that the upstream's dialect cannot express.

    The code is `unsupported_parameter`.
    """

    def __init__(self, message: str, *, param: str | None) -> None:
        super().__init__(message, param=param, code="unsupported_parameter")


class ProtocolViolation(TranslationError):
    """The upstream broke its own protocol. The message never contains credentials or URLs."""
