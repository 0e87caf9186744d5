"""Two replicas on PostgreSQL are restarted in turn behind a proxy while clients read streams: none fails."""

from pathlib import Path

import pytest

from bench.fleet.measurement import FleetSetup, measure_fleet, render_fleet_result

pytestmark = pytest.mark.timeout(240)
LONG, SHORT = "bench-4-1ps", "bench-4"


async def test_no_stream_fails_or_has_a_gap(tmp_path: Path) -> None:
    setup = FleetSetup(16, 1, linger_s=5.0, drain_s=30.0, probe_period_s=0.3, client_idle_s=0.5, models=(LONG, SHORT))
    result = await measure_fleet(setup, tmp_path)
    assert not result.has_failed, render_fleet_result(setup, result)
    assert result.exit_codes == [0, 0]
    assert result.streams.completed > setup.streams
    assert result.streams.resumed > setup.streams


async def test_without_a_linger_requests_fail(tmp_path: Path) -> None:
    """The measurement can fail: for a while the proxy sends requests to a port that is closed."""
    setup = FleetSetup(8, 1, linger_s=0.0, drain_s=30.0, probe_period_s=2.0, models=(SHORT,))
    result = await measure_fleet(setup, tmp_path)
    assert result.has_failed
    assert result.refused > 0
    assert "failed" in "\n".join(render_fleet_result(setup, result))
