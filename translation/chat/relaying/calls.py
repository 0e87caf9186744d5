"""Normalizes tool calls on a relay: well-formed ones pass unchanged, others are repaired so that clients can join them.

Does not know frames or chunks, only the deltas or the message of one choice.
"""

from typing import Any

import orjson

from translation.chat.call_entries import are_complete, list_call_entries, parse_call_entry, repeats_arguments
from translation.chat.final_message import KnownCall, find_missing_calls
from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules, ReplyCallTracker, TrackedCall
from translation.representation.json_types import Json
from translation.tools.arguments import strip_code_fence
from translation.tools.call_ids import check_call_count

_WRONG_FIELD_WARNING = "the call is in tool_calls, but a request with functions expects it in function_call"

_OBJECT_STARTS = ("{", "`")
"""First characters of arguments that are a JSON object, with or without a code fence."""


class CallNormalizer:
    """Normalizes the calls of one choice, delta by delta or all in one message.

    Clients find a call by `index` and take its id, type and name from its first entry. Upstreams omit the index or give
    every call the same one, omit ids or use one twice, repeat the name, send arguments as an object, in a code fence or
    as invalid JSON, send one call instead of a list, or send the legacy `function_call`. Unknown keys are kept.
    """

    def __init__(self, rules: CallRules = DEFAULT_RULES, *, legacy: bool) -> None:
        self._tracker = ReplyCallTracker(rules)
        self.warnings = self._tracker.warnings
        """Entries for `tool_warnings`: complete calls that break a rule."""
        self._legacy_functions = legacy
        """The client sent `functions` and expects `function_call`."""
        self._calls: list[TrackedCall] = []
        """The calls. Their positions are the indexes that the client gets."""
        self._positions: dict[int, int] = {}
        """The upstream's index of a call -> its position."""

    def normalize_delta(self, delta: Json) -> bool:
        """Normalizes the calls of a delta in place. Returns whether anything changed.

        Raises ProtocolViolation for `tool_calls` that are no list of calls.
        """
        listed, legacy = delta.get("tool_calls"), delta.get("function_call")
        entries = self._normalize_entries(delta, whole=False)
        if not entries:
            return delta.get("tool_calls") is not listed or delta.get("function_call") is not legacy
        delta["tool_calls"] = entries
        return bool(entries != listed)

    def normalize_message(self, message: Json, *, cut: bool) -> None:
        """Normalizes the calls of a whole message in place. `cut` says that the reply was truncated.

        The calls get no index, and unless the message was cut, empty arguments become `{}`. Raises ProtocolViolation
        for a call without a name.
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

    def complete_delta(self, delta: Json, listed: Any) -> None:
        """Adds what the calls of the upstream's final message have beyond the deltas to the last of these, in place.

        Raises ProtocolViolation if the message has other calls.
        """
        known = [
            KnownCall(call.upstream_id, call.name, "".join(call.texts) if call.is_json else None)
            for call in self._calls
        ]
        rests, further = find_missing_calls(listed, known)
        entries = [
            {"index": position, "function": {"arguments": self._calls[position].add_text(rest)}}
            for position, rest in rests
        ]
        for entry in further:
            entries.append(self._normalize_entry(entry, whole=True))
            call = self._calls[-1]
            call.is_held = False if call.texts else None
        if entries:
            delta["tool_calls"] = [*(delta.get("tool_calls") or ()), *entries]

    def build_last_entries(self, *, cut: bool) -> list[Json]:
        """Returns the entries of `tool_calls` to send at the end of the turn, and collects the warnings.

        They carry arguments that were buffered and, unless the reply was `cut`, `{}` for calls without arguments.
        Raises ProtocolViolation for a call without a name, which no client could run.
        """
        entries: list[Json] = []
        for index, call in enumerate(self._calls):
            if not call.is_json:
                continue
            is_empty = call.is_held is None
            text = call.release()
            if is_empty and not cut:
                text = "{}"
            if text:
                entries.append({"index": index, "function": {"arguments": text}})
        self._collect_warnings(cut=cut)
        return entries

    def _collect_warnings(self, *, cut: bool) -> None:
        if cut:  # the finish reason already shows the client that a call may be incomplete
            return
        if not all(call.name for call in self._calls):
            raise ProtocolViolation("the upstream sent a tool call without a name")
        for call in self._calls:
            if self._tracker.check_arguments(call.name, "".join(call.texts)) and self._legacy_functions:
                self.warnings.append({"name": call.name, "why": _WRONG_FIELD_WARNING})

    def _normalize_entries(self, message: Json, *, whole: bool) -> list[Json]:
        entries: Any = message.get("tool_calls")
        if not isinstance(message.get("function_call") or {}, dict):
            raise ProtocolViolation("the upstream sent a `function_call` that is not a JSON object")
        if not entries and isinstance(message.get("function_call"), dict) and not self._legacy_functions:
            entries = [{"type": "function", "function": message.pop("function_call")}]
        listed = list_call_entries(entries) if entries else []
        normalized = [
            self._normalize_entry(entry, whole=whole) for entry in listed if whole or not self._repeats_call(entry)
        ]
        if listed and not normalized:
            message.pop("tool_calls", None)
        return normalized

    def _repeats_call(self, entry: Json) -> bool:
        """Whether an entry of a delta only repeats a call that is complete."""
        fragment = parse_call_entry(entry)
        position = self._find_numbered_position(entry)
        if position is None:
            return False
        call = self._calls[position]
        upstream_id = str(call.upstream_id) if call.upstream_id else None
        return call.is_json and repeats_arguments(fragment, upstream_id, call.name, call.texts)

    def _normalize_entry(self, entry: Json, *, whole: bool) -> Json:
        body = entry.get("function") if entry.get("type") != "custom" else entry.get("custom")
        if not isinstance(body, dict):
            body = {key: entry[key] for key in ("name", "arguments") if key in entry}
        name = str(body.get("name") or "")
        arguments = body.get("arguments")
        text = (
            arguments if isinstance(arguments, str) else "" if arguments is None else orjson.dumps(arguments).decode()
        )
        position = None if whole else self._find_position(entry, name, text)
        is_new = position is None
        if position is None:
            position = self._start_call(entry, name)
        call = self._calls[position]
        call.name = call.name or name
        normalized = {**entry, "index": position}
        if is_new or entry.get("id"):
            normalized["id"] = call.id
        if is_new:
            normalized["type"] = entry.get("type") or "function"
        if entry.get("type") == "custom":
            call.is_json = False
            return normalized
        if text and whole:
            text = strip_code_fence(text)
            call.texts.append(text)
        elif text:
            text = call.add_text(text)
        function = {**body, "arguments": text} if "arguments" in body else dict(body)
        if not is_new and name == call.name:
            function.pop("name", None)  # clients join the pieces of a name
        return {**normalized, "function": function}

    def _find_position(self, entry: Json, name: str, text: str) -> int | None:
        """Returns the position of the call that an entry continues; None if it starts one."""
        position = self._find_numbered_position(entry)
        if position is None:
            return None
        return None if name and _starts_next_call(self._calls[position], entry, name, text) else position

    def _find_numbered_position(self, entry: Json) -> int | None:
        """Returns the position of the call that has an entry's index, or without one its id or the last position; None
        if there is none. The entry may still start a new call."""
        index = entry.get("index")
        position = self._positions.get(index) if isinstance(index, int) else self._find_last_position(entry.get("id"))
        return None if position is None or position < 0 else position

    def _find_last_position(self, upstream_id: Any) -> int:
        """Returns the position of the call with an id, or else of the last call; -1 if there is none."""
        known = (
            position for position, call in enumerate(self._calls) if upstream_id and call.upstream_id == upstream_id
        )
        return next(known, len(self._calls) - 1)

    def _start_call(self, entry: Json, name: str) -> int:
        position = len(self._calls)
        check_call_count(position + 1)
        self._calls.append(self._tracker.start_call(entry.get("id"), name))
        if isinstance(index := entry.get("index"), int):
            self._positions[index] = position
        return position


def _starts_next_call(call: TrackedCall, entry: Json, name: str, text: str) -> bool:
    """Whether an entry that has a name, as the first entry of every call has, starts the call after `call`."""
    if call_id := entry.get("id"):
        return bool(call_id != call.upstream_id) or (
            text.lstrip().startswith(_OBJECT_STARTS) and are_complete(call.texts)
        )
    if call.texts:
        return name != call.name or (bool(text) and are_complete(call.texts))
    return name != call.name and not isinstance(entry.get("index"), int)
