"""Tool calls as JSON: `{"name": …, "arguments": {…}}`, or a list of such objects."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import orjson

from translation.parsers.tools.json_value import JsonValue
from translation.parsers.tools.parser_output import Arguments, CallEnded, CallStarted, Said

NOT_JSON: Final = "a call is not valid JSON"

_SPACES: Final = " \t\r\n"
_ARGUMENTS: Final = frozenset({"arguments", "parameters"})
_OF_A_CALL: Final = _ARGUMENTS | {"name", "type", "id"}

_Step: TypeAlias = Callable[[str, int], int]


class CallReader(Protocol):
    """Reads one value that stands for calls."""

    @property
    def whole(self) -> bool:
        """Whether there is no more to read."""
        ...

    @property
    def why(self) -> str:
        """What breaks the value, if anything does: then too there is no more to read."""
        ...

    @property
    def started(self) -> bool:
        """Whether a call was started."""
        ...

    @property
    def between(self) -> bool:
        """Whether the calls so far are whole, though the value is not."""
        ...

    def feed(self, text: str, at: int, said: list[Said]) -> int:
        """Read on from `at`, adding to `said`: where reading stopped, at the latest at the end of the text."""
        ...


class NamedArguments:
    """Reads the arguments of a call whose name was said before them."""

    between = False

    def __init__(self, name: str) -> None:
        self.whole = False
        self.started = False
        self.why = ""
        self._name = name
        self._value = JsonValue()

    def feed(self, text: str, at: int, said: list[Said]) -> int:
        """Read on from `at`, which is a `{` the first time."""
        if not self.started:
            self.started = True
            said.append(CallStarted(self._name))
        at, piece = self._value.feed(text, at)
        if piece:
            said.append(Arguments(piece))
        if self._value.broken:
            self.why = NOT_JSON
        elif self._value.whole:
            self.whole = True
            said.append(CallEnded())
        return at


class CallJson:
    """Reads one value that is a call or a list of calls, and says each part of it as soon as it is certain.

    With `doubtful` the value may be something else: a call starts when there is a name and the arguments have begun,
    and a key that calls do not have breaks the value. Without, a call starts with its name.
    """

    def __init__(self, *, doubtful: bool = False) -> None:
        self.whole = False
        self.why = ""
        self.started = False
        self._doubtful = doubtful
        self._said: list[Said] = []
        self._in_list = False
        self._step: _Step = self._begin
        self._forget()

    @property
    def between(self) -> bool:
        """See CallReader."""
        return self._step == self._after_entry

    @property
    def begun(self) -> bool:
        """Whether there is a name or arguments: it may be a call that is being written."""
        return self.started or bool(self._name) or self._argued

    def _forget(self) -> None:
        self._name = ""
        self._open = False
        self._argued = False
        """Whether the arguments have begun."""
        self._unsaid: list[str] = []
        """What the arguments are so far, as long as there is no name."""
        self._key = ""
        self._value = JsonValue()
        self._captured: list[str] = []

    def feed(self, text: str, at: int, said: list[Said]) -> int:
        """See CallReader."""
        self._said = said
        while at < len(text) and not self.whole and not self.why:
            if text[at] in _SPACES and self._step not in (self._read_key, self._read_value):
                at += 1
            else:
                at = self._step(text, at)
        return at

    def _begin(self, text: str, at: int) -> int:
        if text[at] == "[" and not self._in_list:
            self._in_list = True
            self._step = self._first_entry
        elif text[at] == "{":
            self._forget()
            self._step = self._first_key
        else:
            return self._break(at, "a call is not a JSON object")
        return at + 1

    def _first_entry(self, text: str, at: int) -> int:
        if text[at] == "]":
            return self._break(at, "there is no call in the list")
        return self._begin(text, at)

    def _first_key(self, text: str, at: int) -> int:
        return self._end_call(at) if text[at] == "}" else self._expect_key(text, at)

    def _expect_key(self, text: str, at: int) -> int:
        if text[at] != '"':
            return self._break(at, NOT_JSON)
        self._value, self._captured = JsonValue(), []
        self._step = self._read_key
        return at

    def _read_key(self, text: str, at: int) -> int:
        at = self._capture(text, at)
        if self._value.whole:
            key = _loaded("".join(self._captured))
            if self._doubtful and not self.started and key not in _OF_A_CALL:
                return self._break(at, "the object is no call")
            self._key = str(key)
            self._step = self._expect_colon
        return at

    def _expect_colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            return self._break(at, NOT_JSON)
        self._step = self._begin_value
        return at + 1

    def _begin_value(self, text: str, at: int) -> int:
        self._value, self._captured = JsonValue(), []
        self._step = self._read_value
        if self._key in _ARGUMENTS and not self._argued:
            self._key = "arguments"
            if text[at] == "{":
                self._key = "arguments object"
                self._argued = True
                self._start()
        elif self._key != "name" or self._name:
            self._key = ""
        return at

    def _read_value(self, text: str, at: int) -> int:
        if self._key == "arguments object":
            at, piece = self._value.feed(text, at)
            self._argue(piece)
        elif self._key:
            at = self._capture(text, at)
        else:
            at, _ = self._value.feed(text, at)
        if self._value.broken:
            return self._break(at, NOT_JSON)
        if self._value.whole:
            self._step = self._after_value
            if self._key == "name":
                return self._take_name(at)
            if self._key == "arguments":
                return self._take_arguments(at)
        return at

    def _capture(self, text: str, at: int) -> int:
        at, piece = self._value.feed(text, at)
        self._captured.append(piece)
        if self._value.broken:
            return self._break(at, NOT_JSON)
        return at

    def _take_name(self, at: int) -> int:
        name = _loaded("".join(self._captured))
        if not isinstance(name, str) or not name.strip():
            return self._break(at, "a call's name is not a string")
        self._name = name
        if self._argued or not self._doubtful or self.started:
            self._start()
        return at

    def _take_arguments(self, at: int) -> int:
        """Arguments that do not come as an object: nothing, or an object in a string."""
        arguments = _loaded("".join(self._captured))
        if arguments is None or arguments == "":
            return at
        if not isinstance(arguments, str) or not isinstance(_loaded(arguments), dict):
            return self._break(at, "a call's arguments are not an object")
        self._argued = True
        self._start()
        self._argue(arguments)
        return at

    def _after_value(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._expect_key
                return at + 1
            case "}":
                return self._end_call(at)
            case _:
                return self._break(at, NOT_JSON)

    def _end_call(self, at: int) -> int:
        if not self._name:
            return self._break(at + 1, "a call has no name")
        self._start()
        if not self._argued:
            self._argue("{}")
        self._said.append(CallEnded())
        self._open = False
        if self._in_list:
            self._step = self._after_entry
        else:
            self.whole = True
        return at + 1

    def _after_entry(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._begin
            case "]":
                self.whole = True
            case _:
                return self._break(at, "a list of calls is not valid JSON")
        return at + 1

    def _start(self) -> None:
        if self._name and not self._open:
            self._open = self.started = True
            self._said.append(CallStarted(self._name))
            if self._unsaid:
                self._said.append(Arguments("".join(self._unsaid)))

    def _argue(self, piece: str) -> None:
        if not piece:
            return
        if self._open:
            self._said.append(Arguments(piece))
        else:
            self._unsaid.append(piece)

    def _break(self, at: int, why: str) -> int:
        self.why = why
        return at


def _loaded(text: str) -> object:
    """What JSON text says; an object of no kind where it is none, or too deep."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return object()
