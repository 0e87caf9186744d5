"""Recorded streams of real servers, through the events, as runs of AG-UI."""

from pathlib import Path
from typing import Any

import pytest

from gateway.dialects.agui.reply import AguiReplyEncoder, encode_stored_run
from tests.agui_events import OLD_EVENTS, read_run
from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.translator_drivers import feed_to_end
from translation.agui.encode import AguiEncoder
from translation.agui.run import RunHead
from translation.representation.json_types import Json
from translation.responses.client.initial_response import new_response
from translation.responses.client.snapshot import Snapshot

HEAD = new_response({"model": "m", "input": "a"}, response_id="resp_1", created_at=100, model="m")


def collect_contents(run: list[Json]) -> tuple[dict[str, Json], str, Any]:
    """Returns what a client has of a run: each message and call by its id, how the run ended, and its error's code.

    The order of parallel calls, empty messages and counts of tokens are left out: a stored response has others.
    """
    contents: dict[str, Json] = {}
    for event in run:
        match event["type"]:
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                message = contents.setdefault(event["messageId"], {"type": event["type"], "text": ""})
                message["text"] += event["delta"]
            case "TOOL_CALL_START":
                contents[event["toolCallId"]] = {"name": event["toolCallName"], "arguments": ""}
            case "TOOL_CALL_ARGS":
                contents[event["toolCallId"]]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                contents[event["toolCallId"]]["result"] = event["content"]
            case "REASONING_ENCRYPTED_VALUE":
                contents[f"encrypted {event['entityId']}"] = {"value": event["encryptedValue"]}
    return contents, run[-1]["type"], run[-1].get("code")


def build_encoder(*, is_versioned: bool) -> AguiEncoder:
    head = RunHead(thread_id="t", run_id="r", is_versioned=is_versioned)
    return AguiEncoder(head, response_id="resp_1", model="m")


@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_recorded_stream_equals_the_run_of_its_stored_response(recording: Path) -> None:
    batches = decode_recording(recording)
    for is_versioned in (True, False):
        snapshot = Snapshot(HEAD, lambda: 105)
        reply = AguiReplyEncoder(build_encoder(is_versioned=is_versioned), snapshot)
        run = read_run(feed_to_end(reply, *batches))
        response: Any = snapshot.result()
        stored = read_run(encode_stored_run(response, build_encoder(is_versioned=is_versioned)))
        assert collect_contents(run) == collect_contents(stored)
        assert is_versioned or {event["type"] for event in run} <= OLD_EVENTS
