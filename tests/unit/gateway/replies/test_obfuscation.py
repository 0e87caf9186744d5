"""The padding of deltas."""

import orjson
import pytest

from gateway.replies.obfuscation import pad_frames
from translation.framing import sse

UNCHANGED = {
    "nothing": b"",
    "a comment": b": keep-alive\n\n",
    "the end": sse.DONE_FRAME,
    "an event that is no delta": sse.encode_event("response.output_text.done", b'{"delta":"a"}'),
    "a chunk of usage": sse.encode_data(b'{"choices":[],"usage":{}}'),
    "a delta that the upstream padded": sse.encode_event("response.output_text.delta", b'{"obfuscation":"x"}'),
    "a delta that is cut off": b'event: response.output_text.delta\ndata: {"delta":"a',
}


@pytest.mark.parametrize("frames", UNCHANGED.values(), ids=UNCHANGED)
def test_other_frames_are_unchanged(frames: bytes) -> None:
    assert pad_frames(frames) == frames


@pytest.mark.parametrize("event", ["response.output_text.delta", "response.function_call_arguments.delta", None])
@pytest.mark.parametrize("text", ["", "a", "ü" * 50, 'of "obfuscation":', "x" * 500])
def test_a_delta_gets_random_text_up_to_a_common_size(event: str | None, text: str) -> None:
    payload = {"delta": text, "sequence_number": 5}
    encoded = orjson.dumps(payload)
    frame = sse.encode_data(encoded) if event is None else sse.encode_event(event, encoded)
    padded = [pad_frames(frame) for _ in range(2)]
    for each in padded:
        assert len(each) % 128 == 0
        assert sse.FrameDecoder().feed(each)[0].event == event
        read = orjson.loads(sse.FrameDecoder().feed(each)[0].payload)
        assert read.pop("obfuscation")
        assert read == payload
    assert len(frame) % 128 > 90 or padded[0] != padded[1], "long padding differs from frame to frame"


def test_each_frame_of_a_read_is_padded() -> None:
    frame = sse.encode_event("response.output_text.delta", b'{"delta":"a"}')
    done = sse.encode_event("response.output_text.done", b'{"text":"a"}')
    padded = pad_frames(frame + frame + done)
    assert padded.endswith(done)
    assert padded.count(b'"obfuscation":"') == 2
