"""Removes credentials of a request and of the operator from results of tools, whatever their size."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson

from providers.redaction import Redactor
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.outcomes import ToolOutcome


class ResultRedactor:
    """Removes credentials from texts of the servers of one response. `credentials` are the constant ones.

    `list_tokens` returns the current tokens, which are fetched when they are first needed and replaced while calls run.
    Every token that was ever recorded is removed, so `record_tokens` is called before each call. The other methods call
    it too.
    """

    def __init__(self, credentials: Iterable[str], list_tokens: Callable[[], Iterable[str]]) -> None:
        self._secrets = frozenset(credentials)
        self._list_tokens = list_tokens
        self._redactor: Redactor | None = None

    def record_tokens(self) -> Redactor:
        """Records the current tokens. Returns the redactor for all credentials so far."""
        tokens = [*self._list_tokens()]
        if self._redactor is None or not self._secrets.issuperset(tokens):
            self._secrets = self._secrets.union(tokens)
            self._redactor = Redactor(self._secrets)
        return self._redactor

    def redact(self, text: str) -> str:
        """Returns a short text without credentials."""
        return self.record_tokens().redact(text)

    def redact_beginning(self, text: str, chars: int) -> str:
        """Returns the first characters of a text without credentials."""
        return self.record_tokens().redact_beginning(text, chars)

    async def redact_outcome(self, outcome: ToolOutcome) -> ToolOutcome:
        """Returns an outcome without credentials, because it is stored and sent to the model."""
        redactor = self.record_tokens()
        output = None if outcome.output is None else await _redact_text(outcome.output, redactor)
        error = None if outcome.error is None else await _redact_json(outcome.error, redactor)
        requested = outcome.requested_input
        if requested is not None:
            fields = requested.to_json()
            # The state belongs to the server, is sent only to it, and must not be changed.
            fields["forms"] = await _redact_json(fields["forms"], redactor)
            requested = RequestedInput.from_json(fields)
        return replace(outcome, output=output, error=error, requested_input=requested)

    async def redact_json(self, value: Any) -> Any:
        """Returns a value without credentials."""
        return await _redact_json(value, self.record_tokens())


async def _redact_json(value: Any, redactor: Redactor) -> Any:
    return orjson.loads(await _redact_text(orjson.dumps(value).decode(), redactor))


async def _redact_text(text: str, redactor: Redactor) -> str:
    """Redacts a text of any size, while other requests run."""
    pieces: list[str] = []
    for piece in redactor.redact_in_steps(text):
        pieces.append(piece)
        await asyncio.sleep(0)
    return "".join(pieces)
