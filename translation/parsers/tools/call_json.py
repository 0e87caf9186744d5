"""Readers of tool calls as JSON: `{"name": …, "arguments": {…}}`, or a list of such objects."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import orjson

from translation.parsers.tools.json_value import JsonValueReader
from translation.parsers.tools.parser_output import CallArguments, CallEnded, CallStarted, ParserOutput

NOT_JSON_FAULT: Final = "a call is not valid JSON"

_SPACES: Final = " \t\r\n"
_ARGUMENT_KEYS: Final = frozenset({"arguments", "parameters"})
_CALL_KEYS: Final = _ARGUMENT_KEYS | {"name", "type", "id"}

_Step: TypeAlias = Callable[[str, int], int]


class CallValueReader(Protocol):
    """Reads one value that holds one or more calls."""

    @property
    def is_complete(self) -> bool:
        """Whether the value is complete. Nothing more is read then."""
        ...

    @property
    def fault(self) -> str:
        """The reason why the value is invalid, or an empty text. Nothing more is read of an invalid value."""
        ...

    @property
    def has_started_call(self) -> bool:
        """Whether a call was started."""
        ...

    @property
    def is_between_calls(self) -> bool:
        """Whether all calls so far are complete, although the value is not."""
        ...

    def feed(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """Reads on from the index `at` and appends to `output`. Returns the index where reading stopped."""
        ...


class NamedArgumentsReader:
    """Reads the arguments of a call whose name is already known."""

    is_between_calls = False

    def __init__(self, name: str) -> None:
        self.is_complete = False
        self.has_started_call = False
        self.fault = ""
        self._name = name
        self._value = JsonValueReader()

    def feed(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """See CallValueReader. The first call must begin at a `{`."""
        if not self.has_started_call:
            self.has_started_call = True
            output.append(CallStarted(self._name))
        at, piece = self._value.feed(text, at)
        if piece:
            output.append(CallArguments(piece))
        if self._value.is_broken:
            self.fault = NOT_JSON_FAULT
        elif self._value.is_complete:
            self.is_complete = True
            output.append(CallEnded())
        return at


class JsonCallReader:
    """Reads one value that is a call or a list of calls. It emits each part of a call as soon as it is certain.

    With `tentative` the value may be something else: a call starts when its name is known and its arguments have begun,
    and a key that calls do not have makes the value invalid. Without, a call starts with its name.
    """

    def __init__(self, *, tentative: bool = False) -> None:
        self.is_complete = False
        self.fault = ""
        self.has_started_call = False
        self._tentative = tentative
        self._output: list[ParserOutput] = []
        self._in_list = False
        self._step: _Step = self._read_start
        self._reset_call()

    @property
    def is_between_calls(self) -> bool:
        """See CallValueReader."""
        return self._step == self._read_after_entry

    @property
    def may_be_call(self) -> bool:
        """Whether a name or arguments were read, so that the value may be an incomplete call."""
        return self.has_started_call or bool(self._name) or self._has_arguments

    def _reset_call(self) -> None:
        self._name = ""
        self._call_open = False
        self._has_arguments = False
        """Whether the arguments have begun."""
        self._early_arguments: list[str] = []
        """The arguments so far, as long as the name is not known."""
        self._key = ""
        self._value = JsonValueReader()
        self._captured: list[str] = []

    def feed(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """See CallValueReader."""
        self._output = output
        while at < len(text) and not self.is_complete and not self.fault:
            if text[at] in _SPACES and self._step not in (self._read_key, self._read_value):
                at += 1
            else:
                at = self._step(text, at)
        return at

    def _read_start(self, text: str, at: int) -> int:
        if text[at] == "[" and not self._in_list:
            self._in_list = True
            self._step = self._read_first_entry
        elif text[at] == "{":
            self._reset_call()
            self._step = self._read_first_key
        else:
            return self._set_fault(at, "a call is not a JSON object")
        return at + 1

    def _read_first_entry(self, text: str, at: int) -> int:
        if text[at] == "]":
            return self._set_fault(at, "there is no call in the list")
        return self._read_start(text, at)

    def _read_first_key(self, text: str, at: int) -> int:
        return self._end_call(at) if text[at] == "}" else self._expect_key(text, at)

    def _expect_key(self, text: str, at: int) -> int:
        if text[at] != '"':
            return self._set_fault(at, NOT_JSON_FAULT)
        self._value, self._captured = JsonValueReader(), []
        self._step = self._read_key
        return at

    def _read_key(self, text: str, at: int) -> int:
        at = self._capture(text, at)
        if self._value.is_complete:
            key = _parse_json("".join(self._captured))
            if self._tentative and not self.has_started_call and key not in _CALL_KEYS:
                return self._set_fault(at, "the object is not a call")
            self._key = str(key)
            self._step = self._expect_colon
        return at

    def _expect_colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            return self._set_fault(at, NOT_JSON_FAULT)
        self._step = self._begin_value
        return at + 1

    def _begin_value(self, text: str, at: int) -> int:
        self._value, self._captured = JsonValueReader(), []
        self._step = self._read_value
        if self._key in _ARGUMENT_KEYS and not self._has_arguments:
            self._key = "arguments"
            if text[at] == "{":
                self._key = "arguments object"
                self._has_arguments = True
                self._emit_start()
        elif self._key != "name" or self._name:
            self._key = ""
        return at

    def _read_value(self, text: str, at: int) -> int:
        if self._key == "arguments object":
            at, piece = self._value.feed(text, at)
            self._emit_arguments(piece)
        elif self._key:
            at = self._capture(text, at)
        else:
            at, _ = self._value.feed(text, at)
        if self._value.is_broken:
            return self._set_fault(at, NOT_JSON_FAULT)
        if self._value.is_complete:
            self._step = self._read_after_value
            if self._key == "name":
                return self._accept_name(at)
            if self._key == "arguments":
                return self._accept_arguments(at)
        return at

    def _capture(self, text: str, at: int) -> int:
        at, piece = self._value.feed(text, at)
        self._captured.append(piece)
        if self._value.is_broken:
            return self._set_fault(at, NOT_JSON_FAULT)
        return at

    def _accept_name(self, at: int) -> int:
        name = _parse_json("".join(self._captured))
        if not isinstance(name, str) or not name.strip():
            return self._set_fault(at, "a call's name is not a string")
        self._name = name
        if self._has_arguments or not self._tentative or self.has_started_call:
            self._emit_start()
        return at

    def _accept_arguments(self, at: int) -> int:
        """Reads arguments that are not written as an object: null, an empty string, or an object in a string."""
        arguments = _parse_json("".join(self._captured))
        if arguments is None or arguments == "":
            return at
        if not isinstance(arguments, str) or not isinstance(_parse_json(arguments), dict):
            return self._set_fault(at, "a call's arguments are not an object")
        self._has_arguments = True
        self._emit_start()
        self._emit_arguments(arguments)
        return at

    def _read_after_value(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._expect_key
                return at + 1
            case "}":
                return self._end_call(at)
            case _:
                return self._set_fault(at, NOT_JSON_FAULT)

    def _end_call(self, at: int) -> int:
        if not self._name:
            return self._set_fault(at + 1, "a call has no name")
        self._emit_start()
        if not self._has_arguments:
            self._emit_arguments("{}")
        self._output.append(CallEnded())
        self._call_open = False
        if self._in_list:
            self._step = self._read_after_entry
        else:
            self.is_complete = True
        return at + 1

    def _read_after_entry(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._read_start
            case "]":
                self.is_complete = True
            case _:
                return self._set_fault(at, "a list of calls is not valid JSON")
        return at + 1

    def _emit_start(self) -> None:
        if self._name and not self._call_open:
            self._call_open = self.has_started_call = True
            self._output.append(CallStarted(self._name))
            if self._early_arguments:
                self._output.append(CallArguments("".join(self._early_arguments)))

    def _emit_arguments(self, piece: str) -> None:
        if not piece:
            return
        if self._call_open:
            self._output.append(CallArguments(piece))
        else:
            self._early_arguments.append(piece)

    def _set_fault(self, at: int, fault: str) -> int:
        self.fault = fault
        return at


def _parse_json(text: str) -> object:
    """Returns the parsed JSON, or a bare `object()` if the text is not JSON or nested too deep."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return object()
