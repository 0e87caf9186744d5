"""Tool calls on a relay: left as they came where they are well formed, mended where a client could not add them up."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from translation.chat.calls import is_whole
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.representation.json_types import Json
from translation.tools.arguments import unfenced

_UNREAD = "it is in tool_calls, and was asked for in function_call"

_STARTS = ("{", "`")
"""How arguments start that are an object, in a fence or not."""


@dataclass(slots=True)
class _Call:
    place: int
    said: object
    """What the upstream calls it; `id` is what clients do."""
    id: str
    name: str
    texts: list[str] = field(default_factory=list)
    """All of its arguments so far."""
    empty: bool = True
    held: list[str] | None = None
    """What was not said of them yet, because it may be JSON between fences."""


class CallMender:
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
        self._legacy = legacy
        """The client sent `functions`: to it `function_call` is the right form."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = rules.ids()

    def mend(self, said: Json) -> bool:
        """Mend the calls of a delta in place; whether that changed anything."""
        mended = self._mended(said, whole=False)
        if not mended or mended == said.get("tool_calls"):
            return False
        said["tool_calls"] = mended
        return True

    def mend_whole(self, message: Json, *, cut: bool) -> None:
        """Mend a whole message's calls in place: they have no index there, and none is without arguments unless the
        message was cut."""
        mended = self._mended(message, whole=True)
        for entry in mended:
            del entry["index"]
            function = entry.get("function")
            if function is not None and not cut and not (function.get("arguments") or "").strip():
                function["arguments"] = "{}"
        if mended:
            message["tool_calls"] = mended
            self._judge(cut=cut)

    def complete(self, *, cut: bool) -> list[Json]:
        """Entries that say what is left to say at the end of the turn: arguments that were held back, and unless it was
        `cut` a `{}` for the calls that came without."""
        rest: list[Json] = []
        for call in self._calls:
            text = "" if cut or not call.empty else "{}"
            if call.held is not None:
                text, call.held = unfenced("".join(call.held)), None
            call.empty = call.empty and not text
            if text:
                rest.append({"index": call.place, "function": {"arguments": text}})
        self._judge(cut=cut)
        return rest

    def _judge(self, *, cut: bool) -> None:
        """A call that was cut says so itself."""
        if cut:
            return
        for call in self._calls:
            warning = self._rules.warning(call.name, unfenced("".join(call.texts)))
            if warning is None and self._legacy:
                warning = {"name": call.name, "why": _UNREAD}
            if warning is not None:
                self.warnings.append(warning)

    def _mended(self, said: Json, *, whole: bool) -> list[Json]:
        entries: Any = said.get("tool_calls")
        if not entries and isinstance(said.get("function_call"), dict) and not self._legacy:
            entries = [{"type": "function", "function": said.pop("function_call")}]
        listed = entries if isinstance(entries, list) else [entries]
        return [self._mend(entry, whole=whole) for entry in listed if isinstance(entry, dict)]

    def _mend(self, entry: Json, *, whole: bool) -> Json:
        body = entry.get("function") if entry.get("type") != "custom" else entry.get("custom")
        if not isinstance(body, dict):
            body = {key: entry[key] for key in ("name", "arguments") if key in entry}
        name = str(body.get("name") or "")
        given = body.get("arguments")
        text = given if isinstance(given, str) else "" if given is None else orjson.dumps(given).decode()
        call = None if whole else self._find(entry, name, text)
        begins = call is None
        if call is None:
            call = self._begin(entry, name)
        mended = {**entry, "index": call.place}
        if begins or entry.get("id"):
            mended["id"] = call.id
        if begins:
            mended["type"] = entry.get("type") or "function"
        if entry.get("type") == "custom":
            call.empty = False
            return mended
        if text:
            text = _taken_whole(call, text) if whole else _taken(call, text)
        function = {**body, "arguments": text} if "arguments" in body else dict(body)
        if not begins and name == call.name:
            function.pop("name", None)  # clients join the pieces of a name
        return {**mended, "function": function}

    def _find(self, entry: Json, name: str, text: str) -> _Call | None:
        index = entry.get("index")
        call = self._by_index.get(index) if isinstance(index, int) else self._calls[-1] if self._calls else None
        if call is None:
            return None
        return None if name and _is_next(call, entry, name, text) else call

    def _begin(self, entry: Json, name: str) -> _Call:
        said = entry.get("id")
        call = _Call(len(self._calls), said, self._ids.take(str(said or "") or None), name)
        self._calls.append(call)
        if isinstance(index := entry.get("index"), int):
            self._by_index[index] = call
        return call


def _taken_whole(call: _Call, text: str) -> str:
    text = unfenced(text)
    call.texts.append(text)
    return text


def _taken(call: _Call, text: str) -> str:
    """Take a piece of a call's arguments; what of it is said at once."""
    if call.empty and text.lstrip().startswith("`"):
        call.held = []
    call.texts.append(text)
    call.empty = call.empty and not text.strip()
    if call.held is None:
        return text
    call.held.append(text)
    return ""


def _is_next(call: _Call, entry: Json, name: str, text: str) -> bool:
    """Whether an entry with a name, which every call says at its start, begins the call after this one."""
    if call_id := entry.get("id"):
        return bool(call_id != call.said) or (text.lstrip().startswith(_STARTS) and _has_all(call))
    if call.texts:
        return name != call.name or (bool(text) and is_whole("".join(call.texts)))
    return name != call.name and not isinstance(entry.get("index"), int)


def _has_all(call: _Call) -> bool:
    # The last piece tells for most, and an object that starts for the rest: long calls come in thousands of pieces.
    return bool(call.texts) and call.texts[-1].rstrip().endswith("}") and is_whole("".join(call.texts))
