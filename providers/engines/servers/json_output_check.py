"""Checks that an engine writes JSON where its constraint requires JSON."""

import json
from typing import Final

from providers.engines.base import EngineDelta, OutputConstraint

_JSON_FIRST_CHARACTERS: Final = frozenset('{["-0123456789tfn')


class JsonOutputCheck:
    """Checks the deltas of one answer. It is needed because llama.cpp generates without a constraint if it cannot
    compile the constraint, and only its log says so."""

    def __init__(self, constraint: OutputConstraint | None) -> None:
        self._is_active = constraint is not None and (constraint.json_schema is not None or constraint.json_object)
        self._suffix = constraint.suffix.strip() if constraint is not None else ""
        self._text = ""
        self._has_started = False

    def is_violated_by(self, delta: EngineDelta) -> bool:
        """Adds a delta. Returns whether the text so far cannot be JSON as the constraint requires.

        Text that was cut off by a limit or a stop string may end anywhere.
        """
        if not self._is_active:
            return False
        self._text += delta.text
        if not self._has_started and (stripped := self._text.lstrip()):
            self._has_started = True
            if stripped[0] not in _JSON_FIRST_CHARACTERS:
                return True
        return delta.finish_reason == "stop" and delta.stop_string is None and not self._is_complete()

    def _is_complete(self) -> bool:
        text = self._text.strip()
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            return True  # too deep for this parser, which is not the engine's fault
        except ValueError:
            return False
        return self._suffix.startswith(text[end:].strip())
