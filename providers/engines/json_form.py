"""Whether an engine that was asked for JSON writes JSON."""

import json
from typing import Final

from providers.engines.base import EngineDelta, OutputConstraint

_JSON_FIRST_CHARACTERS: Final = frozenset('{["-0123456789tfn')


class JsonOutputCheck:
    """Reads along. llama.cpp goes on without any form where it cannot compile one, and tells its log alone."""

    def __init__(self, guide: OutputConstraint | None) -> None:
        self._is_active = guide is not None and (guide.json_schema is not None or guide.json_object)
        self._suffix = guide.suffix.strip() if guide is not None else ""
        self._text = ""
        self._has_started = False

    def is_violated_by(self, piece: EngineDelta) -> bool:
        """Whether the text up to and with this piece cannot be what the guide asks for.

        Text that was cut off, by a limit or a stop string, may end anywhere.
        """
        if not self._is_active:
            return False
        self._text += piece.text
        if not self._has_started and (stripped := self._text.lstrip()):
            self._has_started = True
            if stripped[0] not in _JSON_FIRST_CHARACTERS:
                return True
        return piece.finish_reason == "stop" and piece.stop_string is None and not self._is_complete()

    def _is_complete(self) -> bool:
        text = self._text.strip()
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            return True  # deeper than can be read here, which is no fault of the engine's
        except ValueError:
            return False
        return self._suffix.startswith(text[end:].strip())
