"""The benchmark's tables: targets, ratios of each round, and peers beside the gateway."""

import json
import os
from pathlib import Path

import pytest

from bench.options import parse_options
from bench.reports import scenario_table
from bench.reports.cost_table import render_start_costs
from bench.reports.result_files import write_results
from bench.scenarios.cost_row import CostRow
from bench.scenarios.measurement import Figure
from bench.scenarios.scenario_list import SCENARIOS, Scenario
from bench.scenarios.startup import find_unwanted_packages, parse_import_times
from bench.servers.process_tree import read_cpu_s, read_tree_usage

RELATIVE = Scenario("translate", "delta", "/v1/responses", "bench-128", 64, 3.0, 1.3)
ADDED = Scenario("first delta", "first delta", "/v1/responses", "bench-4", 1, 2.0, 0.7, absolute=True)
HELD = Scenario("memory", "stream", "/v1/responses", "bench-4", 1, 90.0, 45.0, absolute=True)


def figures(**values: float | None) -> dict[str, Figure]:
    return {name: Figure(value, 10.0, 100.0) for name, value in values.items()}


def test_a_score_is_the_median_of_the_rounds() -> None:
    # The machine was twice as slow in the second round, for both.
    rounds = [figures(direct=None, nginx=nginx, gateway=nginx * 2) for nginx in (4.0, 8.0, 5.0)]
    row = scenario_table.build_row(RELATIVE, rounds)
    assert row.ratios == [2.0, 2.0, 2.0]
    assert (row.score, row.reached) == (2.0, "main job")
    assert row.figures["gateway"].value == 10.0


@pytest.mark.parametrize(("ratio", "reached"), [(1.3, "fast"), (3.0, "main job"), (3.1, "missed")])
def test_the_best_target_that_is_reached_is_named(ratio: float, reached: str) -> None:
    assert scenario_table.build_row(RELATIVE, [figures(direct=None, nginx=10.0, gateway=10 * ratio)]).reached == reached


def test_the_score_is_the_added_time_and_the_ratio_is_compared() -> None:
    row = scenario_table.build_row(ADDED, [figures(direct=1.0, nginx=1.2, gateway=2.4)])
    assert row.scores == [pytest.approx(1.4)]
    assert row.ratios == [pytest.approx(2.0)]


def test_memory_is_the_score_as_it_is() -> None:
    assert scenario_table.build_row(HELD, [figures(direct=None, nginx=15.0, gateway=30.0)]).scores == [30.0]


def test_without_nginx_there_are_figures_but_no_ratio() -> None:
    row = scenario_table.build_row(RELATIVE, [figures(direct=None, gateway=5.0)])
    assert (row.score, row.reached, row.ratios) == (None, "", [])
    assert "-" in scenario_table.render_scenarios([row])


def test_a_peer_that_failed_in_a_round_has_the_figure_of_the_others() -> None:
    rounds = [figures(direct=None, nginx=2.0, gateway=4.0, smg=6.0), figures(direct=None, nginx=2.0, gateway=4.0)]
    assert scenario_table.build_row(RELATIVE, rounds).figures["smg"].value == 6.0


def test_another_commit_stands_beside_the_gateway() -> None:
    # Other load doubled the figures of the second round, and the third has no figure of the base.
    rounds = [
        figures(direct=None, nginx=2.0, gateway=4.0, base=5.0),
        figures(direct=None, nginx=4.0, gateway=8.0, base=10.0),
        figures(direct=None, nginx=2.0, gateway=9.0, base=None),
    ]
    row = scenario_table.build_row(RELATIVE, rounds)
    assert row.base_ratios == [0.8, 0.8]
    lines = scenario_table.render_base([row])
    assert lines is not None
    assert lines.splitlines()[-1].split() == ["translate", "µs/delta", "8.00", "7.50", "0.80", "4.00", "3.75"]
    assert scenario_table.render_peers([row]) is None


def test_without_nginx_another_commit_is_still_compared() -> None:
    row = scenario_table.build_row(HELD, [figures(direct=None, gateway=30.0, base=20.0)])
    lines = scenario_table.render_base([row])
    assert lines is not None
    assert lines.splitlines()[-1].split() == ["memory", "KiB/stream", "30.0", "20.0", "1.50", "-", "-"]


def test_a_run_of_one_commit_has_no_table_of_two() -> None:
    row = scenario_table.build_row(RELATIVE, [figures(direct=None, nginx=2.0, gateway=4.0)])
    assert scenario_table.render_base([row]) is None


def test_the_program_of_another_commit_is_an_option() -> None:
    assert parse_options(SCENARIO_NAMES, []).base is None
    assert parse_options(SCENARIO_NAMES, ["--base", "bin/responses-gateway"]).base == Path("bin/responses-gateway")


def test_peers_stand_beside_the_gateway() -> None:
    rounds = [figures(direct=None, nginx=2.0, gateway=4.0, smg=6.0, litellm=300.0)]
    alone = scenario_table.build_row(HELD, [figures(direct=None, nginx=15.0, gateway=30.0)])
    lines = scenario_table.render_peers([scenario_table.build_row(RELATIVE, rounds), alone])
    assert lines is not None
    titles, _, translate = (line.split() for line in lines.splitlines())
    assert titles == ["peers", "unit", "gateway", "smg", "litellm", "less", "than", "all"]
    assert translate == ["translate", "µs/delta", "4.00", "6.00", "300", "yes"]


@pytest.mark.parametrize(("smg", "least"), [(8.1, "yes"), (8.0, "no")])
def test_the_gateway_is_compared_with_each_peer(smg: float, least: str) -> None:
    rounds = [figures(direct=None, nginx=2.0, gateway=8.0, smg=smg, **{"vllm-router": 9.0})]
    lines = scenario_table.render_peers([scenario_table.build_row(RELATIVE, rounds)])
    assert lines is not None
    assert lines.splitlines()[-1].split()[-1] == least


def test_a_run_without_peers_has_no_table_of_them() -> None:
    assert (
        scenario_table.render_peers(
            [scenario_table.build_row(RELATIVE, [figures(direct=None, nginx=2.0, gateway=4.0)])]
        )
        is None
    )


def test_saved_results_have_each_round(tmp_path) -> None:
    row = scenario_table.build_row(RELATIVE, [figures(direct=None, nginx=2.0, gateway=4.0)])
    start = CostRow("start-up, CPU", "", "ms", 100.0, 300.0, ratios=(3.0,))
    write_results(scenario_table.build_run_results([row], [], [start], "this machine"), tmp_path / "latest.json")
    saved = json.loads((tmp_path / "latest.json").read_text())
    assert saved["rows"][0]["ratios"] == [2.0]
    assert (saved["rows"][0]["score"], saved["rows"][0]["reached"]) == (2.0, "main job")
    assert saved["start"][0]["ratios"] == [3.0]


def test_a_start_is_reported_beside_a_bare_server() -> None:
    (line,) = render_start_costs([CostRow("start-up, CPU", "", "ms", 100.0, 350.0)]).splitlines()[2:]
    assert line.split() == ["start-up,", "CPU", "ms", "100", "350", "250", "3.50"]


SCENARIO_NAMES = ("translate", "translate back", "relay chat", "start-up")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], ["translate", "start-up"]),
        (["--all"], list(SCENARIO_NAMES)),
        (["--only", "translate"], ["translate"]),
        (["--only", "trans"], ["translate", "translate back"]),
        (["--only", "translate", "--only", "relay"], ["translate", "relay chat"]),
        (["--only", "nothing"], []),
    ],
    ids=["the default", "all", "a name", "a part of names", "two", "none"],
)
def test_scenarios_are_chosen_by_name(arguments: list[str], wanted: list[str]) -> None:
    chosen = parse_options(SCENARIO_NAMES, arguments)
    assert [name for name in SCENARIO_NAMES if chosen.wants(name, default=name in ("translate", "start-up"))] == wanted


def test_a_quick_run_is_one_short_round() -> None:
    chosen = parse_options(SCENARIO_NAMES, ["--quick"])
    assert (chosen.rounds, chosen.state_rounds, chosen.seconds) == (1, 1, 1.0)
    assert parse_options(SCENARIO_NAMES, []).rounds > 1


def test_no_two_scenarios_have_one_name() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert sorted(set(names)) == sorted(names)


LOG = """import time: self [us] | cumulative | imported package
import time:       121 |        121 |   _io
{"event": "import time: 5 | 5 | torch"}
import time:      1000 |       3000 |     sqlalchemy.engine
import time:        20 |         20 | openai_like
import time:        30 |         30 | opentelemetry.sdk.trace
""".splitlines()


def test_imports_are_listed_with_their_times() -> None:
    assert parse_import_times(LOG) == {
        "_io": 121,
        "sqlalchemy.engine": 1000,
        "openai_like": 20,
        "opentelemetry.sdk.trace": 30,
    }


def test_a_package_is_unwanted_whichever_of_its_modules_is_imported() -> None:
    assert find_unwanted_packages(parse_import_times(LOG)) == ["opentelemetry.sdk", "sqlalchemy"]
    assert find_unwanted_packages(["vllm", "torch.nn.functional", "opentelemetry.trace"]) == ["torch", "vllm"]


def test_memory_and_cpu_of_a_process_are_measured() -> None:
    used = read_tree_usage(os.getpid())
    assert used.resident_bytes > 1_000_000
    assert used.threads >= 1
    assert used.files > used.sockets >= 0
    before = read_cpu_s(os.getpid())
    sum(range(100_000))
    assert read_cpu_s(os.getpid()) > before > 0
