"""Replacing a key while the server runs: the new key finds what the old one stored, and both work for a while."""

from pathlib import Path
from typing import Any

import httpx

from tests.polling import wait_until
from tests.serving import READY_S, Command, command
from tests.unit.gateway.process.test_reload import get, reload

OLD, NEW, OTHER = "the-old-key-of-a-team", "the-new-key-of-a-team", "the-key-of-another-team"


def config(*keys: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "server": {"drain_s": 1},
        "store": {"url": "sqlite+aiosqlite:///store.db"},
        "auth": {"keys": [*keys, {"name": "other", "key": OTHER}]},
        "providers": {"scripted": {"type": "scripted"}},
        "models": {"scripted": {"provider": "scripted"}},
        **more,
    }


def create(server: Command, key: str, **more: Any) -> httpx.Response:
    body = {"model": "scripted", "input": "Hi", **more}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(
        f"{server.v1}/responses", json=body, headers=headers, verify=False, trust_env=False, timeout=READY_S
    )


async def test_a_new_key_of_the_owner_finds_what_the_old_one_stored(tmp_path: Path) -> None:
    old, new = {"name": "team", "key": OLD}, {"name": "team-2", "owner": "team", "key": NEW}
    with command(config(old), tmp_path, forked=True) as server:
        first = create(server, OLD).json()["id"]
        reload(server, config(old, new))
        await wait_until(lambda: get(f"{server.v1}/models", NEW).status_code == 200)
        second = create(server, NEW, previous_response_id=first).json()["id"]
        assert get(f"{server.v1}/responses/{second}", OLD).status_code == 200
        assert get(f"{server.v1}/responses/{second}", OTHER).status_code == 404

        reload(server, config(new))
        await wait_until(lambda: get(f"{server.v1}/models", OLD).status_code == 401)
        assert get(f"{server.v1}/responses/{first}", NEW).json()["id"] == first
        assert create(server, NEW, previous_response_id=second).status_code == 200
    lines = server.read_log()
    assert '"client":"team"' in lines
    assert '"client":"team-2"' in lines


async def test_a_key_of_the_env_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "keys.env").write_text(f"TEAM_KEY={OLD}\n")
    settings = config({"name": "team", "key_env": "TEAM_KEY"}, env_file="keys.env")
    with command(settings, tmp_path, forked=True) as server:
        assert get(f"{server.v1}/models", OLD).status_code == 200
        (tmp_path / "keys.env").write_text(f"TEAM_KEY={NEW}\n")
        assert get(f"{server.v1}/models", NEW).status_code == 401
        reload(server, settings)
        await wait_until(lambda: get(f"{server.v1}/models", NEW).status_code == 200)
        assert get(f"{server.v1}/models", OLD).status_code == 401

        (tmp_path / "keys.env").write_text("OTHER_KEY=x\n")
        reload(server, settings)
        await wait_until(lambda: get(f"{server.url}/readyz").json()["status"] == "degraded")
        assert get(f"{server.v1}/models", NEW).status_code == 200
