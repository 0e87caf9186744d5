"""The results of checks.

A check that returns has passed. Otherwise it raises:

CheckFailed        a requirement is not met
  UnparsedOutput   the requirement would be met with the setting that the message names
  UncachedPrefix   the upstream computes the prompt of the previous turn again
  TimedOut         the reply did not end in time
Inconclusive       the reply does not show whether the requirement is met
RequestFailed      the gateway replied with an error
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.pages.saved_report import Verdict as Verdict
from translation.representation.json_types import Json

UNSUPPORTED_PARAMETER: Final = "unsupported_parameter"
"""The code of an error that names a parameter which the model's upstream cannot honour."""

BUSY_CODES: Final = frozenset({"rate_limit_exceeded", "upstream_overloaded", "insufficient_quota"})
"""Error codes that say nothing about the model's capabilities."""


class CheckFailed(Exception):
    """A requirement is not met. The message tells the operator which."""


class UnparsedOutput(CheckFailed):
    """The model's text contains markup that was not parsed. The message names the setting that parses it."""


class UncachedPrefix(CheckFailed):
    """A turn of a session did not find the previous turn in the upstream's cache."""


class TimedOut(CheckFailed):
    """A reply did not end before the deadline of its request."""


class Inconclusive(Exception):
    """The model's reply does not show whether the feature works. The message has the reason."""


class RequestFailed(Exception):
    """An error reply, or a response that failed. For the latter, `status` is None: its HTTP status was 200."""

    def __init__(self, status: int | None, error: Json) -> None:
        self.status = status
        self.error = error
        self.code = error.get("code")
        message = str(error.get("message") or "no message")
        code = str(self.code or error.get("type"))
        super().__init__(f"{code if status is None else f'{status} {code}'}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check of one model."""

    check: str
    verdict: Verdict
    detail: str = ""
    losses: tuple[str, ...] = ()
    """The losses that its replies list in `x-gateway-loss`, without duplicates."""
    seconds: float = 0.0
    first_token_s: float | None = None
    """Seconds from the request to the first text or argument of a stream. None if nothing was streamed."""
    request_text: str = ""
    """The last request of a failed check, shortened for people."""
    reply_text: str = ""
    """The reply to that request, shortened too."""
    advice: str = ""
    """The advice for a failed check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The results of all checks of one model."""

    model: str
    provider: str
    provider_type: str
    upstream_model: str
    capabilities: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def failed(self) -> bool:
        return any(finding.verdict == "fail" for finding in self.findings)

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses of all replies, without duplicates."""
        return tuple(dict.fromkeys(loss for finding in self.findings for loss in finding.losses))

    @property
    def first_token_s(self) -> float | None:
        """Seconds to the first token in the check `streaming`."""
        return next((finding.first_token_s for finding in self.findings if finding.check == "streaming"), None)


def require(condition: bool, message: str) -> None:
    """Raises CheckFailed with `message` unless the condition is true."""
    if not condition:
        raise CheckFailed(message)
