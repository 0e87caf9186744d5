"""Freeform input out of the function arguments it rides in: `{"input": "…"}`, cut anywhere, well formed or not."""

import re
from enum import Enum, auto

import orjson

_COMPACT_HEAD = '{"input":"'
_HEAD_PATTERN = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_SPACE = re.compile(r"[ \t\r\n]+")

_HIGH_SURROGATE = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW_SURROGATE = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_STRING_PIECE = re.compile(rf'[^"\\]+|{_HIGH_SURROGATE}{_LOW_SURROGATE}|\\u[0-9a-fA-F]{{4}}|\\u|\\[^u]', re.DOTALL)
_INCOMPLETE_ESCAPE = re.compile(rf"(?:{_HIGH_SURROGATE})?\\(?:u[0-9a-fA-F]{{0,3}})?|{_HIGH_SURROGATE}")
"""What may become a longer escape with the next fragment."""

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Mode(Enum):
    OPENING = auto()  # what came so far is a beginning of the wrapping
    STRING = auto()  # inside the string
    TAIL = auto()  # after a quote that should be the closing one
    OBJECT = auto()  # some other JSON object, perhaps with `input` further on
    RAW = auto()  # no wrapping at all


class FreeformUnwrapper:
    """Fragments of the arguments in with `feed`, the input they hold out; `finish` gives what was held back.

    A model that writes its input raw, without the wrapping, gets it back as it wrote it. One that forgets to escape a
    quote keeps everything up to the closing of the object: a program must never run cut short at its first string.
    """

    def __init__(self) -> None:
        self._mode = _Mode.OPENING
        self._held: list[str] = []
        self._compact = ""

    def feed(self, fragment: str) -> str:
        match self._mode:
            case _Mode.STRING:
                return self._read_string(fragment)
            case _Mode.RAW:
                return fragment
            case _Mode.OPENING:
                return self._detect_wrapping(fragment)
            case _:
                self._held.append(fragment)
                return ""

    def finish(self) -> str:
        """The arguments are complete. A cut escape at the very end is dropped: it names no character."""
        held = "".join(self._held)
        self._held.clear()
        match self._mode:
            case _Mode.TAIL if _is_json('{"input":"' + held):
                return ""
            case _Mode.TAIL:
                return _unescape(_without_closing(held))
            case _Mode.OBJECT:
                return _input_of(held)
            case _Mode.OPENING:
                return held
            case _:
                return ""

    def _detect_wrapping(self, fragment: str) -> str:
        self._held.append(fragment)
        self._compact += _SPACE.sub("", fragment)
        if len(self._compact) < len(_COMPACT_HEAD) and _COMPACT_HEAD.startswith(self._compact):
            return ""
        text = "".join(self._held)
        self._held.clear()
        if opening := _HEAD_PATTERN.match(text):
            self._mode = _Mode.STRING
            return self._read_string(text[opening.end() :])
        if self._compact.startswith("{"):
            self._mode = _Mode.OBJECT
            self._held.append(text)
            return ""
        self._mode = _Mode.RAW
        return text

    def _read_string(self, fragment: str) -> str:
        text = "".join(self._held) + fragment
        self._held.clear()
        pieces: list[str] = []
        at = 0
        while at < len(text):
            if text[at] == '"':
                self._mode = _Mode.TAIL
                self._held.append(text[at:])
                break
            if text[at] == "\\" and _INCOMPLETE_ESCAPE.fullmatch(text, at):
                self._held.append(text[at:])
                break
            piece = _STRING_PIECE.match(text, at)
            assert piece is not None  # the pattern covers every character but the quote
            pieces.append(_decode_character(piece[0]))
            at = piece.end()
        return "".join(pieces)


def unwrap_input(arguments: str) -> str:
    """The input inside complete arguments."""
    unwrapper = FreeformUnwrapper()
    return unwrapper.feed(arguments) + unwrapper.finish()


def wrap_input(text: str) -> str:
    """Arguments that hold this input."""
    return orjson.dumps({"input": text}).decode()


def _decode_character(piece: str) -> str:
    if piece[0] != "\\":
        return piece
    if len(piece) == 12:
        high, low = int(piece[2:6], 16), int(piece[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(piece) == 6:
        code = int(piece[2:], 16)
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    # An escape JSON does not know is a backslash somebody forgot to double: keep both characters.
    return _ESCAPES.get(piece[1], piece)


def _without_closing(text: str) -> str:
    closed = text.rstrip().removesuffix("}").rstrip()
    return closed[:-1] if closed.endswith('"') else text


def _unescape(text: str) -> str:
    return "".join(_decode_character(piece[0]) for piece in re.finditer(rf'{_STRING_PIECE.pattern}|"', text, re.DOTALL))


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _input_of(text: str) -> str:
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    found = arguments.get("input")
    return found if isinstance(found, str) else text
