"""Collects the events of one turn into a `chat.completion` object. Also builds the messages of stored completions.

Does not know the upstream's dialect.
"""

from collections.abc import Iterator, Sequence

from translation.chat import reply_objects
from translation.chat.client.chunk_recorder import ChunkRecorder, place_citation
from translation.chat.reasoning import DETAILS_FIELD, remove_unsigned_copies
from translation.encoding.turn_reply import TurnReplyCollector
from translation.representation.events import Event, Finished
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json

_LISTED_PART_TYPES = ("text", "image_url")
"""The types of parts that `content_parts` may contain."""


class CompletionCollector(TurnReplyCollector):
    """Collects one turn into a completion.

    The completion has `tool_warnings` if its calls have problems. With `extensions` it also has the `extensions` of
    `ChunkRecorder`.
    """

    def __init__(
        self,
        *,
        completion_id: str,
        created: int,
        model: str,
        reasoning_fields: frozenset[str],
        extensions: bool = False,
        legacy_functions: bool = False,
    ) -> None:
        super().__init__()
        self._identity: Json = {"id": completion_id, "object": "chat.completion", "created": created, "model": model}
        self._reasoning_fields = sorted(reasoning_fields)
        self._legacy_functions = legacy_functions
        self._chunk_recorder = ChunkRecorder() if extensions else None

    def feed(self, batch: Sequence[Event]) -> None:
        """Takes one batch of events."""
        super().feed(batch)
        if self._chunk_recorder is not None:
            self._chunk_recorder.feed(batch)

    def _build_reply(self, finished: Finished, /) -> Json:
        items = self._collector.items
        message = self._build_message(items)
        called = "tool_calls" in message or "function_call" in message
        choice: Json = {
            "index": 0,
            "message": message,
            "logprobs": _collect_logprobs(items),
            **reply_objects.build_finish(finished, called=called, legacy=self._legacy_functions),
        }
        completion = {**self._identity, **reply_objects.build_facts(self._collector.facts), "choices": [choice]}
        if (usage := reply_objects.build_usage(self.usage)) is not None:
            completion["usage"] = usage
        completion |= reply_objects.build_warnings(self._collector.facts)
        if self._chunk_recorder is not None:
            completion["extensions"] = self._chunk_recorder.build_extensions()
        return completion

    def _build_message(self, items: Sequence[Item]) -> Json:
        pieces: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
        calls: list[Json] = []
        details: list[Json] = []
        images: list[Json] = []
        for index, item in enumerate(items):
            call_field = reply_objects.REPLY_FIELDS.get((item["type"], None))
            if call_field is not None:
                calls.append(reply_objects.build_call(item, item.get(call_field) or ""))
                continue
            for part_index, part_type, text in reply_objects.iter_texts(item):
                field = reply_objects.REPLY_FIELDS[item["type"], part_type]
                if (
                    field == "reasoning"
                    and pieces[field]
                    and reply_objects.is_own_paragraph((index, part_index), part_type)
                ):
                    pieces[field].append(reply_objects.PARAGRAPH_GAP)
                pieces[field].append(text)
            if (image := reply_objects.build_image_entry(item)) is not None:
                images.append({**image, "index": len(images)})
            details += item.get("details") or ()
        texts = {field: "".join(parts) if parts else None for field, parts in pieces.items()}
        message: Json = {"role": "assistant", "content": texts["content"], "refusal": texts["refusal"]}
        if not calls and not any(pieces.values()):
            message["content"] = ""  # an empty reply has an empty text, as on a stream
        if texts["reasoning"] is not None:
            message |= dict.fromkeys(self._reasoning_fields, texts["reasoning"])
        if details and self._reasoning_fields:
            message[DETAILS_FIELD] = remove_unsigned_copies(details)
        if images:
            message["images"] = images
        if citations := [*self._list_citations(items)]:
            message["annotations"] = citations
        if self._legacy_functions and calls and "function" in calls[0]:
            message["function_call"] = calls.pop(0)["function"]
        if calls:
            message["tool_calls"] = calls
        return message

    def _list_citations(self, items: Sequence[Item]) -> Iterator[Json]:
        """Yields chat's annotations of all texts, with their positions in the whole answer."""
        start = 0
        for item in items:
            for part in item.get("content") or ():
                for annotation in part.get("annotations") or ():
                    if (citation := place_citation(annotation, start, self._chunk_recorder)) is not None:
                        yield citation
                if reply_objects.REPLY_FIELDS.get((item["type"], part.get("type"))) == "content":
                    start += len(text_of(item["type"], part))


def build_stored_message(message: Json) -> Json:
    """Returns a request's message, which has an `id`, in the form that stored completions list.

    Content that is a list of parts goes to `content_parts`, and its joined text to `content`. Part types that
    `content_parts` does not allow are left out.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": content, "content_parts": None}
    texts = [part.get("text") or part.get("refusal") or "" for part in content if part["type"] in ("text", "refusal")]
    listed_parts = [part for part in content if part["type"] in _LISTED_PART_TYPES]
    return {**message, "content": "".join(texts) if texts else None, "content_parts": listed_parts}


def _collect_logprobs(items: Sequence[Item]) -> Json | None:
    tokens: dict[str, list[Json]] = {"content": [], "refusal": []}
    for item in items:
        for part in item.get("content") or ():
            if (field := reply_objects.REPLY_FIELDS.get((item["type"], part.get("type")))) in tokens:
                tokens[field] += part.get("logprobs") or ()
    return {field: entries or None for field, entries in tokens.items()} if any(tokens.values()) else None
