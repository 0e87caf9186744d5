"""A client API is added by a folder of its own and a row of the table: here the made-up one of `parrot/`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from gateway.config.settings import parse_settings
from gateway.dialects.table import CLIENT_DIALECTS
from gateway.http.guard import DrainState
from gateway.process.app import build_app
from gateway.service.provider_lifetimes import build_providers
from tests.unit.gateway.dialects.parrot.rows import PARROT_DIALECT

CONFIG = {
    "store": {"url": None},
    "providers": {
        "scripted": {"type": "scripted"},
        "blind": {"type": "scripted", "capabilities": {"images": False, "max_context_window": 100}},
    },
    "models": {
        "demo": {"provider": "scripted"},
        "short": {"provider": "scripted", "request_defaults": {"max_output_tokens": 2}},
        "blind": {"provider": "blind"},
    },
}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    settings = parse_settings(CONFIG, environ={})
    app = build_app(settings, DrainState(), build_providers(settings), (*CLIENT_DIALECTS, PARROT_DIALECT))
    with TestClient(app.asgi, base_url="http://127.0.0.1") as client:
        yield client


def ask(client: TestClient, **params: object) -> Any:
    return client.post("/parrot", json={"model": "demo", "question": "Hello?", **params})


def test_its_clients_get_whole_replies(client: TestClient) -> None:
    reply = ask(client)
    assert (reply.status_code, reply.json()["ended"]) == (200, "stop")
    assert reply.json()["answer"]


def test_its_clients_get_streams_of_the_same_text(client: TestClient) -> None:
    reply = ask(client, stream=True)
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert lines.pop() == {"ended": "stop"}
    assert "".join(line["piece"] for line in lines) == ask(client).json()["answer"]


def test_defaults_of_a_model_apply(client: TestClient) -> None:
    assert ask(client, model="short").json()["ended"] == "length"


def test_losses_are_reported(client: TestClient) -> None:
    assert ask(client, mood="cheerful").headers["x-gateway-loss"] == "mood=dropped"
    refused = client.post(
        "/parrot", json={"model": "demo", "question": "a", "mood": "b"}, headers={"x-gateway-strict": "true"}
    )
    assert (refused.status_code, refused.json()["where"]) == (400, "mood")


@pytest.mark.parametrize(
    ("params", "status", "where"),
    [
        ({"question": 5}, 400, "question"),
        ({"model": "unknown"}, 404, "model"),
        ({"model": "blind", "most_words": 500}, 400, "most_words"),
        ({"model": "blind", "picture": "https://a.example/b.png"}, 400, "question"),
    ],
)
def test_failures_have_its_form_and_its_names(
    client: TestClient, params: dict[str, object], status: int, where: str
) -> None:
    reply = ask(client, **params)
    assert (reply.status_code, reply.json().keys(), reply.json()["where"]) == (status, {"problem", "where"}, where)


def test_other_apis_stay_as_they_are(client: TestClient) -> None:
    reply = client.post("/v1/responses", json={"model": "unknown", "input": "a"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
