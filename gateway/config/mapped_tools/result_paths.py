"""Paths to one value in JSON, such as `$.results[0].url`: the singular queries of JSONPath (RFC 9535, 2.3.5)."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_STEP: Final = re.compile(
    r"""\.?(?P<name>[^\W\d][\w-]*)|\[(?P<index>-?\d{1,6})\]|\['(?P<single>[^'\\]*)'\]|\["(?P<double>[^"\\]*)"\]"""
)
_ROOT: Final = "$"
_MAX_STEPS: Final = 32


class ResultPath(NamedTuple):
    """A path. `steps` are keys of objects and indexes of lists."""

    text: str
    steps: Sequence[str | int]

    def find(self, value: Any) -> Any:
        """Returns the value at the path; None if there is none."""
        for step in self.steps:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, dict) else None
            elif isinstance(value, list) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        return value


def parse_path(text: str) -> ResultPath:
    """Returns the path that a text describes: `$` is the whole value, and may be left out before a key. Raises
    ValueError."""
    steps: list[str | int] = []
    position = len(_ROOT) if text.startswith(_ROOT) else 0
    has_root = position > 0
    while position < len(text):
        match = _STEP.match(text, position)
        # A dot is between two keys, so a key without one can only begin the path.
        is_separated = match is not None and (
            match["name"] is None or (match[0][0] == ".") == (has_root or position > 0)
        )
        if match is None or not is_separated or len(steps) == _MAX_STEPS:
            raise ValueError(text)
        index = match["index"]
        steps.append(int(index) if index is not None else match["name"] or match["single"] or match["double"] or "")
        position = match.end()
    if not (steps or has_root):
        raise ValueError(text)
    return ResultPath(text, tuple(steps))
