"""A made-up API of clients. A request has one `question`, its reply one `answer`, a stream a line for each piece."""

from collections.abc import Mapping
from typing import Any, Final, Required

import orjson
from typing_extensions import TypedDict

from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.encoding.turn_reply import TurnReplyCollector
from translation.representation.events import Failed, Finished, ItemStarted
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.param_names import ParamNames
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts
from translation.validation import build_adapter, check_body


class _Request(TypedDict, total=False):
    question: Required[str]
    model: str
    most_words: int | None
    picture: str | None
    stream: bool | None
    mood: str | None


_ADAPTER: Final = build_adapter(_Request)

_NAMES: Final = {"input": "question", "max_output_tokens": "most_words"}


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name == "input" and ".content[1]" in rest:
        return "picture", "", ""
    return (_NAMES[name], "", "") if name in _NAMES else (name, place, rest)


PARAM_NAMES: Final = ParamNames(
    input="question",
    max_output="most_words",
    reasoning="thinking",
    reasoning_keys=frozenset(),
    thinking="thinking",
    text_format="format",
    logprobs="logprobs",
    find=_find_param,
    overflow_input="question",
)


def validate(body: Json) -> None:
    check_body(_ADAPTER, body)


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    limit = defaults.get("max_output_tokens")
    return {**body, "most_words": limit} if body.get("most_words") is None and limit is not None else body


def read_facts(body: Json) -> RequestFacts:
    return RequestFacts(streams=bool(body.get("stream")))


def lift(body: Json, /, *, relayed: bool = False, model: str | None = None) -> Turn:
    parts: list[Json] = [{"type": "input_text", "text": body["question"]}]
    if body.get("picture") is not None:
        parts.append({"type": "input_image", "image_url": body["picture"]})
    return Turn(
        model=body["model"] if model is None else model,
        items=[{"type": "message", "role": "user", "content": parts}],
        max_output_tokens=body.get("most_words"),
        stream=bool(body.get("stream")),
        losses=[] if body.get("mood") is None else [Loss("mood", "dropped")],
    )


class ParrotEncoder(EventEncoder):
    def _start_item(self, event: ItemStarted, _frames: list[bytes], /) -> None:
        self._item = event.item["type"]

    def _write_text(self, index: int, part_index: int | None, text: str, frames: list[bytes], /) -> None:
        if self._item == "message":
            frames.append(_PIECE % orjson.dumps(text))
            self._texts[(index, part_index)] = TextFrames(_PIECE, _ignore)

    def _encode_end(self, finished: Finished, /) -> bytes:
        return orjson.dumps({"ended": finished.reason}) + b"\n"

    def _encode_failure(self, failed: Failed, /) -> bytes:
        return orjson.dumps({"problem": failed.message}) + b"\n"


_PIECE: Final = b'{"piece":%b}\n'


def _ignore(_text: str) -> None: ...


class ParrotCollector(TurnReplyCollector):
    def _build_reply(self, finished: Finished, /) -> Json:
        texts = [
            part["text"] for item in self._collector.items if item["type"] == "message" for part in item["content"]
        ]
        return {"answer": "".join(texts), "ended": finished.reason}
