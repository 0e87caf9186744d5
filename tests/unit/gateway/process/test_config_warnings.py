"""`serve` logs at its start what `check-config` warns about."""

from pathlib import Path

from tests.serving import command


def test_the_server_says_which_limits_are_not_applied(tmp_path: Path) -> None:
    config = {
        "providers": {"demo": {"type": "scripted"}},
        "models": {"demo": {"provider": "demo"}},
        "limits": {"open_requests": 5},
        "log": {"format": "json"},
    }
    with command(config, tmp_path, forked=True) as gateway:
        assert gateway.process.stdout is not None
        line = next(line for line in gateway.process.stdout if "config_warning" in line)
    assert "limits.open_requests" in line
