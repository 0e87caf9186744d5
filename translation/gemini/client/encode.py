"""Encodes events as the stream of Gemini's API: every frame is a whole `GenerateContentResponse`.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson

from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.gemini.client import reply_objects
from translation.gemini.client.reply_objects import PARAGRAPH, Grounding, ReplyHead
from translation.gemini.client.signatures import Signature, pack_signature
from translation.gemini.client.value_replies import ValueForm, unwrap_value
from translation.representation.collector import ItemState
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
)
from translation.representation.item_seal import ItemSeal, seal_item
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json

StreamForm: TypeAlias = Literal["events", "array"]
"""`events`: server-sent events, for `alt=sse`. `array`: the elements of one JSON array."""

KEEP_ALIVE: Final = b"\n"
"""Keeps a stream alive, in both framings: the API's SDKs skip blank lines, and fail at comments."""

BuildError: TypeAlias = Callable[[Failed], Json]
"""Returns the error object of the API for a failure."""


class GeminiEncoder(EventEncoder):
    """Encodes one reply as whole chunks.

    With `thoughts` the client gets the texts of reasoning items, with `logprobs` the log probabilities of the answer,
    and with `value_form` only the value in it. `seal` seals what it has to send back of items, and `build_error`
    builds the end of a reply that fails.
    """

    def __init__(
        self,
        head: ReplyHead,
        *,
        form: StreamForm,
        thoughts: bool,
        build_error: BuildError,
        logprobs: bool = False,
        value_form: ValueForm | None = None,
        seal: ItemSeal | None = None,
    ) -> None:
        super().__init__()
        self._head = head.build()
        self._form = form
        self._thoughts = thoughts
        self._seal = seal
        self._value_form = value_form
        self._build_error = build_error
        self._logprobs: Sequence[Json] | None = () if logprobs else None
        """The log probabilities of the text being written; None if the client did not request them."""
        self._has_begun = False
        self._fault: str | None = None
        self._grounding = Grounding()
        self._answers: list[str] = []
        """The texts of the answer's parts that have ended."""
        self._sealed_thoughts: list[str] = []
        """Sealed thoughts, for the signature of the next part."""
        self._items: dict[int, ItemState] = {}
        self._written: set[tuple[int, int | None]] = set()
        """The open items of which some text has been written."""

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the whole frames of one batch; empty bytes if the API has nothing for it."""
        if self._logprobs is None:
            return super().feed(batch)
        frames = b""
        for event in batch:
            self._logprobs = (event.logprobs or ()) if isinstance(event, Delta) else ()
            frames += super().feed([event])
        return frames

    def _encode_failure(self, failed: Failed, /) -> bytes:
        payload = orjson.dumps(self._build_error(failed))
        if self._form == "events":
            # Google's SDK for Go raises only for the bare object. That for JavaScript raises for an event only in its
            # newest versions, and for the bare object if no other frame is in the same read. All its versions raise for
            # a stream that does not end with a blank line. Whoever raises for the event does not read on.
            # `throwIfStreamErrorChunk` in googleapis/js-genai, `iterateResponseStream` in googleapis/go-genai
            return b"data: %b\n\n%b" % (payload, payload)
        return self._frame_payload(payload) + b"]\n"

    def _encode_end(self, finished: Finished, /) -> bytes:
        # Clients keep only replies all of whose chunks have a part.
        part = self._sign({"text": ""})
        end = reply_objects.build_end(finished, self._fault)
        chunk = self._build_chunk(part, **end, **self._grounding.build())
        last = self._frame({**chunk, "usageMetadata": reply_objects.build_usage_metadata(self._usage)})
        return last if self._form == "events" else last + b"]\n"

    def _build_chunk(self, part: Json, **more: Any) -> Json:
        return {"candidates": [reply_objects.build_candidate([part], **more)], **self._head}

    def _sign(self, part: Json, call: str | None = None) -> Json:
        """Returns a part with the signature that it has to carry."""
        signature = pack_signature(Signature(self._sealed_thoughts, call))
        self._sealed_thoughts = []
        return part if signature is None else {**part, "thoughtSignature": signature}

    def _frame(self, chunk: Json) -> bytes:
        return self._frame_payload(orjson.dumps(chunk))

    def _frame_payload(self, payload: bytes) -> bytes:
        if self._form == "events":
            return b"data: %b\n\n" % payload
        start = b",\n" if self._has_begun else b"["
        self._has_begun = True
        return start + payload

    def _write_text(
        self, index: int, part_index: int | None, text: str, frames: list[bytes], /, *, is_initial: bool = False
    ) -> None:
        """Writes a text without a template, and builds the template for the following texts.

        An `is_initial` text is in the object that was started already.
        """
        state, key = self._items[index], (index, part_index)
        if not is_initial:
            state.add_delta(Delta(index, part_index, text))
        is_thought = state.type == "reasoning"
        if self._value_form and not is_thought:
            return  # the value is known when its text is whole
        if not text or part_index is None or not (self._thoughts if is_thought else state.type == "message"):
            return
        part: Json = {"text": "", "thought": True} if is_thought else {"text": ""}
        if is_thought and key not in self._written and self._has_text(index):
            text = PARAGRAPH + text
        logprobs = reply_objects.build_logprobs(self._logprobs or ())
        signed = {**part, "text": text} if is_thought else self._sign({"text": text})
        frames.append(self._frame(self._build_chunk(signed, **logprobs)))
        self._written.add(key)
        if self._logprobs is None:
            frame = self._frame(self._build_chunk(part))
            frame_format = frame.replace(b"%", b"%%").replace(b'"text":""', b'"text":%b')
            self._texts[key] = TextFrames(frame_format, state.part_at(part_index).append)

    def _has_text(self, index: int) -> bool:
        return any(key[0] == index for key in self._written)

    def _start_item(self, event: ItemStarted, _frames: list[bytes], /) -> None:
        self._items[event.index] = ItemState(event.item)

    def _start_part(self, event: PartStarted, frames: list[bytes], /) -> None:
        state = self._items[event.index]
        state.start_part(event.part)
        if text := text_of(state.type, event.part):
            self._write_text(event.index, event.part_index, text, frames, is_initial=True)

    def _end_part(self, event: PartEnded, frames: list[bytes], /) -> None:
        state = self._items[event.index]
        part = state.end_part(event.part_index, event.part)
        if event.part_index is None or state.type != "message":
            return
        text = text_of(state.type, part)
        if self._value_form:
            frames.append(self._frame(self._build_chunk(self._sign({"text": unwrap_value(text, self._value_form)}))))
        elif (event.index, event.part_index) not in self._written:
            self._write_text(event.index, event.part_index, text, frames, is_initial=True)
        for annotation in part.get("annotations") or ():
            self._grounding.cite(annotation, text, "".join(self._answers))
        self._answers.append(text)

    def _annotate(self, event: Annotated, _frames: list[bytes], /) -> None:
        self._items[event.index].part_at(event.part_index).annotations.append(event.annotation)

    def _end_item(self, event: ItemEnded, frames: list[bytes], /) -> None:
        state = self._items.pop(event.index)
        item = state.end(event.item, event.status)
        sealed = seal_item(item, self._seal)
        match item["type"]:
            case "function_call":
                self._write_call(item, sealed, frames)
            case "reasoning":
                self._write_missing_thought(event.index, item, frames)
                self._sealed_thoughts += [sealed] if sealed else []
            case "web_search_call":
                self._grounding.add_search(item)
            case _:
                if (image := reply_objects.build_image(item)) is not None:
                    frames.append(self._frame(self._build_chunk(self._sign(image))))

    def _write_missing_thought(self, index: int, item: Item, frames: list[bytes]) -> None:
        """Writes the text of a reasoning item that had no deltas."""
        if not self._thoughts or self._has_text(index):
            return
        if text := reply_objects.read_thought(item):
            frames.append(self._frame(self._build_chunk({"text": text, "thought": True})))

    def _write_call(self, item: Item, sealed: str, frames: list[bytes]) -> None:
        call, fault = reply_objects.build_function_call(item)
        self._fault = self._fault or fault
        if call is not None:
            frames.append(self._frame(self._build_chunk(self._sign({"functionCall": call}, sealed or None))))
