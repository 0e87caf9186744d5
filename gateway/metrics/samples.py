"""Samples of metrics, what one worker counted, and how those of several workers are added up."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from gateway.histograms import Histogram
from gateway.metrics.families import ALL_FAMILIES

MAX_SERIES: Final = 5000
"""The most label sets of one worker."""


class Sample(NamedTuple):
    """One value of a metric. That of a histogram has the counts of its buckets, and the sum."""

    family: str
    labels: tuple[str, ...]
    value: float
    counts: Sequence[int] = ()


WorkerSamples: TypeAlias = Sequence[Sample]


def parse_samples(rows: Iterable[Sequence[Any]]) -> WorkerSamples:
    """Returns the samples of another worker, from JSON."""
    return [Sample(family, tuple(labels), value, tuple(counts)) for family, labels, value, counts in rows]


def parse_snapshot(content: bytes) -> WorkerSamples:
    """Returns the samples that another worker sent."""
    return parse_samples(orjson.loads(content))


def sample_histogram(family: str, labels: tuple[str, ...], histogram: Histogram) -> Sample:
    """Returns the sample of a histogram."""
    return Sample(family, labels, histogram.total, tuple(histogram.counts))


class Count:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Series:
    """The counters and histograms of one worker, by metric and labels.

    Only the event loop adds to them. They can be read in any thread.
    """

    def __init__(self, limit: int = MAX_SERIES) -> None:
        self.dropped = Count()
        self._limit = limit
        self._counts: dict[tuple[str, tuple[str, ...]], Count] = {}
        self._histograms: dict[tuple[str, tuple[str, ...]], Histogram] = {}

    def count(self, family: str, *labels: str) -> Count:
        """Returns the counter with these labels. Beyond the limit of label sets it returns a counter that is not
        reported."""
        key = (family, labels)
        if (known := self._counts.get(key)) is None:
            known = Count()
            if self._has_room():
                self._counts[key] = known
        return known

    def histogram(self, family: str, *labels: str) -> Histogram:
        """Returns the histogram with these labels. Beyond the limit of label sets it returns a histogram that is not
        reported."""
        key = (family, labels)
        if (known := self._histograms.get(key)) is None:
            known = Histogram(ALL_FAMILIES[family].bounds)
            if self._has_room():
                self._histograms[key] = known
        return known

    def take_samples(self) -> list[Sample]:
        """Returns all values as they are now."""
        samples = [Sample(family, labels, count.value) for (family, labels), count in list(self._counts.items())]
        samples += [sample_histogram(*key, histogram) for key, histogram in list(self._histograms.items())]
        samples.append(Sample("gateway_series_dropped_total", (), self.dropped.value))
        return samples

    def _has_room(self) -> bool:
        if len(self._counts) + len(self._histograms) < self._limit:
            return True
        self.dropped.value += 1
        return False


def merge_samples(snapshots: Iterable[WorkerSamples], limit: int = MAX_SERIES) -> list[Sample]:
    """Returns the samples of all workers as those of one server, at most `limit` of them."""
    merged: dict[tuple[str, tuple[str, ...]], Sample] = {}
    dropped = 0
    for snapshot in snapshots:
        for sample in snapshot:
            key = (sample.family, sample.labels)
            if (known := merged.get(key)) is not None:
                merged[key] = _merge(known, sample)
            elif len(merged) < limit or not sample.labels:
                merged[key] = sample
            else:
                dropped += 1
    if dropped:
        key = ("gateway_series_dropped_total", ())
        known = merged.get(key, Sample(*key, 0))
        merged[key] = known._replace(value=known.value + dropped)
    return list(merged.values())


def _merge(one: Sample, other: Sample) -> Sample:
    if one.counts:
        counts = tuple(mine + theirs for mine, theirs in zip(one.counts, other.counts, strict=True))
        return one._replace(value=one.value + other.value, counts=counts)
    match ALL_FAMILIES[one.family].merge:
        case "sum":
            return one._replace(value=one.value + other.value)
        case "max" | "one":
            return one._replace(value=max(one.value, other.value))
        case "min":
            return one._replace(value=min(one.value, other.value))
