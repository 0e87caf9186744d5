"""Reads lines of Ollama's API, and holds them to the official client's types."""

from typing import Any

import orjson

Json = dict[str, Any]

_TEXT_KEYS = ("content", "thinking", "response")


def read_lines(wire: bytes) -> list[Json]:
    """The objects of a stream, one on each line."""
    assert not wire or wire.endswith(b"\n")
    return [orjson.loads(line) for line in wire.split(b"\n")[:-1]]


def check_lines(wire: bytes) -> Json:
    """The whole reply that the lines of a stream add up to. Only the last one is done."""
    lines = read_lines(wire)
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    whole: Json = {key: value for key, value in lines[-1].items() if key not in ("message", *_TEXT_KEYS)}
    message: Json = {}
    logprobs: list[Json] = []
    for line in lines:
        assert (line["model"], line["created_at"]) == (whole["model"], whole["created_at"])
        logprobs += line.get("logprobs") or ()
        for key, value in (line.get("message") or line).items():
            if key in _TEXT_KEYS:
                message[key] = message.get(key, "") + value
            elif key == "tool_calls":
                message[key] = [*message.get(key, ()), *value]
            elif key == "role":
                message[key] = value
    if logprobs:
        whole["logprobs"] = logprobs
    return {**whole, **({"message": message} if "message" in lines[-1] else message)}
