"""Recorded replies, damaged: clients get a well-formed answer or one named failure, and never an internal error."""

import json
from pathlib import Path
from random import Random

import orjson
import pytest

from tests.faults.client_view import Json, client, frames, question
from tests.faults.config import LONG_S, config
from tests.faults.routes import NATIVE_ROUTES, ROUTES
from tests.fuzz.mutations import mutated
from tests.serving import serving
from tests.upstream import Reply, ScriptedUpstream
from tests.upstream.builders import DONE, SSE, data_frame, json_reply
from tests.upstream.ollama import ollama_lines

REPLIES_PER_ROUTE = 80
GOLDEN = Path(__file__).parents[1] / "golden"
WAYS = ROUTES | NATIVE_ROUTES

FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])


@pytest.mark.parametrize(("path", "dialect"), WAYS.values(), ids=WAYS)
@FORMS
async def test_a_damaged_reply_is_forwarded_well_formed_or_reported(path: str, dialect: str, stream: bool) -> None:
    random = Random(f"{path} {dialect} {stream}")
    recordings = _streams(dialect) if stream else _answers(dialect)
    strangers = [whole for recording in recordings for whole in recording]
    async with ScriptedUpstream() as upstream, client() as asking:
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for number in range(REPLIES_PER_ROUTE):
                damaged = list(random.choice(recordings))
                at = random.randrange(len(damaged))
                damaged[at] = mutated(random, damaged[at], strangers)
                upstream.script(_reply(dialect, damaged) if stream else json_reply(damaged[0]))
                reply = await asking.post(gateway.v1 + path, json=question(path, stream=stream))
                message = f"reply {number}, damaged at {at}: {json.dumps(damaged[at])}"
                assert b"internal_error" not in reply.content, message
                if reply.status_code != 200:
                    assert reply.status_code != 500, message
                    assert list(reply.json()["error"]) == ["message", "type", "param", "code"], message
                elif stream:
                    assert all(orjson.loads(data) for _, data in frames(reply.content)), message
                else:
                    assert reply.json(), message


def _reply(dialect: str, chunks: list[Json]) -> Reply:
    if dialect == "ollama":
        return ollama_lines(chunks)
    return Reply(headers=SSE, body=b"".join(map(data_frame, chunks)) + DONE)


def _streams(dialect: str) -> list[list[Json]]:
    lines = [list(map(orjson.loads, each.read_bytes().splitlines())) for each in _recordings(dialect, "ndjson")]
    return lines + [_frames(recording) for recording in _recordings(dialect, "sse")]


def _recordings(dialect: str, form: str) -> list[Path]:
    return sorted((GOLDEN / dialect).glob(f"*.{form}"))


def _frames(recording: Path) -> list[Json]:
    lines = [line.removeprefix("data:").strip() for line in recording.read_text().splitlines() if line[:5] == "data:"]
    return [orjson.loads(line) for line in lines if line != "[DONE]"]


def _answers(dialect: str) -> list[list[Json]]:
    return [[orjson.loads(recording.read_bytes())] for recording in _recordings(dialect, "json")]
