"""Paths, methods and headers as clients see them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from tests.polling import block_until
from tests.serving import Gateway, serving

Json = dict[str, Any]

KEY = "key-of-team-a"
CONFIG: Json = {
    "auth": {"keys": [{"name": "team-a", "key": KEY, "models": ["demo", "strict"]}]},
    "server": {"cors": {"origins": ["https://app.example.com"]}},
    "providers": {"scripted": {"type": "scripted"}},
    "models": {
        "demo": {"provider": "scripted"},
        "strict": {"provider": "scripted", "strict": True},
        "hidden": {"provider": "scripted"},
        "warm": {"provider": "scripted", "request_defaults": {"temperature": "hot"}},
    },
}
QUESTION: Json = {"model": "demo", "input": "Hi"}
LOSSY: Json = {**QUESTION, "max_tool_calls": 1}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(CONFIG) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=gateway.url, headers=headers, verify=False, trust_env=False, timeout=60) as client:
        yield client


def error_of(reply: httpx.Response) -> Json:
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"]
    error: Json = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


WRONG_PLACES: dict[str, tuple[str, str, int, str | None]] = {
    "a path there is not": ("GET", "/v1/nothing", 404, None),
    "the root, to which nothing is sent": ("POST", "/", 405, "GET, HEAD"),
    "a slash too many": ("POST", "/v1/responses/", 404, None),
    "a stored response": ("GET", "/v1/responses/resp_1", 404, None),
    "all responses": ("GET", "/v1/responses", 404, None),
    "all stored completions": ("GET", "/v1/chat/completions", 404, None),
    "a conversation": ("GET", "/v1/conversations/conv_1", 404, None),
    "DELETE where there is none": ("DELETE", "/v1/responses", 405, "GET, HEAD, POST"),
    "POST where there is only GET": ("POST", "/v1/models", 405, "GET, HEAD"),
    "GET where there is only POST": ("GET", "/v1/responses/resp_1/cancel", 405, "POST"),
    "PATCH, which nothing has": ("PATCH", "/v1/models", 405, "GET, HEAD"),
    "OPTIONS, which is not CORS": ("OPTIONS", "/v1/models", 405, "GET, HEAD"),
}


@pytest.mark.parametrize(("method", "path", "status", "allow"), WRONG_PLACES.values(), ids=WRONG_PLACES)
def test_an_unknown_path_or_method_has_an_error_of_the_api(
    method: str, path: str, status: int, allow: str | None, client: httpx.Client
) -> None:
    reply = client.request(method, path)
    assert reply.status_code == status
    assert error_of(reply)["type"] == "invalid_request_error"
    assert reply.headers.get("allow") == allow


MEANT: dict[str, tuple[str, str, str]] = {
    "without z": ("GET", "/health", "/healthz"),
    "as Kubernetes names it": ("GET", "/livez", "/healthz"),
    "readiness": ("GET", "/ready", "/readyz"),
    "below the version": ("GET", "/v1/health", "/healthz"),
    "without the version": ("POST", "/responses", "/v1/responses"),
    "without the version, chat": ("POST", "/chat/completions", "/v1/chat/completions"),
    "without the version, an id": ("GET", "/responses/resp_1/input_items", "/v1/responses/resp_1/input_items"),
    "the version twice": ("POST", "/v1/v1/responses", "/v1/responses"),
    "another server's prefix": ("GET", "/api/v1/models", "/v1/models"),
    "an Azure base URL": ("POST", "/openai/v1/responses", "/v1/responses"),
    "a slash too many": ("POST", "/v1/responses/", "/v1/responses"),
    "as FastAPI names it": ("GET", "/redoc", "/docs"),
    "two slashes": ("POST", "/v1//responses", "/v1/responses"),
    "capitals": ("POST", "/V1/Responses", "/v1/responses"),
    "a typing error": ("POST", "/v1/response", "/v1/responses"),
    "completions of texts": ("POST", "/completions", "/v1/completions"),
    "the version of generate": ("POST", "/v1/generate", "/generate"),
    "the base URL": ("GET", "/v1", "/v1/models"),
}


@pytest.mark.parametrize(("method", "path", "meant"), MEANT.values(), ids=MEANT)
def test_an_unknown_path_is_answered_with_the_likely_one(
    method: str, path: str, meant: str, client: httpx.Client
) -> None:
    reply = client.request(method, path)
    assert reply.status_code == 404
    assert error_of(reply)["message"] == f"there is no {method} {path}: did you mean {meant}?"


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/embeddings", "/favicon.ico", "/v1/audio", "/" + "r" * 5000])
def test_unlikely_paths_are_not_suggested(path: str, client: httpx.Client) -> None:
    message = error_of(client.post(path))["message"]
    assert "did you mean" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/healthz", "/v1/models", "/v1/models/demo", "/v1/models/none", "/api/tags"]
)
def test_head_is_the_head_of_get(path: str, client: httpx.Client) -> None:
    head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    varying = ("date", "x-request-id")
    assert {**head.headers, **dict.fromkeys(varying)} == {**whole.headers, **dict.fromkeys(varying)}


def test_head_where_there_is_no_get_is_refused(client: httpx.Client) -> None:
    reply = client.head("/v1/embeddings")
    assert (reply.status_code, reply.content, reply.headers["allow"]) == (405, b"", "POST")


def test_an_unexpected_error_of_a_route_leaves_the_connection_open(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with httpx.Client(base_url=gateway.url, verify=False, trust_env=False, timeout=60) as own, capture_logs() as lines:
        with monkeypatch.context() as patch:
            patch.setattr("gateway.routes.health.report_readiness", fail)
            reply = own.get("/readyz")
            assert (reply.status_code, error_of(reply)["code"]) == (500, "internal_error")
            assert "connection" not in reply.headers
            network = reply.extensions["network_stream"]
        again = own.get("/healthz")
        assert again.status_code == 200
        assert again.extensions["network_stream"].get_extra_info("client_addr") == network.get_extra_info("client_addr")
        block_until(lambda: any(line["event"] == "request_failed" for line in lines))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/unknown",
        "/v1/models/a/b",
        "/v1/models/",
        "/v1/models/hidden",
        "/v1/models/" + "x" * 20_000,
        "/v1/models/%00%ff",
    ],
    ids=["unknown", "with a slash", "empty", "not for this key", "long", "odd bytes"],
)
def test_an_unknown_model_is_a_404(path: str, client: httpx.Client) -> None:
    reply = client.get(path)
    assert reply.status_code == 404
    error = error_of(reply)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert len(error["message"]) < 1000


def test_a_key_sees_its_own_models(client: httpx.Client) -> None:
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["demo", "strict"]
    assert client.get("/v1/models/demo").json()["id"] == "demo"


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/models", "/v1/models/demo"])
@pytest.mark.parametrize("key", ["", "Bearer wrong"], ids=["no key", "a wrong one"])
def test_without_a_key_nothing_is_revealed(path: str, key: str, gateway: Gateway) -> None:
    method = "GET" if "models" in path else "POST"
    reply = httpx.request(
        method, gateway.url + path, headers={"authorization": key}, verify=False, trust_env=False, timeout=60
    )
    assert reply.status_code == 401
    assert error_of(reply)["code"] == "invalid_api_key"
    assert reply.headers["www-authenticate"] == "Bearer"


STORED = {
    "it": ("GET", ""),
    "its events": ("GET", "?stream=true"),
    "its end": ("DELETE", ""),
    "its input": ("GET", "/input_items"),
    "its cancellation": ("POST", "/cancel"),
}


@pytest.mark.parametrize(("method", "rest"), STORED.values(), ids=STORED)
def test_without_a_store_stored_responses_are_refused(method: str, rest: str, client: httpx.Client) -> None:
    reply = client.request(method, f"/v1/responses/resp_1{rest}")
    assert reply.status_code == 404
    assert error_of(reply)["message"] == "nothing is stored here: the server's config has no store.url"


def test_only_possible_replies_are_documented(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    answers = {code for path in document["paths"].values() for route in path.values() for code in route["responses"]}
    assert answers == {"200", "default"}


def test_references_of_the_document_lead_to_its_components(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    references = set(references_in(document))
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert {"#/components/schemas/CreateResponse", "#/components/schemas/CreateMessage"} <= references <= named
    assert not {
        name for name in named if not re.fullmatch("[A-Z][A-Za-z0-9]*([.][A-Z][A-Za-z0-9]*)?", name.rpartition("/")[2])
    }
    assert '"$defs"' not in json.dumps(document)


@pytest.mark.parametrize(
    ("path", "method", "media_type"),
    [
        ("/v1/responses", "post", "text/event-stream"),
        ("/v1/responses/{response_id}", "get", "text/event-stream"),
        ("/v1/chat/completions", "post", "text/event-stream"),
        ("/generate", "post", "text/event-stream"),
        ("/v1/messages", "post", "text/event-stream"),
        ("/v1/agui", "post", "text/event-stream"),
        ("/v1beta/models/{model}:streamGenerateContent", "post", "text/event-stream"),
        ("/api/chat", "post", "application/x-ndjson"),
        ("/v1/audio/speech", "post", "*/*"),
    ],
)
def test_replies_that_are_not_json_are_documented(
    path: str, method: str, media_type: str, client: httpx.Client
) -> None:
    operation = client.get("/openapi.json").json()["paths"][path][method]
    assert {"application/json", media_type} <= set(operation["responses"]["200"]["content"])


def references_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "$ref":
                yield part
            elif key == "discriminator":
                yield from part.get("mapping", {}).values()
            else:
                yield from references_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from references_in(part)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/", "/docs"])
def test_probes_need_no_key(path: str, gateway: Gateway) -> None:
    assert httpx.get(gateway.url + path, verify=False, trust_env=False, timeout=60).status_code == 200


def test_losses_are_in_the_header(client: httpx.Client) -> None:
    for stream in (False, True):
        reply = client.post("/v1/responses", json={**LOSSY, "stream": stream})
        assert reply.headers["x-gateway-loss"] == "max_tool_calls=dropped"
    assert "x-gateway-loss" not in client.post("/v1/responses", json=QUESTION).headers


def test_a_name_made_up_by_the_client_cannot_add_a_header(client: httpx.Client) -> None:
    reply = client.post("/v1/responses", json={**QUESTION, "a\r\nset-cookie: b": 1})
    assert reply.headers["x-gateway-loss"] == "a??set-cookie: b=dropped"
    assert "set-cookie" not in reply.headers


STRICT: dict[str, tuple[Json, Json, int]] = {
    "asked for": (LOSSY, {"x-gateway-strict": "true"}, 400),
    "asked for in capitals": (LOSSY, {"x-gateway-strict": "True"}, 400),
    "not asked for": (LOSSY, {"x-gateway-strict": "false"}, 200),
    "the model's own": ({**LOSSY, "model": "strict"}, {}, 400),
    "nothing lost": (QUESTION, {"x-gateway-strict": "true"}, 200),
}


@pytest.mark.parametrize(("body", "headers", "status"), STRICT.values(), ids=STRICT)
def test_strict_mode(body: Json, headers: Json, status: int, client: httpx.Client) -> None:
    reply = client.post("/v1/responses", json=body, headers=headers)
    assert reply.status_code == status
    if status == 400:
        assert error_of(reply)["param"] == "max_tool_calls"


def test_an_invalid_strictness_is_refused(client: httpx.Client) -> None:
    reply = client.post("/v1/responses", json=QUESTION, headers={"x-gateway-strict": "yes"})
    assert reply.status_code == 400
    assert error_of(reply)["param"] == "x-gateway-strict"


MALFORMED: dict[str, tuple[str, Json, str]] = {
    "no model": ("/v1/responses", {"input": "Hi"}, "model"),
    "an empty model": ("/v1/responses", {"model": "", "input": "Hi"}, "model"),
    "no input": ("/v1/responses", {"model": "demo"}, "input"),
    "no messages": ("/v1/chat/completions", {"model": "demo"}, "messages"),
    "a number that is a text": ("/v1/responses", {**QUESTION, "temperature": "hot"}, "temperature"),
}


@pytest.mark.parametrize(("path", "body", "param"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_field_is_named(path: str, body: Json, param: str, client: httpx.Client) -> None:
    reply = client.post(path, json=body)
    assert reply.status_code == 400
    assert error_of(reply)["param"] == param


def test_an_allowed_origin_may_send_requests_and_read_headers(client: httpx.Client) -> None:
    origin = {"origin": "https://app.example.com"}
    asked = client.options("/v1/responses", headers={**origin, "access-control-request-method": "POST"})
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == origin["origin"]
    reply = client.post("/v1/responses", json=LOSSY, headers=origin)
    assert "x-gateway-loss" in reply.headers["access-control-expose-headers"]
    refused = client.post("/v1/responses", json={}, headers=origin)
    assert refused.headers["access-control-allow-origin"] == origin["origin"], "a browser may read errors too"


def test_the_log_has_the_principal_and_the_model_and_no_more(client: httpx.Client) -> None:
    with capture_logs(processors=[merge_contextvars]) as lines:
        client.post("/v1/responses", json={**QUESTION, "input": "my secret"}, headers={"x-request-id": "mine"})
        # A line is written after its reply, so that of the test before may come only now.
        [line] = block_until(lambda: [line for line in lines if line.get("request_id") == "mine"])
    assert (line["event"], line["method"], line["path"], line["status"]) == ("request", "POST", "/v1/responses", 200)
    assert (line["client"], line["model"]) == ("team-a", "demo")
    said = json.dumps(lines)
    assert KEY not in said
    assert "secret" not in said


def test_a_default_of_the_operator_that_is_malformed_is_named_too() -> None:
    with serving({**CONFIG, "auth": None}) as gateway:
        body = {**QUESTION, "model": "warm"}
        reply = httpx.post(f"{gateway.v1}/responses", json=body, verify=False, trust_env=False, timeout=60)
        assert reply.status_code == 400
        assert error_of(reply)["param"] == "temperature"
