"""`serve` logs at its start what `check-config` warns about."""

import json
from pathlib import Path

from tests.serving import command


def test_the_server_says_which_limits_are_not_applied(tmp_path: Path) -> None:
    config = {
        "providers": {"demo": {"type": "scripted"}},
        "models": {"demo": {"provider": "demo"}},
        "limits": {"open_requests": 5},
        "log": {"format": "json"},
    }
    with command(config, tmp_path, forked=True):
        pass
    lines = [json.loads(line) for line in (tmp_path / "gateway.log").read_text().splitlines()]
    [warning] = [line for line in lines if line["message"] == "config_warning"]
    assert (warning["key"], warning["level"]) == ("limits.open_requests", "warning")
    assert warning["detail"].startswith("never applied: without auth.keys")
