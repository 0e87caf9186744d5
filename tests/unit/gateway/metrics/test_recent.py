"""What a worker keeps of the last minutes: requests without content, and figures of earlier times."""

from typing import NamedTuple

from gateway.metrics.recent import ActivityLog, RecentRequest, RecentRequests
from gateway.metrics.samples import Sample

SECRET = "the text of a client"
FIELDS = {
    "request_id": "req_1",
    "client": "team",
    "model": "m",
    "attempts": 2,
    "tried": [{"upstream": "b", "result": "overloaded", "ms": 1.0}, {"upstream": "a", "result": "ok", "ms": 2.0}],
    "error": 17,
    "input_tokens": 5,
    "other": SECRET,
}


class Times(NamedTuple):
    began: int
    upstream_ns: int
    content_ns: int


def request(outcome: str, number: int = 0) -> RecentRequest:
    labels = ("/v1/responses", "m", "a", outcome, True)
    return Times(number, 3_000_000, 2_000_000), 5_000_000, 200, labels, {**FIELDS, "queue_ms": 1.0}


def test_successes_do_not_push_out_failures() -> None:
    requests = RecentRequests()
    requests.choose("upstream_error").append(request("upstream_error"))
    for number in range(1000):
        requests.choose("ok").append(request("ok", number))
    outcomes = [entry.outcome for entry in requests.list_entries()]
    assert (outcomes.count("ok"), outcomes.count("upstream_error")) == (100, 1)


def test_an_entry_has_times_and_no_content() -> None:
    requests = RecentRequests()
    requests.latest.append(request("ok"))
    (entry,) = requests.list_entries()
    assert (entry.total_ms, entry.upstream_ms, entry.queue_ms, entry.own_ms, entry.first_content_ms) == (5, 3, 1, 1, 2)
    assert (entry.client, entry.model, entry.attempts, entry.tried) == ("team", "m", 2, "b: overloaded")
    assert (entry.error, entry.input_tokens, entry.output_tokens, entry.status) == ("", 5, None, 200)
    assert SECRET not in str(entry)


async def test_figures_are_compared_with_the_oldest_that_are_kept() -> None:
    now, count = 0.0, 0

    async def take_snapshot() -> list[Sample]:
        return [Sample("gateway_workers", (), count), Sample("gateway_store_seconds", ("read",), 1.0, (1,))]

    log = ActivityLog(take_snapshot, RecentRequests(), lambda: now)
    now, count = 10.0, 1
    activity = await log.take_activity()
    assert (activity.seconds, activity.before) == (10, ())
    assert activity.now == [Sample("gateway_workers", (), 1)], "others are not on the page"
    for _ in range(40):
        now, count = now + 30, count + 1
        await log.add_mark()
    activity = await log.take_activity()
    assert activity.seconds == 270
    assert activity.before == [Sample("gateway_workers", (), 32)]
