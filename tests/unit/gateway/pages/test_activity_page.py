"""The read model of the server's work: what has grown since, what failed, and how long it took."""

from collections.abc import Sequence

import pytest

from gateway.pages.activity_page import (
    MAX_ENTRIES,
    ActivityPage,
    FailureCount,
    FigureRow,
    RequestEntry,
    Times,
    build_activity_page,
    estimate_quantile,
)

BOUNDS = (0.1, 0.2, 0.4)


def entry(ended_at: float) -> RequestEntry:
    return RequestEntry(
        ended_at=ended_at,
        request_id="req_1",
        client="team",
        route="/v1/responses",
        model="m",
        upstream="a",
        outcome="ok",
        status=200,
        error="",
        attempts=1,
        tried="",
        total_ms=2.0,
        upstream_ms=1.0,
        queue_ms=0.0,
        own_ms=1.0,
        first_content_ms=None,
        input_tokens=None,
        output_tokens=None,
    )


def build(
    now: Sequence[FigureRow], before: Sequence[FigureRow] = (), entries: Sequence[RequestEntry] = ()
) -> ActivityPage:
    return build_activity_page(now, before, entries, seconds=60, bounds=BOUNDS)


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 0.05),
        ([0, 10, 0, 0], 0.5, 0.15),
        ([5, 5, 0, 0], 0.95, 0.19),
        ([1, 0, 0, 1], 0.95, 0.4),
        ([0, 0, 1, 0], 1.0, 0.4),
    ],
)
def test_a_quantile_is_estimated_inside_of_its_bucket(counts: list[int], share: float, value: float | None) -> None:
    assert estimate_quantile(BOUNDS, counts, share) == (None if value is None else pytest.approx(value))


def test_counts_are_those_since_the_earlier_figures() -> None:
    labels = ("/v1/responses", "m", "a")
    now: list[FigureRow] = [
        ("gateway_requests_total", (*labels, "ok"), 30, ()),
        ("gateway_requests_total", (*labels, "upstream_error"), 4, ()),
        ("gateway_requests_total", (*labels, "failed"), 1, ()),
        ("gateway_requests_total", (*labels, "limited"), 2, ()),
        ("gateway_requests_total", (*labels, "client_error"), 3, ()),
        ("gateway_request_seconds", ("m", "true"), 9.0, (20, 0, 0, 0)),
        ("gateway_request_seconds", ("m", "false"), 9.0, (10, 10, 0, 0)),
        ("gateway_first_content_seconds", ("m", "a"), 9.0, (20, 0, 0, 0)),
        ("gateway_queued", ("m",), 3, ()),
        ("gateway_queued", ("waiting",), 1, ()),
        ("gateway_queued", ("idle",), 0, ()),
        ("gateway_streams_open", (), 5, ()),
        ("gateway_workers", (), 2, ()),
        ("gateway_draining", (), 1, ()),
        ("gateway_series_dropped_total", (), 1, ()),
    ]
    before: list[FigureRow] = [
        ("gateway_requests_total", (*labels, "ok"), 10, ()),
        ("gateway_request_seconds", ("m", "true"), 9.0, (20, 0, 0, 0)),
        ("gateway_first_content_seconds", ("m", "a"), 9.0, (10, 0, 0, 0)),
    ]
    page = build(now, before)
    assert (page.requests, page.failed, page.limited) == (30, 5, 2)
    assert (page.workers, page.streams_open, page.waiting) == (2, 5, 4)
    assert page.is_draining
    assert page.lost
    assert [model.name for model in page.models] == ["m", "waiting"]
    model = page.models[0]
    assert (model.requests, model.failed, model.limited, model.client_errors, model.waiting) == (30, 5, 2, 3, 3)
    assert model.seconds == Times(20, 0.1, 0.19)
    assert model.first_content.count == 10


def test_an_upstream_has_its_failures_and_its_worst_state() -> None:
    page = build(
        [
            ("gateway_attempts_total", ("m", "a", "ok"), 7, ()),
            ("gateway_attempts_total", ("n", "a", "timeout"), 1, ()),
            ("gateway_attempts_total", ("m", "a", "overloaded"), 2, ()),
            ("gateway_attempts_total", ("m", "a", "rejected"), 5, ()),
            ("gateway_attempts_total", ("m", "a", "client_gone"), 5, ()),
            ("gateway_upstream_state", ("m", "a"), 2, ()),
            ("gateway_upstream_state", ("n", "a"), 0, ()),
            ("gateway_upstream_state", ("n", "b"), 1, ()),
            ("gateway_upstream_state", ("n", "c"), 0, ()),
            ("gateway_in_flight", ("a",), 4, ()),
            ("gateway_in_flight", ("alone",), 1, ()),
        ]
    )
    a, alone, b, c = page.upstreams
    assert (a.name, a.state, a.models, a.in_flight, a.attempts, a.failed) == ("a", "ejected", ["m"], 4, 20, 3)
    assert a.failures == [FailureCount("overloaded", 2), FailureCount("timeout", 1)]
    assert (alone.name, alone.state, alone.models, alone.in_flight) == ("alone", "", [], 1)
    assert (b.state, b.models, c.state, c.models) == ("parked", ["n"], "available", [])


def test_counts_that_step_back_are_no_counts() -> None:
    """A worker that died took its counts along."""
    row = ("gateway_attempts_total", ("m", "a", "ok"))
    times = ("gateway_request_seconds", ("m", "true"))
    page = build([(*row, 3, ()), (*times, 1.0, (1, 0, 0, 0))], [(*row, 9, ()), (*times, 1.0, (5, 0, 0, 0))])
    assert [upstream.attempts for upstream in page.upstreams] == []
    assert page.models == []


def test_the_newest_requests_come_first_and_are_bounded() -> None:
    page = build([], entries=[entry(float(number)) for number in range(MAX_ENTRIES + 10)])
    ends = [each.ended_at for each in page.entries]
    assert ends == sorted(ends, reverse=True)
    assert (len(ends), ends[0]) == (MAX_ENTRIES, MAX_ENTRIES + 9)
