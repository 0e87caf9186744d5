"""A garbled stream has one outcome at the client, however the upstream's bytes are cut into reads."""

import asyncio
import json

import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, Seen, ask
from tests.faults.config import StartGateway, config
from tests.upstream import Reply, ScriptedUpstream, chat_chunk
from tests.upstream.builders import DONE, SSE, data_frame

BAD = b"data: {oops}\n\n"
PAIR = [b'"content":"a"', b'"content":"\\ud83d"', b'"content":"\\ude00b"']


def text_frames(*texts: bytes) -> bytes:
    """Returns frames of text deltas. The texts are JSON members as they are written."""
    frame = data_frame(chat_chunk({"content": "TEXT"}))
    member = b'"content":"TEXT"' if b'"content":"TEXT"' in frame else b'"content": "TEXT"'
    return b"".join(frame.replace(member, text) for text in texts)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_text_before_a_bad_frame_is_not_lost(path: str, gateway: StartGateway) -> None:
    role = data_frame(chat_chunk({"role": "assistant"}))
    texts = [text_frames(b'"content":"%b"' % word) for word in (b"one ", b"two ")]
    stream = role + b"".join(texts) + BAD
    splits = [[stream], [role, *texts, BAD], [stream[:-5], stream[-5:]], [role + texts[0], texts[1] + BAD]]
    async with ScriptedUpstream() as upstream:
        base_url = gateway(config(upstream.url, "chat")).v1
        for split in splits:
            upstream.script(Reply(headers=SSE, body=split))
            seen = await ask(base_url, path, stream=True)
            assert seen == Seen(200, "failed", code="upstream_garbled", text="one two ")
        upstream.script(Reply(headers=SSE, body=[role + BAD + texts[0]]))
        assert await ask(base_url, path, stream=True) == Seen(502, "refused", "upstream_garbled")


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_character_split_over_two_deltas_is_joined(path: str, gateway: StartGateway) -> None:
    frames = [text_frames(text) for text in PAIR]
    end = data_frame(chat_chunk({}, finish_reason="stop")) + DONE
    async with ScriptedUpstream() as upstream:
        base_url = gateway(config(upstream.url, "chat")).v1
        for split in ([*frames, end], [b"".join(frames) + end], [frames[0], frames[1] + frames[2] + end]):
            upstream.script(Reply(headers=SSE, body=split))
            seen = await ask(base_url, path, stream=True)
            assert (seen.status, seen.ending, seen.text) == (200, "completed", "a😀b")
        upstream.script(Reply(headers=SSE, body=[frames[1], frames[2] + end]))
        assert (await ask(base_url, path, stream=True)).text == "😀b"


async def test_a_character_of_a_relayed_response_is_joined(gateway: StartGateway) -> None:
    place: Json = {"item_id": "m", "output_index": 0, "content_index": 0}
    item: Json = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    part: Json = {"type": "output_text", "text": "😀", "annotations": []}
    whole: Json = {"id": "r", "object": "response", "status": "completed", "output": [{**item, "content": [part]}]}
    events: list[Json] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "\ud83d"},
        {"type": "response.output_text.delta", **place, "delta": "\ude00"},
        {"type": "response.completed", "response": {**whole, "error": None, "usage": None}},
    ]
    frames = [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
        for number, event in enumerate(events)
    ]
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=frames))
        base_url = gateway(config(upstream.url, "responses")).v1
        seen = await asyncio.wait_for(ask(base_url, RESPONSES, stream=True, store=False), 20)
    assert (seen.status, seen.ending, seen.text) == (200, "completed", "😀")
