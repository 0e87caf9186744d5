"""What a check can come to.

A check that returns has passed. Otherwise it raises:

Wrong        what was promised does not hold
  Misread    it holds once the setting is there that the message names
  TooSlow    nobody knows, because it takes too long
Untold       the reply does not tell whether it holds
Refusal      the gateway answered with an error
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from translation.representation.json_types import Json

Verdict: TypeAlias = Literal["pass", "fail", "refused", "skipped"]

UNSUPPORTED_PARAMETER: Final = "unsupported_parameter"
"""The code of an answer that names a parameter which the model's upstream cannot honour."""

BUSY_CODES: Final = frozenset({"rate_limit_exceeded", "upstream_overloaded", "insufficient_quota"})
"""Codes that say nothing of what a model can do."""


class CheckFailed(Exception):
    """A promise that does not hold. The message says which, for the operator."""


class UnparsedOutput(CheckFailed):
    """What the model wrote was not taken apart. The message names the setting that does."""


class TimedOut(CheckFailed):
    """No end came in the time there is for a request."""


class Inconclusive(Exception):
    """The model did not do what would have shown it. The message says why."""


class ErrorReply(Exception):
    """An error answer, or a response that failed, whose status was a good one: None."""

    def __init__(self, status: int | None, error: Json) -> None:
        self.status = status
        self.error = error
        self.code = error.get("code")
        message = str(error.get("message") or "no message")
        code = str(self.code or error.get("type"))
        super().__init__(f"{code if status is None else f'{status} {code}'}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to for one model."""

    check: str
    verdict: Verdict
    detail: str = ""
    losses: tuple[str, ...] = ()
    """What its replies list in `x-gateway-loss`, each once."""
    seconds: float = 0.0
    first_token_s: float | None = None
    """From the request to the first text or argument of a stream; None where nothing was streamed."""
    asked: str = ""
    """Of a fail: the last request, cut to what a person reads."""
    came: str = ""
    """Of a fail: what came back for it."""
    advice: str = ""
    """Of a fail: what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What all checks came to for one model."""

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
        """What any of its replies lost, each once."""
        return tuple(dict.fromkeys(loss for finding in self.findings for loss in finding.losses))

    @property
    def first_token_s(self) -> float | None:
        """Of the plain stream."""
        return next((finding.first_token_s for finding in self.findings if finding.check == "streaming"), None)


def require(claim: bool, message: str) -> None:
    """Raises Wrong, saying `otherwise`, where a claim does not hold."""
    if not claim:
        raise CheckFailed(message)
