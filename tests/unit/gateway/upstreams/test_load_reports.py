"""gateway/upstreams/load_reports.py: what model servers report of their queues."""

import pytest

from gateway.upstreams.load_reports import read_load_header, read_waiting_metric

HEADERS: dict[str, tuple[bytes, int | None]] = {
    "JSON": (b'JSON {"named_metrics": {"num_requests_waiting": 3, "kv_cache_usage_perc": 0.4}}', 3),
    "a fraction": (b'JSON {"named_metrics": {"num_requests_waiting": 2.0}}', 2),
    "text": (b"TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=7", 7),
    "another form": (b"BIN CgA=", None),
    "no JSON": (b"JSON {", None),
    "another JSON": (b"JSON [1]", None),
    "no metrics": (b'JSON {"named_metrics": []}', None),
    "no such metric": (b'JSON {"named_metrics": {"x": 1}}', None),
    "no number": (b'JSON {"named_metrics": {"num_requests_waiting": "3"}}', None),
    "a truth value": (b'JSON {"named_metrics": {"num_requests_waiting": true}}', None),
    "negative": (b'JSON {"named_metrics": {"num_requests_waiting": -1}}', None),
    "endless": (b"TEXT named_metrics.num_requests_waiting=inf", None),
    "no number in text": (b"TEXT named_metrics.num_requests_waiting=x", None),
    "huge": (b"JSON " + b" " * 5000, None),
}


@pytest.mark.parametrize(("value", "waiting"), HEADERS.values(), ids=HEADERS)
def test_a_reply_reports_how_many_requests_wait(value: bytes, waiting: int | None) -> None:
    assert read_load_header({b"endpoint-load-metrics": value}) == waiting


def test_a_reply_without_a_report_reports_nothing() -> None:
    assert read_load_header({}) is None


METRICS: dict[str, tuple[bytes, int | None]] = {
    "vLLM": (
        b'# TYPE x gauge\nvllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting{engine="1"} 3\n',
        5,
    ),
    "SGLang": (b'sglang:num_queue_reqs{model_name="m"} 4.0\n', 4),
    "TensorRT-LLM": (b"trtllm_num_requests_waiting 1\n", 1),
    "the first name": (b"sglang:num_queue_reqs 4\nvllm:num_requests_waiting 1\n", 1),
    "none": (b"process_cpu_seconds_total 4\n", None),
    "NaN": (b"vllm:num_requests_waiting NaN\n", None),
    "not the text of Prometheus": (b"<html>", None),
}


@pytest.mark.parametrize(("text", "waiting"), METRICS.values(), ids=METRICS)
def test_metrics_report_how_many_requests_wait(text: bytes, waiting: int | None) -> None:
    assert read_waiting_metric(text) == waiting
