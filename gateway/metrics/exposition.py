"""Renders samples as the text that Prometheus reads."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gateway.metrics.families import ALL_FAMILIES
from gateway.metrics.samples import MAX_SERIES, Sample

_MAX_TEXTS: Final = 4 * MAX_SERIES
"""The most series whose text is kept: a restart of workers and a reload may change all of them."""

_PLAIN_COUNT: Final = 1_000_000
"""Counts from here on are written with an exponent."""


class _SeriesText:
    """The text of one series, and the values that it was written for."""

    __slots__ = ("_counts", "_prefixes", "_value", "text")

    def __init__(self, prefixes: Sequence[str]) -> None:
        """`prefixes` are its lines without their values."""
        self._prefixes = prefixes
        self._value: float | None = None
        self._counts: Sequence[int] = ()
        self.text = ""

    def write(self, sample: Sample) -> str:
        """Returns the text with these values."""
        if sample.value != self._value or sample.counts != self._counts:
            self._value, self._counts = sample.value, sample.counts
            values: Sequence[float] = (sample.value,)
            if sample.counts:
                buckets = [*accumulate(sample.counts)]
                values = (*buckets, buckets[-1], sample.value)
            lines = [prefix + _write_value(value) for prefix, value in zip(self._prefixes, values, strict=True)]
            self.text = "\n".join([*lines, ""])
        return self.text


class TextRenderer:
    """Renders samples in one format, again and again. Only the values that have changed are written anew.

    The library writes each series once; what it writes before the values is kept.
    """

    def __init__(self, *, as_openmetrics: bool) -> None:
        self._as_openmetrics = as_openmetrics
        self._heads: dict[str, str] = {}
        self._texts: dict[tuple[str, tuple[str, ...]], _SeriesText] = {}

    def render(self, samples: Sequence[Sample]) -> bytes:
        """Returns the text with these samples."""
        if len(self._texts) > _MAX_TEXTS:
            self._texts.clear()
        by_family: dict[str, list[str]] = {}
        for sample in samples:
            key = (sample.family, sample.labels)
            if (known := self._texts.get(key)) is None:
                known = self._texts[key] = self._learn(sample)
            by_family.setdefault(sample.family, []).append(known.write(sample))
        parts = [part for name in ALL_FAMILIES if name in by_family for part in (self._heads[name], *by_family[name])]
        return "".join([*parts, "# EOF\n" if self._as_openmetrics else ""]).encode()

    def _learn(self, sample: Sample) -> _SeriesText:
        lines = render_samples([sample], as_openmetrics=self._as_openmetrics).decode().split("\n")
        lines = [line for line in lines if line not in ("", "# EOF")]
        if sample.family not in self._heads:
            self._heads[sample.family] = "".join(f"{line}\n" for line in lines if line.startswith("# "))
        return _SeriesText([line.rpartition(" ")[0] + " " for line in lines if not line.startswith("# ")])


def _write_value(value: float) -> str:
    if type(value) is int and 0 <= value < _PLAIN_COUNT:
        return f"{value}.0"
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]  # the library has no types for it
    return text


class _Samples(Collector):
    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Metric]:
        by_family: dict[str, list[Sample]] = {}
        for sample in self._samples:
            by_family.setdefault(sample.family, []).append(sample)
        for name in ALL_FAMILIES:
            if (samples := by_family.get(name)) is not None:
                yield _build_metric(name, samples)


def render_samples(samples: Sequence[Sample], *, as_openmetrics: bool = False) -> bytes:
    """Returns the text with these samples. It takes milliseconds for each thousand of them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    return (generate_openmetrics if as_openmetrics else generate_latest)(registry)


def _build_metric(name: str, samples: Sequence[Sample]) -> Metric:
    family = ALL_FAMILIES[name]
    match family.kind:
        case "histogram":
            histogram = HistogramMetricFamily(name, family.help, labels=family.labels)
            bounds = [*(f"{bound:g}" for bound in family.bounds), "+Inf"]
            for sample in samples:
                buckets = list(zip(bounds, accumulate(sample.counts), strict=True))
                histogram.add_metric(sample.labels, buckets, sample.value)
            return histogram
        case "counter":
            counter = CounterMetricFamily(name, family.help, labels=family.labels)
            for sample in samples:
                counter.add_metric(sample.labels, sample.value)
            return counter
        case "gauge":
            gauge = GaugeMetricFamily(name, family.help, labels=family.labels)
            for sample in samples:
                gauge.add_metric(sample.labels, sample.value)
            return gauge
