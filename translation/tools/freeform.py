"""Reads freeform input from function arguments, `{"input": "…"}`, incrementally, even if they are malformed."""

import re
from enum import Enum, auto

import orjson

_COMPACT_HEAD = '{"input":"'
_HEAD_PATTERN = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_SPACE = re.compile(r"[ \t\r\n]+")

_HIGH_SURROGATE = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW_SURROGATE = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_STRING_PIECE = re.compile(rf'[^"\\]+|{_HIGH_SURROGATE}{_LOW_SURROGATE}|\\u[0-9a-fA-F]{{4}}|\\u|\\[^u]', re.DOTALL)
_STRING_TOKEN = re.compile(rf'{_STRING_PIECE.pattern}|"|\\', re.DOTALL)
"""A piece of a string, the quote that may end it, or a backslash that nothing follows: every text consists of them."""
_INCOMPLETE_ESCAPE = re.compile(rf"(?:{_HIGH_SURROGATE})?\\(?:u[0-9a-fA-F]{{0,3}})?|{_HIGH_SURROGATE}")
"""An escape that may go on in the next fragment."""

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Mode(Enum):
    OPENING = auto()  # the text so far may be the beginning of `{"input": "`
    STRING = auto()  # inside the string
    TAIL = auto()  # after a quote that may be the closing one
    OBJECT = auto()  # another JSON object, which may have `input` further on
    RAW = auto()  # input without the JSON around it


class FreeformUnwrapper:
    """Reads the input from fragments of the arguments: `feed` per fragment, `finish` after the last.

    Input that the model writes without the JSON around it is returned unchanged. After a quote that the model did not
    escape the input goes on to the end of the object, because a program must not be cut off at its first string.
    """

    def __init__(self) -> None:
        self._mode = _Mode.OPENING
        self._pending: list[str] = []
        self._compact = ""

    def feed(self, fragment: str) -> str:
        """Adds a fragment. Returns the input that it completes, possibly nothing."""
        match self._mode:
            case _Mode.STRING:
                return self._read_string(fragment)
            case _Mode.RAW:
                return fragment
            case _Mode.OPENING:
                return self._detect_wrapping(fragment)
            case _:
                self._pending.append(fragment)
                return ""

    def finish(self) -> str:
        """Ends the arguments. Returns the input that was held back.

        An incomplete escape at the end is dropped, because it represents no character.
        """
        pending = "".join(self._pending)
        self._pending.clear()
        match self._mode:
            case _Mode.TAIL if _is_json('{"input":"' + pending):
                return ""
            case _Mode.TAIL:
                return _unescape(_without_closing(pending))
            case _Mode.OBJECT:
                return _input_of(pending)
            case _Mode.OPENING:
                return pending
            case _:
                return ""

    def _detect_wrapping(self, fragment: str) -> str:
        self._pending.append(fragment)
        self._compact += _SPACE.sub("", fragment)
        if len(self._compact) < len(_COMPACT_HEAD) and _COMPACT_HEAD.startswith(self._compact):
            return ""
        text = "".join(self._pending)
        self._pending.clear()
        if opening := _HEAD_PATTERN.match(text):
            self._mode = _Mode.STRING
            return self._read_string(text[opening.end() :])
        if self._compact.startswith("{"):
            self._mode = _Mode.OBJECT
            self._pending.append(text)
            return ""
        self._mode = _Mode.RAW
        return text

    def _read_string(self, fragment: str) -> str:
        text = "".join(self._pending) + fragment
        self._pending.clear()
        pieces: list[str] = []
        for token in _STRING_TOKEN.finditer(text):
            if token[0] == '"':
                self._mode = _Mode.TAIL
                self._pending.append(text[token.start() :])
                break
            if token[0][0] == "\\" and _INCOMPLETE_ESCAPE.fullmatch(text, token.start()):
                self._pending.append(text[token.start() :])
                break
            pieces.append(_decode_character(token[0]))
        return "".join(pieces)


def unwrap_input(arguments: str) -> str:
    """Returns the input in complete arguments."""
    unwrapper = FreeformUnwrapper()
    return unwrapper.feed(arguments) + unwrapper.finish()


def wrap_input(text: str) -> str:
    """Returns the arguments that contain this input."""
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
    # An escape that JSON does not know is a backslash that the model forgot to double: keep both characters.
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
    value = arguments.get("input")
    return value if isinstance(value, str) else text
