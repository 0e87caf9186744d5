"""The modules that a server imports, and those that it does not; and what it logs at its start."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient

from bench.scenarios.startup import find_unwanted_packages
from gateway.http.request_docs import DocumentedApp, document_json_body
from gateway.process.serving import hide_terminal_packages
from tests.serving import command, read_whole_lines

DATABASES = {"aiosqlite", "alembic", "asyncpg", "sqlalchemy", "sqlite3"}
SHOWING = {"pygments", "rich"}
VALIDATORS = {"jsonschema_rs", "translation.hosted.schema_checks"}
SERVING = {"fastapi", "translation.responses", "uvicorn"}


def loaded(what: str, settings: dict[str, Any]) -> set[str]:
    """Returns the modules of a process that imported `what` of the gateway and ran it with these settings."""
    source = (
        "import json, sys; from gateway.process.serving import hide_terminal_packages\n"
        "from gateway.config.settings import parse_settings\n"
        f"settings = parse_settings({settings!r})\n"
        f"{what}\n"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


MAKE = (
    "with hide_terminal_packages():\n    from gateway.process.server import make_server\nmake_server(settings, print)"
)
OPEN = """
import asyncio
with hide_terminal_packages():
    from gateway.state.database.migrate import validate_database_schema
    from gateway.state.sql.store import SqlStore
asyncio.run(validate_database_schema(settings.store.url, deadline_s=5))
async def open_and_close():
    store = SqlStore(settings.store, settings.background)
    await store.open()
    assert store.sealing_key and not store.degraded_reason
    await store.aclose()
asyncio.run(open_and_close())
"""


def test_a_server_without_metrics_loads_no_library_for_them() -> None:
    modules = loaded(MAKE, {"store": {"url": None}, "metrics": {"enabled": False}})
    assert "prometheus_client" not in modules
    assert "gateway.metrics.reader" not in modules


def test_a_server_without_traces_loads_nothing_for_them() -> None:
    modules = loaded(MAKE, {"store": {"url": None}})
    assert not [name for name in modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
    assert not [name for name in modules if name.startswith("gateway.tracing")]
    traced = loaded(MAKE, {"store": {"url": None}, "tracing": {"endpoint": "http://127.0.0.1:9"}})
    assert "opentelemetry.sdk.trace" in traced


def test_a_server_without_a_store_loads_no_database_engine_sdk_or_exporter() -> None:
    modules = loaded(MAKE, {"store": {"url": None}, "providers": {"demo": {"type": "scripted"}}})
    assert modules >= SERVING
    assert modules & (DATABASES | SHOWING) == set()
    assert find_unwanted_packages(modules) == []


def test_a_current_store_loads_neither_migrations_nor_the_other_databases_driver(tmp_path: Path) -> None:
    settings = {"store": {"url": f"sqlite+aiosqlite:///{tmp_path / 'store.db'}"}}
    assert "alembic" in loaded(OPEN, settings), "there was no database"
    modules = loaded(OPEN, settings)
    assert modules >= {"aiosqlite", "sqlalchemy"}
    assert modules & ({"alembic", "asyncpg"} | SHOWING) == set()


def test_the_supervisor_of_workers_does_not_import_the_server() -> None:
    modules = loaded("with hide_terminal_packages():\n    import gateway.process.serving, gateway.process.workers", {})
    assert modules & (SERVING | DATABASES | SHOWING | VALIDATORS) == set()


def test_lean_imports_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "rich", raising=False)
    monkeypatch.setitem(sys.modules, "pygments", json)
    with pytest.raises(ImportError), hide_terminal_packages():
        import rich  # noqa: F401
    assert "rich" not in sys.modules
    assert sys.modules["pygments"] is json


def test_request_schemas_are_built_once_when_the_document_is_requested() -> None:
    made: list[str] = []

    def schema() -> dict[str, Any]:
        made.append("schema")
        return {"type": "object", "title": "Asked"}

    router = APIRouter()

    @router.post("/asked", openapi_extra=document_json_body(schema))
    async def handle_request() -> None: ...

    @router.get("/bare")
    async def bare() -> None: ...

    client = TestClient(DocumentedApp([router]))
    assert not made
    for _ in range(2):
        paths = client.get("/openapi.json").json()["paths"]
        body = paths["/asked"]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"]["title"] == "Asked"
    assert made == ["schema"]
    assert "/bare" in paths


def test_what_check_config_warns_about_is_logged_at_the_start(tmp_path: Path) -> None:
    config = {
        "providers": {"demo": {"type": "scripted"}},
        "models": {"demo": {"provider": "demo"}},
        "limits": {"open_requests": 5},
        "log": {"format": "json"},
    }
    with command(config, tmp_path, forked=True):
        pass
    lines = [json.loads(line) for line in read_whole_lines(tmp_path / "gateway.log").splitlines()]
    [warning] = [line for line in lines if line["message"] == "config_warning"]
    assert (warning["key"], warning["level"]) == ("limits.open_requests", "warning")
    assert warning["detail"].startswith("never applied: without auth.keys")
