"""An encoder that continues a stream of another encoder."""

import orjson

from translation.framing import sse
from translation.representation import items
from translation.representation.events import (
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
    Started,
)
from translation.representation.json_types import Item, Json
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.upstream.decode import ResponsesDecoder

REASONING: Item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "of the upstream"}
FIRST: list[Event] = [
    Started("m"),
    ItemStarted(0, REASONING),
    ItemEnded(0, REASONING),
    ItemStarted(1, items.new_message("msg_1")),
    PartStarted(1, 0, items.new_output_text()),
    Delta(1, 0, "It "),
]
REST: list[Event] = [Delta(1, 0, "is."), PartEnded(1, 0), ItemEnded(1), Finished("stop")]


class Seal:
    """Seals an item in a way that shows how often it was sealed."""

    def may_need_seal(self, payload: bytes) -> bool:
        return True

    def seal_added_item(self, item: Item) -> Item:
        return item

    def seal_done_item(self, item: Item) -> Item:
        if "encrypted_content" not in item:
            return item
        return {**item, "encrypted_content": f"sealed {item['encrypted_content']}"}


def new_encoder() -> ResponsesEncoder:
    head = new_response({"model": "m"}, response_id="resp_1", created_at=1, model="m")
    return ResponsesEncoder(head, lambda: 2, Seal())


def payloads(frames: bytes) -> list[bytes]:
    return [frame.payload for frame in sse.FrameDecoder().feed(frames) if frame.payload != b"[DONE]"]


def test_a_restored_encoder_continues_with_the_next_number_and_the_sent_items() -> None:
    whole = new_encoder()
    sent = whole.feed(FIRST)
    expected = whole.feed(REST) + whole.conclude()
    decoder = ResponsesDecoder(lambda prefix: f"{prefix}_new")
    resumed = new_encoder()
    resumed.restore(decoder.decode_payloads(payloads(sent)), whole.sequence - len(payloads(expected)))
    frames = resumed.feed(REST) + resumed.conclude()
    assert frames == expected
    last: Json = orjson.loads(payloads(frames)[-1])
    assert last["response"]["output"][0]["encrypted_content"] == "sealed of the upstream"
