"""bench/fleet/stream_clients.py: what counts as a problem of a stream."""

import pytest

from bench.fleet.stream_clients import EventChecker, StreamProblem


def follow(*events: dict[str, object]) -> EventChecker:
    checker = EventChecker()
    for event in events:
        checker.check(event)
    return checker


CREATED: dict[str, object] = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}
DELTA: dict[str, object] = {"type": "response.output_text.delta", "sequence_number": 1, "delta": "Hi"}


def completed(text: str, number: int = 2) -> dict[str, object]:
    output = [{"content": [{"text": text}]}]
    return {"type": "response.completed", "sequence_number": number, "response": {"output": output}}


def test_a_stream_without_a_gap_is_complete() -> None:
    checker = follow(CREATED, DELTA, completed("Hi"))
    assert (checker.response_id, checker.text, checker.is_complete) == ("resp_1", "Hi", True)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([CREATED, completed("Hi")], "event 2 follows event 0"),
        ([CREATED, CREATED], "event 0 follows event 0"),
        ([CREATED, DELTA, completed("Ho")], "not that of its deltas"),
        ([CREATED, {"type": "response.failed", "sequence_number": 1, "response": {}}], "response.failed"),
    ],
    ids=["a gap", "a repetition", "another text", "a failure"],
)
def test_a_gap_a_repetition_and_a_failure_are_problems(events: list[dict[str, object]], problem: str) -> None:
    with pytest.raises(StreamProblem, match=problem):
        follow(*events)
