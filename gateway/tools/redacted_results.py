"""Removes credentials of a request and of the operator from results of tools, whatever their size."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import orjson

from providers.redaction import Redactor
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.outcomes import ToolOutcome

_SHORT_CHARS: Final = 4096
"""Longer texts are redacted in steps, between which other requests run."""

_MAX_DEPTH: Final = 64
"""The deepest nesting of arrays and objects that is examined."""


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
        fields = None if outcome.fields is None else await _redact_values(outcome.fields, redactor)
        media = [await _redact_values(part, redactor) for part in outcome.media]
        requested = outcome.requested_input
        if requested is not None:
            request = requested.to_json()
            # The state belongs to the server, is sent only to it, and must not be changed.
            request["forms"] = await _redact_json(request["forms"], redactor)
            requested = RequestedInput.from_json(request)
        redacted = replace(outcome, output=output, error=error, fields=fields, media=media, requested_input=requested)
        before = (outcome.output, outcome.error, outcome.fields, [*outcome.media])
        is_same = before == (output, error, fields, media)
        return redacted if is_same else replace(redacted, notes=(*outcome.notes, "redacted"))

    async def redact_json(self, value: Any) -> Any:
        """Returns a value without credentials."""
        return await _redact_json(value, self.record_tokens())


async def _redact_values(value: Any, redactor: Redactor, depth: int = 0) -> Any:
    """Returns a JSON value with every text in it redacted, but no key. What is nested too deeply is hidden."""
    if isinstance(value, str):
        return redactor.redact(value) if len(value) <= _SHORT_CHARS else await _redact_text(value, redactor)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == _MAX_DEPTH:
        return "[hidden]"
    if isinstance(value, dict):
        return {name: await _redact_values(each, redactor, depth + 1) for name, each in value.items()}
    return [await _redact_values(each, redactor, depth + 1) for each in value]


async def _redact_json(value: Any, redactor: Redactor) -> Any:
    return orjson.loads(await _redact_text(orjson.dumps(value).decode(), redactor))


async def _redact_text(text: str, redactor: Redactor) -> str:
    """Redacts a text of any size, while other requests run."""
    pieces: list[str] = []
    for piece in redactor.redact_in_steps(text):
        pieces.append(piece)
        await asyncio.sleep(0)
    return "".join(pieces)
