"""Whether an engine that was asked for JSON writes JSON."""

import json
from typing import Final

from providers.engines.base import Guide, Piece

_BEGINNINGS: Final = frozenset('{["-0123456789tfn')


class KeptForm:
    """Reads along. llama.cpp goes on without any form where it cannot compile one, and tells its log alone."""

    def __init__(self, guide: Guide | None) -> None:
        self._reads = guide is not None and (guide.json_schema is not None or guide.json_object)
        self._after = guide.after.strip() if guide is not None else ""
        self._text = ""
        self._begun = False

    def broken_by(self, piece: Piece) -> bool:
        """Whether the text up to and with this piece cannot be what the guide asks for.

        Text that was cut off, by a limit or a stop string, may end anywhere.
        """
        if not self._reads:
            return False
        self._text += piece.text
        if not self._begun and (begun := self._text.lstrip()):
            self._begun = True
            if begun[0] not in _BEGINNINGS:
                return True
        return piece.finish == "stop" and piece.stop is None and not self._is_whole()

    def _is_whole(self) -> bool:
        text = self._text.strip()
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            return True  # deeper than can be read here, which is no fault of the engine's
        except ValueError:
            return False
        return self._after.startswith(text[end:].strip())
