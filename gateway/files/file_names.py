"""Names of files: which names clients may give, and how a download states the name. A name is never used as a path."""

import re
import unicodedata
from typing import Final
from urllib.parse import quote

from translation.errors import InvalidRequest

_MAX_CHARS: Final = 255
_SEPARATOR: Final = re.compile(r"[/\\]")
_NO_NAMES: Final = frozenset({"", ".", ".."})

_BIDI_CONTROLS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that reverse the direction of a text, so that `gnp.exe` is displayed as `exe.png`."""

_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, lone surrogates, and separators of lines and paragraphs."""

_PLAIN: Final = re.compile(r"[^A-Za-z0-9 !#$&+.^_`{}|~()@,=\[\]-]")
_EXTENDED_SAFE: Final = "!#$&+-.^_`|~"
"""Characters that RFC 8187 allows without an escape, beside letters and digits."""


def clean_file_name(name: str, param: str) -> str:
    """Returns a name without its folders. Raises InvalidRequest with `param` for one that no file may have."""
    last = _SEPARATOR.split(name)[-1]
    if last in _NO_NAMES:
        raise InvalidRequest(f"Invalid value for '{param}': a file needs a name, such as 'notes.txt'.", param=param)
    if len(last) > _MAX_CHARS:
        raise InvalidRequest(
            f"Invalid value for '{param}': the name of a file has at most {_MAX_CHARS} characters.", param=param
        )
    for character in last:
        if character in _BIDI_CONTROLS or unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise InvalidRequest(
                f"Invalid value for '{param}': the name of the file has the character U+{ord(character):04X}, which "
                "is not visible.",
                param=param,
            )
    return last


def build_disposition(name: str) -> str:
    """Returns the header `content-disposition` of a download (RFC 6266): the exact name, and one for old clients."""
    plain = _PLAIN.sub("_", name)
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe=_EXTENDED_SAFE)}"
