"""Reads recorded replies of upstreams, and sends them, damaged or not."""

from pathlib import Path
from typing import Final

import orjson

from tests.faults.client_view import Json
from tests.upstream import Reply
from tests.upstream.builders import DONE, SSE, data_frame
from tests.upstream.ollama import ollama_lines

GOLDEN: Final = Path(__file__).parents[1] / "golden"


def build_reply(dialect: str, chunks: list[Json]) -> Reply:
    if dialect == "ollama":
        return ollama_lines(chunks)
    return Reply(headers=SSE, body=b"".join(map(data_frame, chunks)) + DONE)


def read_streams(dialect: str) -> list[list[Json]]:
    lines = [list(map(orjson.loads, each.read_bytes().splitlines())) for each in _list_recordings(dialect, "ndjson")]
    return lines + [_frames(recording) for recording in _list_recordings(dialect, "sse")]


def _list_recordings(dialect: str, form: str) -> list[Path]:
    return sorted((GOLDEN / dialect).glob(f"*.{form}"))


def _frames(recording: Path) -> list[Json]:
    lines = [line.removeprefix("data:").strip() for line in recording.read_text().splitlines() if line[:5] == "data:"]
    return [orjson.loads(line) for line in lines if line != "[DONE]"]


def read_answers(dialect: str) -> list[list[Json]]:
    return [[orjson.loads(recording.read_bytes())] for recording in _list_recordings(dialect, "json")]
