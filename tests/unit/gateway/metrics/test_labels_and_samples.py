"""The values of labels are bounded, and so is the number of series; several workers become one server."""

from random import Random
from typing import Any

import pytest
from fastapi.routing import APIRoute
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.config.settings import parse_settings
from gateway.dialects.table import CLIENT_DIALECTS
from gateway.histograms import OVERHEAD_BOUNDS, SECONDS_BOUNDS
from gateway.http.guard import DrainState
from gateway.metrics.exposition import TextRenderer, render_samples
from gateway.metrics.families import ALL_FAMILIES
from gateway.metrics.labels import ModelLabels, RouteLabels, find_first_part
from gateway.metrics.params import KNOWN_PARAMS
from gateway.metrics.replies import OPENMETRICS, TEXT, choose_format
from gateway.metrics.samples import Sample, Series, merge_samples
from gateway.service.provider_lifetimes import build_providers
from gateway.service.service import Service


def test_the_buckets_are_those_of_the_conventions() -> None:
    assert [f"{bound:g}" for bound in SECONDS_BOUNDS[:3]] == ["0.01", "0.02", "0.04"]
    assert f"{SECONDS_BOUNDS[-1]:g}" == "81.92"
    assert (f"{OVERHEAD_BOUNDS[0]:g}", f"{OVERHEAD_BOUNDS[-1]:g}") == ("0.0005", "0.512")


@pytest.mark.parametrize(
    ("model", "label"),
    [("m", "m"), ("m2", "m*"), ("other", "other"), ("x", "other"), ("m" * 9999, "m*"), ("", "other")],
)
def test_models_are_labelled_by_the_configuration(model: str, label: str) -> None:
    assert ModelLabels(["m", "m*"]).find(model) == label


@pytest.mark.parametrize(
    ("scope", "label", "is_for_model"),
    [
        ({"path": "/v1/x", "method": "POST"}, "/v1/x", True),
        ({"path": "/v1/x", "method": "GET"}, "/v1/x", False),
        ({"path": "/v1/y", "method": "POST"}, "/v1/y", False),
        ({"path": "/m/secret:do", "method": "POST"}, "other", False),
    ],
)
def test_paths_are_labelled_by_templates(scope: Any, label: str, is_for_model: bool) -> None:
    routes = RouteLabels(["/v1/x", "/v1/y", "/m/{model:path}:do"], ["/v1/x", "/m/{model:path}:do"])
    assert routes.find(scope) == label
    assert routes.is_for_model(scope, label) == is_for_model


def test_a_template_has_no_types_and_no_method() -> None:
    class Route:
        path = "/m/{model:path}:do"

    routes = RouteLabels([Route.path])
    assert routes.find({"path": "/m/a/b:do", "method": "POST", "route": Route()}) == "/m/{model}"


@pytest.mark.parametrize(
    ("param", "first"), [("text.format", "text"), ("tools[3].name", "tools"), ("sk-1", "other"), ("", "other")]
)
def test_losses_are_labelled_by_known_parameters(param: str, first: str) -> None:
    assert find_first_part(param) == first


def test_the_known_parameters_are_those_of_the_schemas() -> None:
    settings = parse_settings({"store": {"url": None}}, environ={})
    service = Service(settings, build_providers(settings), DrainState())
    names: set[str] = set()
    for dialect in CLIENT_DIALECTS:
        for build_routes in dialect.routes:
            for route in build_routes(service).routes:
                if isinstance(route, APIRoute) and route.openapi_extra is not None:
                    for content in route.openapi_extra["requestBody"]["content"].values():
                        names |= set(content["schema"]().get("properties", {}))
    assert names - KNOWN_PARAMS == set()


def test_beyond_the_limit_series_are_dropped_and_counted() -> None:
    series = Series(limit=2)
    for model in ("a", "b", "c", "a"):
        series.count("gateway_retries_total", model, "next").value += 1
    series.histogram("gateway_queue_seconds", "d").observe(1)
    samples = {(sample.family, sample.labels): sample.value for sample in series.take_samples()}
    assert samples == {
        ("gateway_retries_total", ("a", "next")): 2,
        ("gateway_retries_total", ("b", "next")): 1,
        ("gateway_series_dropped_total", ()): 2,
    }


def test_workers_are_added_up_by_the_kind_of_each_metric() -> None:
    first = [
        Sample("gateway_streams_open", (), 2),
        Sample("gateway_draining", (), 1),
        Sample("gateway_build_info", ("1",), 1),
        Sample("process_start_time_seconds", (), 50),
        Sample("gateway_event_loop_lag_seconds", (), 1.5, (1, 2)),
    ]
    second = [
        Sample("gateway_streams_open", (), 3),
        Sample("gateway_draining", (), 0),
        Sample("gateway_build_info", ("1",), 1),
        Sample("process_start_time_seconds", (), 40),
        Sample("gateway_event_loop_lag_seconds", (), 0.5, (0, 1)),
        Sample("gateway_queued", ("m",), 4),
    ]
    assert merge_samples([first, second]) == [
        Sample("gateway_streams_open", (), 5),
        Sample("gateway_draining", (), 1),
        Sample("gateway_build_info", ("1",), 1),
        Sample("process_start_time_seconds", (), 40),
        Sample("gateway_event_loop_lag_seconds", (), 2.0, (1, 3)),
        Sample("gateway_queued", ("m",), 4),
    ]


def test_all_together_have_no_more_series_than_one() -> None:
    samples = [Sample("gateway_queued", (str(number),), 1) for number in range(5)]
    merged = merge_samples([samples], limit=3)
    assert merged[:3] == samples[:3]
    assert merged[3:] == [Sample("gateway_series_dropped_total", (), 2)]


def test_every_metric_can_be_rendered_and_parsed() -> None:
    samples = [
        Sample(name, ("x",) * len(family.labels), 1, (1,) * (len(family.bounds) + 1) if family.bounds else ())
        for name, family in ALL_FAMILIES.items()
    ]
    families = {family.name: family for family in parse_text(render_samples(samples).decode())}
    assert {name.removesuffix("_total") for name in ALL_FAMILIES} == set(families)
    assert families["gateway_queue_seconds"].samples[-2].value == len(SECONDS_BOUNDS) + 1


def test_a_text_of_the_configuration_is_escaped() -> None:
    text = render_samples([Sample("gateway_queued", ('a"\n\\b',), 1)]).decode()
    (family,) = parse_text(text)
    assert family.samples[0].labels == {"model": 'a"\n\\b'}


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (b"", TEXT),
        (b"*/*", TEXT),
        (b"text/plain", TEXT),
        (b"application/openmetrics-text; version=1.0.0", OPENMETRICS),
        (b"Application/OpenMetrics-Text", OPENMETRICS),
    ],
)
def test_the_format_is_chosen_by_accept(accept: bytes, form: object) -> None:
    assert choose_format(accept) is form


_ODD_LABELS = ('a"\n\\b', "\u2028\x85\r\x0b", "", "# EOF", "1 2", "\N{SNOWMAN}")
_ODD_VALUES = (0, 1, 999_999, 1_000_000, 123_456_789, 0.1, 1e-9, 2.5e15, float("inf"), float("nan"), -3)


def _sample_everything(rng: Random) -> list[Sample]:
    """Returns samples of all metrics with odd labels and values. The same seed chooses the same."""
    samples = []
    for name, family in ALL_FAMILIES.items():
        for label in _ODD_LABELS[: len(family.labels) * len(_ODD_LABELS) or 1]:
            labels = tuple(label for _ in family.labels)
            counts = tuple(rng.choice((0, 1, 7, 2_000_000)) for _ in range(len(family.bounds) + 1))
            samples.append(Sample(name, labels, rng.choice(_ODD_VALUES), counts if family.bounds else ()))
    return samples


@pytest.mark.parametrize("as_openmetrics", [False, True])
def test_the_text_is_that_of_the_library_however_values_change(as_openmetrics: bool) -> None:
    renderer, rng = TextRenderer(as_openmetrics=as_openmetrics), Random(3)
    known: dict[tuple[str, tuple[str, ...]], Sample] = {}
    for _ in range(20):
        for sample in _sample_everything(rng):
            if rng.random() < 0.5 or (sample.family, sample.labels) not in known:
                known[sample.family, sample.labels] = sample
        samples = rng.sample([*known.values()], rng.randrange(1, len(known)))  # series come and go
        expected = render_samples(samples, as_openmetrics=as_openmetrics)
        assert renderer.render(samples) == expected
        assert renderer.render(samples) == expected, "nothing has changed"
    assert renderer.render([]) == render_samples([], as_openmetrics=as_openmetrics)


def test_texts_of_series_that_are_gone_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.metrics.exposition._MAX_TEXTS", 20)
    renderer = TextRenderer(as_openmetrics=False)
    for start in range(0, 100, 10):
        samples = [Sample("gateway_queued", (f"model-{number}",), 1) for number in range(start, start + 10)]
        assert renderer.render(samples) == render_samples(samples)
        assert len(renderer._texts) <= 30
