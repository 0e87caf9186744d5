"""Tool calls on a relay: left as they came where they are well formed, mended where a client could not add them up."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from translation.chat.calls import is_complete_json
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.representation.json_types import Json
from translation.tools.arguments import strip_code_fence

_WRONG_FIELD_WARNING = "it is in tool_calls, and was asked for in function_call"

_OBJECT_STARTS = ("{", "`")
"""How arguments start that are an object, in a fence or not."""


@dataclass(slots=True)
class _Call:
    index: int
    upstream_id: object
    """What the upstream calls it; `id` is what clients do."""
    id: str
    name: str
    texts: list[str] = field(default_factory=list)
    """All of its arguments so far."""
    is_empty: bool = True
    buffered: list[str] | None = None
    """What was not said of them yet, because it may be JSON between fences."""


class CallNormalizer:
    """One choice's calls, delta by delta or all in one message.

    Clients find a call by `index` and take its id, type and name from its first entry. Upstreams leave the index out or
    give every call the same, leave ids out or use one twice, repeat the name, send arguments as an object, between
    fences, or as nothing that can be read, or one call where a list is due, or the `function_call` of before there were
    tools. Keys nobody here knows are kept.
    """

    def __init__(self, rules: CallRules = DEFAULT_RULES, *, legacy: bool) -> None:
        self.warnings: list[Json] = []
        """What is wrong with calls that are complete and cannot be read."""
        self._rules = rules
        self._legacy_functions = legacy
        """The client sent `functions`: to it `function_call` is the right form."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = rules.id_allocator()

    def normalize_delta(self, said: Json) -> bool:
        """Mend the calls of a delta in place; whether that changed anything."""
        mended = self._normalize_entries(said, whole=False)
        if not mended or mended == said.get("tool_calls"):
            return False
        said["tool_calls"] = mended
        return True

    def normalize_message(self, message: Json, *, cut: bool) -> None:
        """Mend a whole message's calls in place: they have no index there, and none is without arguments unless the
        message was cut."""
        mended = self._normalize_entries(message, whole=True)
        for entry in mended:
            del entry["index"]
            function = entry.get("function")
            if function is not None and not cut and not (function.get("arguments") or "").strip():
                function["arguments"] = "{}"
        if mended:
            message["tool_calls"] = mended
            self._collect_warnings(cut=cut)

    def build_last_entries(self, *, cut: bool) -> list[Json]:
        """Entries that say what is left to say at the end of the turn: arguments that were held back, and unless it was
        `cut` a `{}` for the calls that came without."""
        rest: list[Json] = []
        for call in self._calls:
            text = "" if cut or not call.is_empty else "{}"
            if call.buffered is not None:
                text, call.buffered = strip_code_fence("".join(call.buffered)), None
            call.is_empty = call.is_empty and not text
            if text:
                rest.append({"index": call.index, "function": {"arguments": text}})
        self._collect_warnings(cut=cut)
        return rest

    def _collect_warnings(self, *, cut: bool) -> None:
        """A call that was cut says so itself."""
        if cut:
            return
        for call in self._calls:
            warning = self._rules.warning_for(call.name, strip_code_fence("".join(call.texts)))
            if warning is None and self._legacy_functions:
                warning = {"name": call.name, "why": _WRONG_FIELD_WARNING}
            if warning is not None:
                self.warnings.append(warning)

    def _normalize_entries(self, said: Json, *, whole: bool) -> list[Json]:
        entries: Any = said.get("tool_calls")
        if not entries and isinstance(said.get("function_call"), dict) and not self._legacy_functions:
            entries = [{"type": "function", "function": said.pop("function_call")}]
        listed = entries if isinstance(entries, list) else [entries]
        return [self._normalize_entry(entry, whole=whole) for entry in listed if isinstance(entry, dict)]

    def _normalize_entry(self, entry: Json, *, whole: bool) -> Json:
        body = entry.get("function") if entry.get("type") != "custom" else entry.get("custom")
        if not isinstance(body, dict):
            body = {key: entry[key] for key in ("name", "arguments") if key in entry}
        name = str(body.get("name") or "")
        given = body.get("arguments")
        text = given if isinstance(given, str) else "" if given is None else orjson.dumps(given).decode()
        call = None if whole else self._find_call(entry, name, text)
        begins = call is None
        if call is None:
            call = self._start_call(entry, name)
        mended = {**entry, "index": call.index}
        if begins or entry.get("id"):
            mended["id"] = call.id
        if begins:
            mended["type"] = entry.get("type") or "function"
        if entry.get("type") == "custom":
            call.is_empty = False
            return mended
        if text:
            text = _add_whole_arguments(call, text) if whole else _add_arguments(call, text)
        function = {**body, "arguments": text} if "arguments" in body else dict(body)
        if not begins and name == call.name:
            function.pop("name", None)  # clients join the pieces of a name
        return {**mended, "function": function}

    def _find_call(self, entry: Json, name: str, text: str) -> _Call | None:
        index = entry.get("index")
        call = self._by_index.get(index) if isinstance(index, int) else self._calls[-1] if self._calls else None
        if call is None:
            return None
        return None if name and _starts_next_call(call, entry, name, text) else call

    def _start_call(self, entry: Json, name: str) -> _Call:
        said = entry.get("id")
        call = _Call(len(self._calls), said, self._ids.claim(str(said or "") or None), name)
        self._calls.append(call)
        if isinstance(index := entry.get("index"), int):
            self._by_index[index] = call
        return call


def _add_whole_arguments(call: _Call, text: str) -> str:
    text = strip_code_fence(text)
    call.texts.append(text)
    return text


def _add_arguments(call: _Call, text: str) -> str:
    """Take a piece of a call's arguments; what of it is said at once."""
    if call.is_empty and text.lstrip().startswith("`"):
        call.buffered = []
    call.texts.append(text)
    call.is_empty = call.is_empty and not text.strip()
    if call.buffered is None:
        return text
    call.buffered.append(text)
    return ""


def _starts_next_call(call: _Call, entry: Json, name: str, text: str) -> bool:
    """Whether an entry with a name, which every call says at its start, begins the call after this one."""
    if call_id := entry.get("id"):
        return bool(call_id != call.upstream_id) or (text.lstrip().startswith(_OBJECT_STARTS) and _is_complete(call))
    if call.texts:
        return name != call.name or (bool(text) and is_complete_json("".join(call.texts)))
    return name != call.name and not isinstance(entry.get("index"), int)


def _is_complete(call: _Call) -> bool:
    # The last piece tells for most, and an object that starts for the rest: long calls come in thousands of pieces.
    return bool(call.texts) and call.texts[-1].rstrip().endswith("}") and is_complete_json("".join(call.texts))
