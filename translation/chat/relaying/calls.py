"""Normalizes tool calls on a relay: well-formed ones pass unchanged, others are repaired so that clients can join them.

Does not know frames or chunks, only the deltas or the message of one choice.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from translation.chat.calls import is_complete_json, list_call_entries
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.representation.json_types import Json
from translation.tools.arguments import strip_code_fence

_WRONG_FIELD_WARNING = "the call is in tool_calls, but a request with functions expects it in function_call"

_OBJECT_STARTS = ("{", "`")
"""First characters of arguments that are a JSON object, with or without a code fence."""


@dataclass(slots=True)
class _Call:
    index: int
    upstream_id: object
    """The upstream's id of the call. Clients get `id`."""
    id: str
    name: str
    texts: list[str] = field(default_factory=list)
    """All pieces of its arguments so far."""
    is_empty: bool = True
    buffered: list[str] | None = None
    """Pieces not sent to the client yet, because they may be JSON in a code fence. `None` if they are sent at once."""


class CallNormalizer:
    """Normalizes the calls of one choice, delta by delta or all in one message.

    Clients find a call by `index` and take its id, type and name from its first entry. Upstreams omit the index or give
    every call the same one, omit ids or use one twice, repeat the name, send arguments as an object, in a code fence or
    as invalid JSON, send one call instead of a list, or send the legacy `function_call`. Unknown keys are kept.
    """

    def __init__(self, rules: CallRules = DEFAULT_RULES, *, legacy: bool) -> None:
        self.warnings: list[Json] = []
        """Entries for `tool_warnings`: complete calls that break a rule."""
        self._rules = rules
        self._legacy_functions = legacy
        """The client sent `functions` and expects `function_call`."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = rules.create_id_allocator()

    def normalize_delta(self, delta: Json) -> bool:
        """Normalizes the calls of a delta in place. Returns whether anything changed.

        Raises ProtocolViolation for `tool_calls` that are no list of calls.
        """
        entries = self._normalize_entries(delta, whole=False)
        if not entries or entries == delta.get("tool_calls"):
            return False
        delta["tool_calls"] = entries
        return True

    def normalize_message(self, message: Json, *, cut: bool) -> None:
        """Normalizes the calls of a whole message in place. `cut` says that the reply was truncated.

        The calls get no index, and unless the message was cut, empty arguments become `{}`.
        """
        entries = self._normalize_entries(message, whole=True)
        for entry in entries:
            del entry["index"]
            function = entry.get("function")
            if function is not None and not cut and not (function.get("arguments") or "").strip():
                function["arguments"] = "{}"
        if entries:
            message["tool_calls"] = entries
            self._collect_warnings(cut=cut)

    def build_last_entries(self, *, cut: bool) -> list[Json]:
        """Returns the entries of `tool_calls` to send at the end of the turn, and collects the warnings.

        They carry arguments that were buffered and, unless the reply was `cut`, `{}` for calls without arguments.
        """
        entries: list[Json] = []
        for call in self._calls:
            text = "" if cut or not call.is_empty else "{}"
            if call.buffered is not None:
                text, call.buffered = strip_code_fence("".join(call.buffered)), None
            call.is_empty = call.is_empty and not text
            if text:
                entries.append({"index": call.index, "function": {"arguments": text}})
        self._collect_warnings(cut=cut)
        return entries

    def _collect_warnings(self, *, cut: bool) -> None:
        if cut:  # the finish reason already shows the client that a call may be incomplete
            return
        for call in self._calls:
            warning = self._rules.build_warning(call.name, strip_code_fence("".join(call.texts)))
            if warning is None and self._legacy_functions:
                warning = {"name": call.name, "why": _WRONG_FIELD_WARNING}
            if warning is not None:
                self.warnings.append(warning)

    def _normalize_entries(self, message: Json, *, whole: bool) -> list[Json]:
        entries: Any = message.get("tool_calls")
        if not entries and isinstance(message.get("function_call"), dict) and not self._legacy_functions:
            entries = [{"type": "function", "function": message.pop("function_call")}]
        listed = list_call_entries(entries) if entries else []
        return [self._normalize_entry(entry, whole=whole) for entry in listed]

    def _normalize_entry(self, entry: Json, *, whole: bool) -> Json:
        body = entry.get("function") if entry.get("type") != "custom" else entry.get("custom")
        if not isinstance(body, dict):
            body = {key: entry[key] for key in ("name", "arguments") if key in entry}
        name = str(body.get("name") or "")
        arguments = body.get("arguments")
        text = (
            arguments if isinstance(arguments, str) else "" if arguments is None else orjson.dumps(arguments).decode()
        )
        call = None if whole else self._find_call(entry, name, text)
        is_new = call is None
        if call is None:
            call = self._start_call(entry, name)
        normalized = {**entry, "index": call.index}
        if is_new or entry.get("id"):
            normalized["id"] = call.id
        if is_new:
            normalized["type"] = entry.get("type") or "function"
        if entry.get("type") == "custom":
            call.is_empty = False
            return normalized
        if text:
            text = _add_whole_arguments(call, text) if whole else _add_arguments(call, text)
        function = {**body, "arguments": text} if "arguments" in body else dict(body)
        if not is_new and name == call.name:
            function.pop("name", None)  # clients join the pieces of a name
        return {**normalized, "function": function}

    def _find_call(self, entry: Json, name: str, text: str) -> _Call | None:
        index = entry.get("index")
        call = self._by_index.get(index) if isinstance(index, int) else self._calls[-1] if self._calls else None
        if call is None:
            return None
        return None if name and _starts_next_call(call, entry, name, text) else call

    def _start_call(self, entry: Json, name: str) -> _Call:
        upstream_id = entry.get("id")
        call = _Call(len(self._calls), upstream_id, self._ids.claim(str(upstream_id or "") or None), name)
        self._calls.append(call)
        if isinstance(index := entry.get("index"), int):
            self._by_index[index] = call
        return call


def _add_whole_arguments(call: _Call, text: str) -> str:
    text = strip_code_fence(text)
    call.texts.append(text)
    return text


def _add_arguments(call: _Call, text: str) -> str:
    """Adds a piece of a call's arguments. Returns the part that can be sent at once."""
    if call.is_empty and text.lstrip().startswith("`"):
        call.buffered = []
    call.texts.append(text)
    call.is_empty = call.is_empty and not text.strip()
    if call.buffered is None:
        return text
    call.buffered.append(text)
    return ""


def _starts_next_call(call: _Call, entry: Json, name: str, text: str) -> bool:
    """Whether an entry that has a name, as the first entry of every call has, starts the call after `call`."""
    if call_id := entry.get("id"):
        return bool(call_id != call.upstream_id) or (text.lstrip().startswith(_OBJECT_STARTS) and _is_complete(call))
    if call.texts:
        return name != call.name or (bool(text) and is_complete_json("".join(call.texts)))
    return name != call.name and not isinstance(entry.get("index"), int)


def _is_complete(call: _Call) -> bool:
    # The cheap check of the last piece comes first: a long call has thousands of pieces to join.
    return bool(call.texts) and call.texts[-1].rstrip().endswith("}") and is_complete_json("".join(call.texts))
