"""The figures of the store are differences, and a response that was stored wrong gives no figure."""

import pytest

from bench.load.generator import Result, compute_percentiles
from bench.load.replies import Model, find_stored_fault
from bench.load.requests import LoadSpec, build_request
from bench.reports.cost_table import render_store_costs
from bench.scenarios.cost_row import CostRow
from bench.scenarios.store import MeasuredLoad, Reading, compute_delta_us, compute_ratios, compute_stream_us

MODEL = Model.named("bench-4")


def stored(text: str = MODEL.text, status: str = "completed") -> dict:
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    return {"id": "resp_1", "status": status, "output": [message]}


def test_stored_answers_are_verified_despite_older_ones() -> None:
    assert find_stored_fault({"data": [stored(), stored(), stored("older")]}, MODEL, 2) is None


@pytest.mark.parametrize(
    "newest",
    [
        [stored()],
        [stored(), stored(" token0000")],
        [stored(status="in_progress"), stored()],
        [stored(), stored() | {"output": []}],
    ],
    ids=["one is missing", "a text is cut", "one has not ended", "an output is empty"],
)
def test_stored_answers_are_wrong_when(newest: list[dict]) -> None:
    assert find_stored_fault({"data": newest}, MODEL, 2)


def test_the_cost_of_a_delta_is_the_difference_to_a_longer_answer() -> None:
    short = MeasuredLoad(Model.named("bench-10"), Result(requests=100), cpu_s=0.1)
    long = MeasuredLoad(Model.named("bench-110"), Result(requests=50), cpu_s=0.075)
    assert compute_delta_us([short, long]) == pytest.approx(5.0)
    assert compute_stream_us([short, long]) == pytest.approx(950.0)


def test_less_is_better_in_every_ratio_that_is_compared() -> None:
    cost, rate = Reading("end", "ms", len), Reading("rate", "deltas/s", len, less_is_better=False)
    assert compute_ratios(cost, [(2.0, 3.0), (2.0, 4.0)]) == (1.5, 2.0)
    assert compute_ratios(rate, [(300.0, 100.0)]) == (3.0,)
    assert compute_ratios(cost, [(0.0, 3.0)]) == ()


def test_the_tail_is_the_95th_percentile() -> None:
    assert compute_percentiles([float(number) for number in range(100, 0, -1)]) == [50.5, 96.0]
    assert compute_percentiles([1.0]) == [1.0, 1.0]
    assert compute_percentiles([]) == []


def test_a_target_limits_the_cost_of_the_store() -> None:
    assert not CostRow("end", "SQLite", "ms", without=15.0, value=17.9, target=3.0).missed
    assert CostRow("end", "SQLite", "ms", without=15.0, value=18.1, target=3.0).missed
    assert CostRow("queries", "SQLite", "", without=None, value=2, target=1).missed
    assert not CostRow("end", "PostgreSQL", "ms", without=15.0, value=99.0).missed


def test_the_table_has_added_costs_and_missed_targets() -> None:
    lines = render_store_costs(
        [CostRow("end", "SQLite", "ms", 15.0, 18.5, 3.0), CostRow("size", "SQLite", "KiB", None, 2900)]
    )
    titles, _, end, size = (line.split() for line in lines.splitlines())
    assert titles == ["state", "database", "unit", "without", "with", "added", "target"]
    assert end == ["end", "SQLite", "ms", "15.0", "18.5", "3.50", "≤", "3.00", "missed"]
    assert size == ["size", "SQLite", "KiB", "-", "2,900", "-", "-"]


def test_a_request_declares_its_storage() -> None:
    spec = LoadSpec(8080, "/v1/responses", "bench-4", stream=True, connections=1, seconds=1, fields={"store": True})
    assert b'"store":true' in build_request(spec, "bench-4")
