"""How a body becomes a plan."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.config.settings import parse_settings
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.errors import CredentialsNotStored
from gateway.http.auth import Principal
from gateway.http.guard import DrainState
from gateway.service.admission import ClientRequest
from gateway.service.provider_lifetimes import build_providers
from gateway.service.service import Service
from gateway.state.row_values import dump_json
from gateway.state.sql.store import SqlStore
from gateway.state.values import Job
from tests.databases import ready_sqlite
from tests.faults.client_view import ask
from tests.faults.config import LONG_S, config
from tests.faults.routes import ROUTES
from tests.serving import serving
from tests.state.responses import WORKER, answered, completed, message_item, new, response
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import RESPONSES as RESPONSES_ANSWER
from tests.upstream.faults import sound

GIVEN: list[tuple[dict[str, Any], float]] = [({}, 0.7), ({"temperature": None}, 0.7), ({"temperature": 0.0}, 0.0)]
"""(value of the client, value sent upstream)"""


@pytest.mark.parametrize(("path", "dialect"), ROUTES.values(), ids=ROUTES)
async def test_the_operators_default_holds_unless_the_client_gives_a_value(path: str, dialect: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(CHAT_ANSWER if dialect == "chat" else RESPONSES_ANSWER))
        model = {"provider": "upstream", "request_defaults": {"temperature": 0.7}}
        with serving({**config(upstream.url, dialect, answer_s=LONG_S), "models": {"*": model}}) as gateway:
            for given, _ in GIVEN:
                assert (await ask(gateway.v1, path, stream=False, **given)).status == 200
        assert [request.json["temperature"] for request in upstream.requests] == [sent for _, sent in GIVEN]


def test_a_configuration_that_cannot_be_used_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = {"providers": {"s": {"type": "scripted"}}, "models": {"m": {"provider": "s"}}}
    settings = parse_settings(sections, environ={})
    service = Service(settings, build_providers(settings), DrainState())
    before = service.current

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("the servers cannot be used")

    monkeypatch.setattr(service.operator_servers, "use_configuration", refuse)
    with pytest.raises(RuntimeError):
        service.use_configuration(settings, build_providers(settings))
    assert service.current is before


async def test_a_job_whose_credentials_are_not_stored_is_not_run_again(tmp_path: Path) -> None:
    settings = parse_settings(
        {
            "store": {"url": ready_sqlite(tmp_path / "state.db")},
            "providers": {"s": {"type": "scripted"}},
            "models": {"m": {"provider": "s"}},
        },
        environ={},
    )
    store = SqlStore(settings.store, settings.background)
    service = Service(settings, build_providers(settings), DrainState(), store, {"responses": RESPONSES})
    request = {"dialect": "responses", "asked": {"model": "m"}, "bound": True}
    job = Job(owner="a", response_id="resp_1", request=request, attempt=2, logged=False, last_sequence_number=-1)
    with pytest.raises(CredentialsNotStored, match=r"send the request again\..* configure sealing\.keys"):
        await service.resume_job(job)
    await store.aclose()


async def test_a_job_that_is_resumed_uses_the_servers_that_its_key_could_use(tmp_path: Path) -> None:
    """The stored request has the permission, because another replica may know the key no more."""
    servers = {label: {"url": "https://mcp.example.com/mcp", "approval": "never"} for label in ("open", "secret")}
    settings = parse_settings(
        {
            "store": {"url": ready_sqlite(tmp_path / "state.db")},
            "tools": {"mcp": {"servers": servers}},
            "providers": {"s": {"type": "scripted"}},
            "models": {"m": {"provider": "s", "tools": {"mcp": ["open", "secret"]}}},
        },
        environ={},
    )
    store = SqlStore(settings.store, settings.background)
    service = Service(settings, build_providers(settings), DrainState(), store, {"responses": RESPONSES})
    body = {"model": "m", "input": "Hi", "background": True}
    for allowed, labels in ((("*",), ["open", "secret"]), (("open",), ["open"])):
        accepted = await service.accept(ClientRequest(RESPONSES, Principal("a", ("*",), allowed), body))
        assert accepted.job is not None
        request = accepted.job.job_request
        assert request is not None
        job = Job(owner="a", response_id="r", request=request, attempt=2, logged=False, last_sequence_number=-1)
        exchange: Any = (await service.resume_job(job)).plan.exchange
        assert [each.source.label for each in exchange._executors] == labels
    await store.aclose()


AFFINITIES: dict[str, tuple[str, dict[bytes, bytes], dict[str, Any], str | None]] = {
    "prompt_cache_key": ("auto", {}, {"prompt_cache_key": "k"}, "prompt_cache_key"),
    "a header of a session": ("auto", {b"session-id": b"s"}, {}, "session"),
    "a header of the configuration": ("header:x-team", {b"x-team": b"t\xff"}, {}, "header"),
    "a conversation": ("auto", {}, {"conversation": "conv_1"}, "conversation"),
    "a chain": ("auto", {}, {"previous_response_id": "resp_1"}, "chain"),
    "nothing": ("auto", {}, {}, None),
}


@pytest.mark.parametrize(("affinity", "headers", "params", "kind"), AFFINITIES.values(), ids=AFFINITIES)
async def test_a_job_that_another_process_takes_over_keeps_its_affinity_key(
    affinity: str, headers: dict[bytes, bytes], params: dict[str, Any], kind: str | None, tmp_path: Path
) -> None:
    config: dict[str, Any] = {
        "store": {"url": ready_sqlite(tmp_path / "state.db")},
        "providers": {"s": {"type": "scripted"}, "t": {"type": "scripted"}},
        "models": {"m": {"upstreams": [{"provider": "s"}, {"provider": "t"}], "affinity": affinity}},
    }
    settings = parse_settings(config, environ={})
    store = SqlStore(settings.store, settings.background)
    await store.open()
    service = Service(settings, build_providers(settings), DrainState(), store, {"responses": RESPONSES})
    await store.conversations.create_conversation("a", {"id": "conv_1", "created_at": 1, "metadata": {}}, [])
    begun = response(id="resp_1")
    await store.responses.create_response(new(begun, message_item("hello"), owner="a"))
    await store.responses.finish_response("a", completed(begun, answered("HELLO")), worker=WORKER)
    client_request = ClientRequest(
        RESPONSES,
        Principal("a", ("*",)),
        {"model": "m", "input": "Hi", "background": True, **params},
        headers=headers,
    )
    accepted = await service.accept(client_request)
    assert accepted.job is not None
    assert accepted.job.job_request is not None
    assert accepted.attempts is not None
    key = accepted.attempts.turn.key
    assert (None if key is None else key.kind) == kind
    stored = orjson.loads(dump_json(accepted.job.job_request))
    job = Job(owner="a", response_id="r", request=stored, attempt=2, logged=False, last_sequence_number=-1)
    resumed = await service.resume_job(job)
    assert resumed.attempts is not None
    assert resumed.attempts.turn.key == key
    config["models"]["m"]["affinity"] = "none"
    settings = parse_settings(config, environ={})
    service.use_configuration(settings, build_providers(settings))
    keyless = await service.resume_job(job)
    assert keyless.attempts is not None
    assert keyless.attempts.turn.key is None
    await store.aclose()
