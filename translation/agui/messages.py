"""Reads the messages of a run as items of the Responses API."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.agui.tool_items import ToolCallView
from translation.errors import Unrepresentable
from translation.hosted.calls import is_json_object
from translation.lowering.media import UNNAMED_FILE
from translation.representation.json_types import Item, Json

NO_RESULT: Final = "no result: the call was not answered"
"""The output of a call that the client did not answer, for the model."""

_REASONING_ID_PREFIX: Final = "rs_"
_MESSAGE_ID_PREFIX: Final = "msg_"


class MessageEntry(NamedTuple):
    """One item of the client's messages. `position` is the index of its message.

    `fact` is compared with stored items. Items without it are not compared.
    """

    item: Item
    position: int
    fact: tuple[str, ...] | None = None

    @property
    def output_id(self) -> str | None:
        """The id of the call that the item is the output of; None if it is no output."""
        return self.item["call_id"] if self.item["type"] == "function_call_output" else None


def read_messages(messages: Sequence[Json]) -> list[MessageEntry]:
    """Returns the items of validated messages, in order. Activities are not for the model, and left out.

    Raises Unrepresentable for media that no item can have.
    """
    entries: list[MessageEntry] = []
    for position, message in enumerate(messages):
        match message["role"]:
            case "assistant":
                entries += _read_assistant(message, position)
            case "tool":
                output = _read_tool_content(message, position)
                item: Item = {"type": "function_call_output", "call_id": message["toolCallId"], "output": output}
                entries.append(MessageEntry(item, position))
            case "reasoning":
                _read_reasoning(message, position, entries)
            case "activity":
                pass
            case role:
                content = _read_content(message["content"], position)
                item = {"type": "message", **_own_id(message), "role": role, "content": content}
                entries.append(MessageEntry(item, position, build_message_fact(item)))
    return entries


def repeats_question(messages: Sequence[Json], own_input: Sequence[Item]) -> bool:
    """Returns whether the last question in validated messages is that of a stored run: a user message, or the result of
    a tool.

    `own_input` are the run's own input items. True also if there is nothing to compare: messages without a question ask
    for the run to be sent again, and a run that only answers interrupts has none. Raises Unrepresentable for media that
    no item can have.
    """
    facts = {build_message_fact(item) for item in own_input if item["type"] == "message" and item["role"] == "user"}
    output_ids = {item["call_id"] for item in own_input if item["type"] == "function_call_output"}
    if facts or output_ids:
        for message in reversed(messages):
            if message["role"] == "tool":
                return message["toolCallId"] in output_ids
            if message["role"] == "user":
                return read_messages([message])[0].fact in facts
    return True


def pair_outputs(
    entries: Sequence[MessageEntry], open_ids: Iterable[str] = (), answered_ids: Iterable[str] = ()
) -> tuple[list[MessageEntry], list[MessageEntry]]:
    """Returns the entries with one output directly behind the calls it belongs to, and the entries that were left out.

    `open_ids` are calls before the entries that have no output yet, `answered_ids` are calls that have one. A call that
    the client did not answer gets a placeholder as output: no model accepts a call without one, and the client may
    never be able to answer it. A second output of a call is left out, and so is the output of an unknown call.
    """
    outputs: dict[str, MessageEntry] = {}
    dropped: list[MessageEntry] = []
    calls = {entry.item["call_id"] for entry in entries if entry.item["type"] == "function_call"}
    known = calls | set(open_ids)
    settled = set(answered_ids)
    for entry in entries:
        if (call_id := entry.output_id) is not None and call_id not in settled:
            if call_id in known and call_id not in outputs:
                outputs[call_id] = entry
            else:
                dropped.append(entry)
    paired: list[MessageEntry] = [outputs.get(call_id) or _no_result(call_id, 0) for call_id in open_ids]
    waiting: list[MessageEntry] = []

    def answer() -> None:
        for call in waiting:
            call_id = call.item["call_id"]
            output = outputs.get(call_id)
            paired.append(_no_result(call_id, call.position) if output is None else output)
        waiting.clear()

    for entry in entries:
        kind = entry.item["type"]
        if kind == "function_call":
            # The calls of one message are one round. Calls of another message follow after the outputs.
            if waiting and waiting[0].position != entry.position:
                answer()
            if entry.item["call_id"] not in outputs:
                entry = entry._replace(item=_with_whole_arguments(entry.item))
            waiting.append(entry)
        elif kind != "function_call_output":
            answer()
        if kind != "function_call_output":
            paired.append(entry)
    answer()
    return paired, dropped


def build_message_fact(item: Item) -> tuple[str, ...] | None:
    """Returns the part of a message item that its copy at the client must equal; None for an item without content."""
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [part.get("text") or part.get("refusal") or "" for part in parts if _is_text(part)]
    media = [_dump(part) for part in parts if not _is_text(part)]
    text = "".join(texts)
    return ("message", item["role"], text, *media) if text or media else None


def build_call_fact(call: ToolCallView) -> tuple[str, ...]:
    """Returns the part of a call that its copy at the client must equal."""
    return ("call", call.call_id, call.name, call.arguments)


def _is_text(part: Json) -> bool:
    return part.get("type") in ("text", "input_text", "output_text", "refusal")


def _read_assistant(message: Json, position: int) -> list[MessageEntry]:
    entries: list[MessageEntry] = []
    if content := message.get("content"):
        item: Item = {
            "type": "message",
            **_own_id(message),
            "role": "assistant",
            "content": [{"type": "output_text", "text": content, "annotations": []}],
        }
        entries.append(MessageEntry(item, position, build_message_fact(item)))
    for call in message.get("toolCalls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        item = {"type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments}
        entries.append(MessageEntry(item, position, build_call_fact(ToolCallView(call["id"], name, arguments))))
    return entries


def _own_id(message: Json) -> Json:
    """Returns the id of a message as a key of its item, if the gateway created it. Some upstreams refuse other ids."""
    return {"id": message["id"]} if message["id"].startswith(_MESSAGE_ID_PREFIX) else {}


def _read_reasoning(message: Json, position: int, entries: list[MessageEntry]) -> None:
    """Adds a reasoning message.

    The parts of one item are consecutive messages, whose ids begin with the id of the item.
    """
    item_id, _, part = message["id"].rpartition(":")
    is_own = item_id.startswith(_REASONING_ID_PREFIX) and part.isdecimal()
    text, encrypted = message.get("content"), message.get("encryptedValue")
    last = entries[-1].item if entries else None
    if is_own and last is not None and last["type"] == "reasoning" and last.get("id") == item_id:
        item = last
    else:
        item = {"type": "reasoning", "summary": [], "content": []} | ({"id": item_id} if is_own else {})
        entries.append(MessageEntry(item, position))
    if text:
        item["content"].append({"type": "reasoning_text", "text": text})
    if encrypted:
        item["encrypted_content"] = encrypted


def _read_tool_content(message: Json, position: int) -> str | list[Json]:
    content, error = message["content"], message.get("error")
    if not isinstance(content, str):
        parts = [_read_part(part, f"messages[{position}].content[{index}]") for index, part in enumerate(content)]
        return [*parts, {"type": "input_text", "text": f"Error: {error}"}] if error else parts
    if not error or error in content:
        return content
    return f"{content}\n\nError: {error}" if content else f"Error: {error}"


def _read_content(content: str | list[Json], position: int) -> str | list[Json]:
    if isinstance(content, str):
        return content
    return [_read_part(part, f"messages[{position}].content[{index}]") for index, part in enumerate(content)]


def _read_part(part: Json, param: str) -> Json:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    if part["type"] == "binary":
        return _read_binary(part, param)
    kind, source = part["type"], part["source"]
    file_id = source["value"] if source["type"] == "file" else None
    if kind == "image":
        return (
            {"type": "input_image", "file_id": file_id}
            if file_id
            else {"type": "input_image", "image_url": _url_of(source)}
        )
    if kind == "document":
        if file_id:
            return {"type": "input_file", "file_id": file_id}
        if source["type"] == "url":
            return {"type": "input_file", "file_url": source["value"]}
        return {"type": "input_file", "filename": UNNAMED_FILE, "file_data": _url_of(source)}
    if kind == "audio" and source["type"] == "data":
        audio_format = source["mimeType"].partition("/")[2].removeprefix("x-")
        return {
            "type": "input_audio",
            "input_audio": {"data": source["value"], "format": _AUDIO_FORMATS.get(audio_format, audio_format)},
        }
    raise Unrepresentable(
        f"the gateway cannot send {kind} from a {source['type']} source: send another part", param=param
    )


_AUDIO_FORMATS: Final = {"mpeg": "mp3", "wave": "wav"}


def _read_binary(part: Json, param: str) -> Json:
    mime_type = part["mimeType"]
    data, url, file_id = part.get("data"), part.get("url"), part.get("id")
    source: dict[str, Any] = {"type": "file", "value": file_id}
    if data:
        source = {"type": "data", "value": data, "mimeType": mime_type}
    elif url:
        source = {"type": "url", "value": url}
    elif not file_id:
        raise Unrepresentable("a binary part needs data, url or id", param=param)
    medium = mime_type.partition("/")[0]
    read = _read_part(
        {"type": medium if medium in ("image", "audio", "video") else "document", "source": source}, param
    )
    if read["type"] == "input_file" and part.get("filename"):
        read["filename"] = part["filename"]
    return read


def _url_of(source: Json) -> str:
    if source["type"] == "url":
        return str(source["value"])
    return f"data:{source['mimeType']};base64,{source['value']}"


def _no_result(call_id: str, position: int) -> MessageEntry:
    return MessageEntry({"type": "function_call_output", "call_id": call_id, "output": NO_RESULT}, position)


def _with_whole_arguments(call: Item) -> Item:
    """Returns a call that was cut off with arguments that are JSON: some upstreams refuse any other."""
    return call if is_json_object(call["arguments"]) else {**call, "arguments": "{}"}


def _dump(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
