"""The values of requests wait in lists, and are added to the series together: with the same results as one by one."""

from contextvars import copy_context
from random import Random

import pytest

from gateway.config.settings import Settings
from gateway.histograms import OVERHEAD_BOUNDS, SECONDS_BOUNDS, Histogram
from gateway.logs import clear_fields, read_bound_fields
from gateway.metrics.labels import RouteLabels
from gateway.metrics.reader import MetricsReader
from gateway.metrics.samples import Series
from gateway.replies.observers import ReplyEnd
from gateway.replies.request_figures import RequestFigures, RequestWatch
from providers.errors import UpstreamTimeout
from translation.representation.events import Failed, Usage

_SCOPE = {"type": "http", "method": "POST", "path": "/v1/responses"}


def _new_meter() -> MetricsReader:
    meter = MetricsReader(Series(), lambda: Settings.model_validate({"store": {"url": None}}))
    meter.routes = RouteLabels(["/v1/responses"], ["/v1/responses"])
    return meter


def _begin(meter: MetricsReader, *, streams: bool = False, is_shared: bool = False) -> RequestFigures:
    watch = RequestWatch(meter)
    figures = watch.begin_request(_SCOPE, 0)
    assert watch.observe_request("responses", "m", streams=streams, is_shared=is_shared) is figures
    figures.observe_attempt("gpu", 1, "m")
    return figures


def _end(figures: RequestFigures, elapsed_ns: int = 1) -> None:
    """Ends a request whose log line has no failure, whatever its attempts have bound."""
    clear_fields()
    figures.end(200, elapsed_ns, read_bound_fields())


def _read(meter: MetricsReader) -> dict[str, float]:
    """Returns the values of all series, by the metric's name and the last label; of histograms the number of values."""
    meter.add_up()
    return _read_added(meter)


def _read_added(meter: MetricsReader) -> dict[str, float]:
    """Returns the same without the values that wait."""
    return {
        ".".join((each.family.removeprefix("gateway_"), *each.labels[-1:])): sum(each.counts) or each.value
        for each in meter.series.take_samples()
    }


@pytest.mark.parametrize("count", [0, 1, 13, 14, 15, 500])
@pytest.mark.parametrize("bounds", [SECONDS_BOUNDS, OVERHEAD_BOUNDS])
def test_many_values_at_once_count_like_one_by_one(bounds: tuple[float, ...], count: int) -> None:
    rng = Random(7)
    values = [rng.choice([*bounds, 0.0, 1e9, rng.expovariate(1)]) for _ in range(count)]
    one_by_one, at_once = Histogram(bounds), Histogram(bounds)
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(list(values))
    assert at_once.counts == one_by_one.counts
    assert at_once.total == pytest.approx(one_by_one.total)


def test_values_are_added_up_once() -> None:
    meter = _new_meter()
    for _ in range(3):
        figures = _begin(meter)
        figures.observe_end(ReplyEnd(Usage(input=5, output=2, cache_read=4, reasoning=1)))
        _end(figures, 5_000_000)
    expected = {
        "requests_total.ok": 3,
        "request_seconds.false": 3,
        "overhead_seconds./v1/responses": 3,
        "tokens_total.input": 15,
        "tokens_total.output": 6,
        "tokens_total.cached": 12,
        "tokens_total.reasoning": 3,
        "attempts_total.ok": 3,
        "attempt_seconds.ok": 3,
        "first_content_seconds.gpu": 0,
        "output_interval_seconds.gpu": 0,
        "series_dropped_total": 0,
    }
    assert _read(meter) == expected
    assert _read(meter) == expected  # nothing is added again
    assert meter.count_in_flight() == {"gpu": 0}


def test_no_more_than_64_values_wait() -> None:
    meter = _new_meter()
    for _ in range(200):
        figures = _begin(meter)
        figures.observe_end(ReplyEnd(Usage(input=5)))
        _end(figures)
    added = _read_added(meter)
    assert (added["requests_total.ok"], added["attempts_total.ok"], added["tokens_total.input"]) == (192, 192, 960)
    values = _read(meter)
    assert (values["requests_total.ok"], values["attempts_total.ok"], values["tokens_total.input"]) == (200, 200, 1000)


def test_a_stream_has_one_time_to_content_and_one_interval() -> None:
    meter = _new_meter()
    figures = _begin(meter, streams=True)
    assert (meter.open_streams, meter.count_in_flight()) == (1, {"gpu": 1})
    figures.observe_content()
    figures.observe_end(ReplyEnd(Usage(output=3)))
    _end(figures)
    values = _read(meter)
    assert (values["first_content_seconds.gpu"], values["output_interval_seconds.gpu"]) == (1, 1)
    assert (meter.open_streams, meter.count_in_flight()) == (0, {"gpu": 0})


def test_shared_turns_count_their_attempts_themselves() -> None:
    meter = _new_meter()
    for failed in (None, Failed(code="server_error", message="")):
        figures = _begin(meter, is_shared=True)
        assert meter.count_in_flight() == {}
        figures.observe_end(ReplyEnd(Usage(input=5), failed=failed))
        _end(figures)
    values = _read(meter)
    assert not [name for name in values if name.startswith("attempt")]
    assert (values["requests_total.ok"], values["tokens_total.input"]) == (2, 10)


def test_the_exception_of_an_attempt_is_its_result() -> None:
    meter = _new_meter()
    figures = _begin(meter)
    try:
        raise UpstreamTimeout("late")
    except UpstreamTimeout:
        figures.observe_end(ReplyEnd())
    figures.observe_attempt("gpu", 2, "m")
    figures.observe_end(ReplyEnd(is_cut_off=True))
    _end(figures)
    values = _read(meter)
    assert (values["attempts_total.timeout"], values["attempts_total.ok"]) == (1, 1)
    assert (values["attempt_seconds.failed"], values["attempt_seconds.ok"]) == (1, 1)
    assert values["requests_total.incomplete"] == 1


def test_what_runs_on_after_a_request_has_figures_of_its_own() -> None:
    def run(ends_before: bool) -> None:
        meter = _new_meter()
        watch = RequestWatch(meter)
        figures = watch.begin_request({**_SCOPE, "method": "GET"}, 0)
        if ends_before:
            figures.end(200, 1, read_bound_fields())
        else:
            watch.observe_request("responses", "m", streams=False, is_shared=False)
        assert watch.observe_request("responses", "m", streams=True, is_shared=False) is not figures
        assert meter.open_streams == 0, "nobody ends it: a plan may be made in a thread for a client who has left"

    for ends_before in (True, False):
        copy_context().run(run, ends_before)


def test_a_job_that_is_planned_after_its_client_has_left_does_not_belong_to_the_request() -> None:
    """A large body is planned in a thread, which goes on when its request is cancelled."""
    meter = _new_meter()
    watch = RequestWatch(meter, job_paths={"responses": "/v1/responses"})
    figures = watch.begin_request(_SCOPE, 0)
    figures.leave()
    figures.end(499, 1, {})
    late = watch.observe_request("responses", "m", streams=True, is_shared=False, is_job=True)
    assert late is not figures
    assert meter.open_streams == 0
