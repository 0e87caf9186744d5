"""Removes credentials of a request from what servers of tools return, whatever its size."""

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from providers.redaction import Redactor
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.outcomes import ToolOutcome


async def redact_outcome(outcome: ToolOutcome, redactor: Redactor) -> ToolOutcome:
    """Returns an outcome that quotes no credentials of the request: it is stored, and the model reads it."""
    output = None if outcome.output is None else await _redact_text(outcome.output, redactor)
    error = None if outcome.error is None else await redact_json(outcome.error, redactor)
    requested = outcome.requested_input
    if requested is not None:
        fields = requested.to_json()
        # The state is the server's own, goes back to it alone, and must not be changed.
        fields["forms"] = await redact_json(fields["forms"], redactor)
        requested = RequestedInput.from_json(fields)
    return replace(outcome, output=output, error=error, requested_input=requested)


async def redact_json(value: Any, redactor: Redactor) -> Any:
    return orjson.loads(await _redact_text(orjson.dumps(value).decode(), redactor))


async def _redact_text(text: str, redactor: Redactor) -> str:
    """Redacts a text of any size, while other requests go on."""
    pieces: list[str] = []
    for piece in redactor.redact_in_steps(text):
        pieces.append(piece)
        await asyncio.sleep(0)
    return "".join(pieces)
