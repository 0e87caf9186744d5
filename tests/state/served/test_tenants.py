"""Objects of another owner are exactly like unknown ones, on every route.

The routes come from the application itself: one that this file has no recipe for fails it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from websockets.sync.client import connect

from gateway.config import settings as settings_of
from gateway.http.guard import DrainState
from gateway.process.app import create_app
from gateway.relayed_paths.relays import RELAYED_PATHS
from tests import databases
from tests.databases import Postgres
from tests.polling import block_until
from tests.serving import Gateway, serving

Json = dict[str, Any]
Route = tuple[str, str]

KEYS = {"ann": "key-of-ann-0123456789", "bob": "key-of-bob-0123456789"}
CONFIG = {
    "auth": {"keys": [{"name": name, "key": key, "mcp_servers": [f"of_{name}"]} for name, key in KEYS.items()]},
    "tools": {"mcp": {"servers": {f"of_{name}": {"stdio": ["none"]} for name in KEYS}}},
    "providers": {"demo": {"type": "scripted"}},
    "models": {"*": {"provider": "demo"}},
}
TIMEOUT_S = 60.0

HELLO: Json = {"type": "message", "role": "user", "content": "hello"}
METADATA: Json = {"metadata": {"a": "b"}}
ASK: Json = {"model": "demo", "input": [HELLO]}
MESSAGE: Json = {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


class Probe(NamedTuple):
    """A request with ids, written `{name}`. Ids in `own` are of the principal's objects, others of another owner's."""

    query: str = ""
    body: Json | None = None
    own: tuple[str, ...] = ()
    form: Mapping[str, bytes] | None = None


CHAINED = [
    Probe(body={**ASK, "previous_response_id": "{response_id}"}),
    Probe(body={**ASK, "conversation": "{conversation_id}"}),
    Probe(body={**ASK, "input": [{"type": "item_reference", "id": "{output_id}"}, HELLO]}),
    Probe(body={**ASK, "input": [{"type": "item_reference", "id": "{item_id}"}, HELLO]}),
]
CONTENT: Json = {"instructions": "Answer."}
PROMPTED = Probe(body={**ASK, "prompt": {"id": "{prompt_id}"}})
ONE = [Probe()]
AFTER_ITEM = [Probe(), Probe("?order=asc&after={item_id}"), Probe("?after={item_id}", own=("conversation_id",))]

PROBES: dict[Route, list[Probe]] = {
    ("GET", "/v1/responses"): [Probe("?after={response_id}")],
    ("POST", "/v1/responses"): [
        Probe(body={**ASK, "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "{file_id}"}]}]}),
        *CHAINED,
        Probe(body={**ASK, "tools": [{"type": "file_search", "vector_store_ids": ["{store_id}"]}]}),
        *(probe._replace(body={**(probe.body or {}), "stream": True}) for probe in CHAINED),
        *(probe._replace(body={**(probe.body or {}), "background": True}) for probe in CHAINED),
        PROMPTED,
    ],
    ("GET", "/v1/responses/{response_id}"): [Probe(), Probe("?stream=true"), Probe("?stream=true&starting_after=1")],
    ("DELETE", "/v1/responses/{response_id}"): ONE,
    ("GET", "/v1/responses/{response_id}/input_items"): [
        Probe(),
        Probe("?after={input_id}"),
        Probe("?after={input_id}", own=("response_id",)),
    ],
    ("POST", "/v1/responses/{response_id}/cancel"): ONE,
    ("POST", "/v1/responses/compact"): [CHAINED[0], CHAINED[2]],
    ("POST", "/v1/responses/input_tokens"): CHAINED,
    ("POST", "/v1/conversations"): [Probe(body={"items": [{"type": "item_reference", "id": "{output_id}"}]})],
    ("GET", "/v1/conversations/{conversation_id}"): ONE,
    ("POST", "/v1/conversations/{conversation_id}"): [Probe(body=METADATA)],
    ("DELETE", "/v1/conversations/{conversation_id}"): ONE,
    ("GET", "/v1/conversations/{conversation_id}/items"): AFTER_ITEM,
    ("POST", "/v1/conversations/{conversation_id}/items"): [
        Probe(body={"items": [HELLO]}),
        Probe(body={"items": [{"type": "item_reference", "id": "{output_id}"}]}, own=("conversation_id",)),
    ],
    ("GET", "/v1/conversations/{conversation_id}/items/{item_id}"): [
        Probe(),
        Probe(own=("conversation_id",)),
        Probe(own=("item_id",)),
    ],
    ("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}"): [
        Probe(),
        Probe(own=("conversation_id",)),
        Probe(own=("item_id",)),
    ],
    ("GET", "/v1/prompts"): [Probe("?after={prompt_id}")],
    ("GET", "/v1/prompts/{prompt_id}"): [Probe(), Probe("?version=1")],
    ("POST", "/v1/prompts/{prompt_id}"): [Probe(body={"default_version": "1"})],
    ("DELETE", "/v1/prompts/{prompt_id}"): ONE,
    ("GET", "/v1/prompts/{prompt_id}/versions"): ONE,
    ("POST", "/v1/prompts/{prompt_id}/versions"): [Probe(body=CONTENT)],
    ("POST", "/v1/messages"): [
        Probe(body={**MESSAGE, "thread": {"type": "continue", "previous_message_id": "{message_id}"}}),
    ],
    ("GET", "/v1/chat/completions"): [Probe("?after={completion_id}")],
    ("GET", "/v1/chat/completions/{completion_id}"): ONE,
    ("POST", "/v1/chat/completions/{completion_id}"): [Probe(body=METADATA)],
    ("DELETE", "/v1/chat/completions/{completion_id}"): ONE,
    ("GET", "/v1/chat/completions/{completion_id}/messages"): [Probe(), Probe("?after={completion_id}-0")],
    ("POST", "/v1/uploads/{upload_id}/parts"): [Probe(form={"data": b"x"})],
    ("POST", "/v1/uploads/{upload_id}/complete"): [
        Probe(body={"part_ids": ["{part_id}"]}),
        Probe(body={"part_ids": ["{part_id}"]}, own=("upload_id",)),
    ],
    ("POST", "/v1/uploads/{upload_id}/cancel"): ONE,
    ("POST", "/v1/vector_stores"): [Probe(body={"file_ids": ["{file_id}"]})],
    ("GET", "/v1/vector_stores"): [Probe("?after={store_id}"), Probe("?before={store_id}")],
    ("GET", "/v1/vector_stores/{store_id}"): ONE,
    ("POST", "/v1/vector_stores/{store_id}"): [Probe(body={"name": "other"})],
    ("DELETE", "/v1/vector_stores/{store_id}"): ONE,
    ("POST", "/v1/vector_stores/{store_id}/search"): [Probe(body={"query": "from"})],
    ("GET", "/v1/vector_stores/{store_id}/files"): [Probe(), Probe("?after={file_id}", own=("store_id",))],
    ("POST", "/v1/vector_stores/{store_id}/files"): [
        Probe(body={"file_id": "{file_id}"}),
        Probe(body={"file_id": "{file_id}"}, own=("store_id",)),
    ],
    ("GET", "/v1/vector_stores/{store_id}/files/{file_id}"): [Probe(), Probe(own=("store_id",))],
    ("POST", "/v1/vector_stores/{store_id}/files/{file_id}"): [Probe(body={"attributes": {"a": 1}})],
    ("DELETE", "/v1/vector_stores/{store_id}/files/{file_id}"): [Probe(), Probe(own=("store_id",))],
    ("GET", "/v1/vector_stores/{store_id}/files/{file_id}/content"): [Probe(), Probe(own=("store_id",))],
    ("POST", "/v1/vector_stores/{store_id}/file_batches"): [
        Probe(body={"file_ids": ["{file_id}"]}),
        Probe(body={"file_ids": ["{file_id}"]}, own=("store_id",)),
    ],
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}"): [Probe(), Probe(own=("store_id",))],
    ("POST", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/cancel"): [Probe(), Probe(own=("store_id",))],
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/files"): [Probe(), Probe(own=("store_id",))],
    ("GET", "/v1/files"): [Probe("?after={file_id}")],
    ("GET", "/v1/files/{file_id}"): ONE,
    ("GET", "/v1/files/{file_id}/content"): ONE,
    ("DELETE", "/v1/files/{file_id}"): ONE,
    ("GET", "/v1/gateway/mcp-servers/{server_label}"): ONE,
    ("WS", "/v1/responses"): [
        probe._replace(body={"type": "response.create", **(probe.body or {})}) for probe in CHAINED
    ],
}

NAMED_BY_CLIENTS: set[Route] = {("POST", "/v1/agui"), ("POST", "/v1/agui/{model}")}
"""Routes whose objects have names that their clients choose: an equal name of another owner is another object."""

ADMINISTRATORS: set[Route] = {
    ("GET", "/v1/gateway/routes/{model}"),
    ("PUT", "/v1/gateway/mcp-servers/{server_label}"),
    ("DELETE", "/v1/gateway/mcp-servers/{server_label}"),
}
"""Routes that only administrators may use. They reveal nothing to others."""

WITHOUT_IDS: dict[Route, str] = {
    ("POST", "/v1/chat/completions"): "it names a model and nothing that is kept",
    ("POST", "/v1/messages/count_tokens"): "it names a model and keeps nothing",
    **{
        ("POST", f"/{version}/models/{{model}}:{method}"): "it names a model and keeps nothing"
        for version in ("v1", "v1beta")
        for method in ("generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents")
    },
    **{
        ("POST", f"/api/{name}"): "it names a model and keeps nothing"
        for name in ("chat", "generate", "show", "embed", "embeddings")
    },
    **{("POST", f"/api/{name}"): "it is always refused" for name in ("pull", "push", "create", "copy")},
    ("DELETE", "/api/delete"): "it is always refused",
    ("GET", "/api/tags"): "models belong to nobody",
    ("GET", "/api/ps"): "it lists nothing",
    ("GET", "/api/version"): "about the process",
    ("HEAD", "/"): "about the process",
    ("POST", "/generate"): "it names a model and keeps nothing",
    ("POST", "/v1/uploads"): "it names nothing that is kept",
    ("POST", "/v1/files"): "it names nothing that is kept",
    ("POST", "/v1/prompts"): "it names nothing that is kept",
    **{("POST", row.path): "it names a model and keeps nothing" for row in RELAYED_PATHS},
    ("GET", "/v1/models"): "models belong to nobody",
    ("GET", "/v1/models/{model}"): "a model is no object of an owner; keys say which may be used",
    ("GET", "/v1beta/models"): "models belong to nobody",
    ("GET", "/v1beta/models/{model}"): "a model is no object of an owner; keys say which may be used",
    ("GET", "/v1/gateway/mcp-servers"): "it takes no id: what it shows is the operator's",
    ("DELETE", "/v1/gateway/owner-data"): "it takes no id: what goes is the asker's own",
    ("GET", "/healthz"): "about the process",
    ("GET", "/readyz"): "about the process",
    ("GET", "/openapi.json"): "a document",
    ("GET", "/"): "a page about the process and the models of a key",
    ("GET", "/docs"): "a page about that document",
    ("GET", "/pages/home.json"): "about the process and the models of a key",
    ("GET", "/pages/api.json"): "about that document",
    ("GET", "/pages/{name}"): "a static file",
}


@cache
def routes() -> frozenset[Route]:
    """Returns every route of the assembled application, including WebSockets."""
    store = {"url": "sqlite+aiosqlite:///nowhere.db"}
    layer: Any = create_app(settings_of.parse_settings({**CONFIG, "store": store}, environ={}), DrainState())
    found: set[Route] = set()
    while not isinstance(layer, FastAPI):
        found |= {("WS", path) for path in getattr(layer, "_sockets", ())}
        found |= {("POST", path) for path in getattr(layer, "_handlers", ())}
        layer = layer._app
    for route in iter_route_contexts(layer.routes):
        assert route.path is not None
        path = re.sub(r":\w+}", "}", route.path)
        methods: Any = route.methods or {"WS"}
        found |= {(method, path) for method in methods if method != "HEAD"}
    return frozenset(found)


class Tenant:
    """One owner and what it has. `ids` has one object of each kind."""

    def __init__(self, name: str, gateway: Gateway) -> None:
        self.name = name
        self._url = gateway.url
        self._client = httpx.Client(
            base_url=gateway.url, headers={"authorization": f"Bearer {KEYS[name]}"}, timeout=TIMEOUT_S
        )
        self.ids = self._make()

    def close(self) -> None:
        self._client.close()

    def renew(self) -> None:
        """Creates new objects in place of the former ones."""
        self.ids = self._make()

    def ask(self, route: Route, probe: Probe, ids: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]]:
        """Returns status, body and headers of a request, in which `ids` replace missing ids."""
        method, path = route
        chosen = {**ids, **{name: self.ids[name] for name in probe.own}}
        body = None if probe.body is None else _filled(probe.body, chosen)
        if method == "WS":
            return self._ask_on_socket(path, body)
        url = _filled(path + probe.query, chosen)
        reply = self._client.request(method, url, json=body, files=probe.form)
        ignored = ("date", "request-id", "x-request-id")
        text = re.sub(r'"request_id":"\w+"', "", reply.text)
        return reply.status_code, text, {key: it for key, it in reply.headers.items() if key not in ignored}

    def snapshot(self) -> list[str]:
        """Returns everything that the owner can read."""
        reads = [route for route in sorted(routes()) if route[0] == "GET" and route in PROBES]
        everything = [self.ask(route, Probe(), self.ids)[:2] for route in reads]
        assert all(status == 200 for status, _ in everything)
        return [text for _, text in everything]

    def _ask_on_socket(self, path: str, body: Any) -> tuple[int, str, Mapping[str, str]]:
        url = self._url.replace("http", "ws", 1) + path
        headers = {"authorization": f"Bearer {KEYS[self.name]}"}
        with connect(url, additional_headers=headers, open_timeout=TIMEOUT_S, proxy=None) as socket:
            socket.send(json.dumps(body))
            first = json.loads(socket.recv(TIMEOUT_S))
        return (first["status"] if first["type"] == "error" else 200), json.dumps(first), {}

    def _make(self) -> dict[str, str]:
        streamed = {**ASK, "input": f"from {self.name}", "background": True, "stream": True}
        with self._client.stream("POST", "/v1/responses", json=streamed) as events:
            frames = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: {")]
        response = frames[-1]["response"]
        assert response["status"] == "completed"
        listed = self._json("GET", f"/v1/responses/{response['id']}/input_items")
        conversation = self._json("POST", "/v1/conversations", {"metadata": {"of": self.name}})
        items = self._json("POST", f"/v1/conversations/{conversation['id']}/items", {"items": [HELLO]})
        chat = {"model": "demo", "messages": [{"role": "user", "content": self.name}], "store": True}
        upload = {"bytes": 1, "filename": "a", "mime_type": "a/b", "purpose": "vision"}
        upload_id = self._json("POST", "/v1/uploads", upload)["id"]
        file_id = self._upload()
        store_id = self._json("POST", "/v1/vector_stores", {"name": self.name})["id"]
        return {
            "store_id": store_id,
            "batch_id": self._index(store_id, file_id),
            "response_id": response["id"],
            "output_id": response["output"][0]["id"],
            "input_id": listed["data"][0]["id"],
            "conversation_id": conversation["id"],
            "item_id": items["data"][0]["id"],
            "server_label": f"of_{self.name}",
            "message_id": self._json("POST", "/v1/messages", {**MESSAGE, "thread": {"type": "create"}})["id"],
            "file_id": file_id,
            "upload_id": upload_id,
            "part_id": self._add_part(upload_id),
            "prompt_id": self._json("POST", "/v1/prompts", CONTENT)["id"],
            "completion_id": self._json("POST", "/v1/chat/completions", chat)["id"],
        }

    def _upload(self) -> str:
        form = {"file": (f"of-{self.name}.txt", f"from {self.name}".encode())}
        reply = self._client.post("/v1/files", data={"purpose": "user_data"}, files=form)
        assert reply.status_code == 200, reply.text
        file_id: str = reply.json()["id"]
        return file_id

    def _index(self, store_id: str, file_id: str) -> str:
        path = f"/v1/vector_stores/{store_id}/file_batches"
        batch_id: str = self._json("POST", path, {"file_ids": [file_id]})["id"]
        block_until(lambda: self._json("GET", f"{path}/{batch_id}")["status"] == "completed")
        return batch_id

    def _add_part(self, upload_id: str) -> str:
        reply = self._client.post(f"/v1/uploads/{upload_id}/parts", files={"data": b"x"})
        assert reply.status_code == 200, reply.text
        part_id: str = reply.json()["id"]
        return part_id

    def _json(self, method: str, path: str, body: Json | None = None) -> Json:
        reply = self._client.request(method, path, json=body)
        assert reply.status_code == 200, reply.text
        answer: Json = reply.json()
        return answer


@contextmanager
def open_tenants(store_url: str, folder: Path) -> Iterator[tuple[Tenant, Tenant]]:
    with ExitStack() as opened:
        config = {**CONFIG, "store": {"url": store_url}, "files": {"path": str(folder / "files")}}
        gateway = opened.enter_context(serving(config))
        pair = Tenant("ann", gateway), Tenant("bob", gateway)
        for tenant in pair:
            opened.callback(tenant.close)
        yield pair


@pytest.fixture
def tenants(store_url: str, tmp_path: Path) -> Iterator[tuple[Tenant, Tenant]]:
    with open_tenants(store_url, tmp_path) as pair:
        yield pair


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def lasting_tenants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tenant, Tenant]]:
    """Owners for all tests whose requests change nothing that they have."""
    folder = tmp_path_factory.mktemp("tenants")
    if request.param == "sqlite":
        with open_tenants(databases.ready_sqlite(folder / "state.db"), folder) as pair:
            yield pair
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.lease()
    with open_tenants(url, folder) as pair:
        yield pair
    server.give_back(url)


def test_every_route_has_a_recipe() -> None:
    assert sorted(routes() - PROBES.keys() - WITHOUT_IDS.keys() - NAMED_BY_CLIENTS - ADMINISTRATORS) == []
    for (method, path), probes in PROBES.items():
        assert probes, f"{method} {path} is asked nothing"


def test_objects_of_other_owners_are_exactly_like_unknown_ones(lasting_tenants: tuple[Tenant, Tenant]) -> None:
    ann, bob = lasting_tenants
    nowhere = {name: _another(known) for name, known in ann.ids.items()}
    before = ann.snapshot()
    for route in sorted(routes() & PROBES.keys()):
        for probe in PROBES[route]:
            foreign = _without(bob.ask(route, probe, ann.ids), ann.ids)
            unknown = _without(bob.ask(route, probe, nowhere), nowhere)
            assert foreign == unknown, (route, probe)
            assert foreign[0] in (400, 404), (route, probe, foreign)
    assert ann.snapshot() == before


def test_the_same_requests_find_the_owners_objects(tenants: tuple[Tenant, Tenant]) -> None:
    ann, _ = tenants
    for route in sorted(routes() & PROBES.keys()):
        for probe in PROBES[route]:
            status, text, _ = ann.ask(route, probe, ann.ids)
            assert status == 200, (route, probe, text)
            if route[0] == "DELETE" or "/uploads/" in route[1]:
                ann.renew()


def test_routes_for_administrators_reveal_nothing_to_others(lasting_tenants: tuple[Tenant, Tenant]) -> None:
    ann, bob = lasting_tenants
    before = ann.snapshot()
    for route in sorted(ADMINISTRATORS):
        probe = Probe(body={"url": "https://mcp.example.com/mcp"})
        replies = [
            bob.ask(route, probe, {"server_label": label, "model": label})
            for label in ("of_ann", "of_bob", "of_nobody")
        ]
        assert [status for status, _, _ in replies] == [403] * 3
        assert len({text for _, text, _ in replies}) == 1
    assert ann.snapshot() == before


def test_equal_names_of_two_owners_are_two_objects(tenants: tuple[Tenant, Tenant]) -> None:
    ann, bob = tenants
    for route in sorted(routes() & NAMED_BY_CLIENTS):
        body = {
            tenant: Probe(
                body={
                    "threadId": f"of {route}",
                    "runId": "run",
                    "messages": [{"id": "1", "role": "user", "content": f"of-{tenant.name}"}],
                    "forwardedProps": {"model": "demo"},
                }
            )
            for tenant in tenants
        }
        first = ann.ask(route, body[ann], {"model": "demo"})
        before = ann.snapshot()
        other = bob.ask(route, body[bob], {"model": "demo"})
        assert (first[0], other[0]) == (200, 200), (route, first, other)
        assert "of-ann" in first[1]
        assert "of-bob" in other[1]
        assert "of-ann" not in other[1]
        assert ann.snapshot() == before
        assert "of-ann" in ann.ask(route, body[ann], {"model": "demo"})[1]


def test_lists_have_only_rows_of_the_owner(lasting_tenants: tuple[Tenant, Tenant]) -> None:
    ann, bob = lasting_tenants
    lists = [route for route in routes() if route[0] == "GET" and "{" not in route[1]]
    assert ("GET", "/v1/responses") in lists
    for route in lists:
        status, text, _ = bob.ask(route, Probe(), {})
        assert status == 200
        assert not [known for known in ann.ids.values() if known in text], route


def test_deleting_own_objects_leaves_those_of_other_owners(tenants: tuple[Tenant, Tenant]) -> None:
    ann, bob = tenants
    before = ann.snapshot()
    status, text, _ = bob.ask(("DELETE", "/v1/gateway/owner-data"), Probe(), {})
    assert (status, json.loads(text)["count"]) == (200, 7)
    assert ann.snapshot() == before
    status, text, _ = bob.ask(("GET", "/v1/responses/{response_id}"), Probe(), bob.ids)
    assert status == 404


@pytest.mark.parametrize("impossible", ["%00", "resp_%00a", "x" * 300, "%F0%9F%98%80", "%ED%A0%80", "%20"])
def test_impossible_ids_are_unknown(lasting_tenants: tuple[Tenant, Tenant], impossible: str) -> None:
    ann, _ = lasting_tenants
    for route in sorted(routes() & PROBES.keys()):
        if route[0] == "WS" or "{" not in route[1]:
            continue
        for probe in PROBES[route]:
            status, text, _ = ann.ask(route, probe, dict.fromkeys(ann.ids, impossible))
            assert status in (400, 404), (route, probe, text)


def _filled(value: Any, ids: Mapping[str, str]) -> Any:
    """Returns `value` with names replaced by ids."""
    match value:
        case str():
            return re.sub(r"{(\w+)}", lambda name: ids[name.group(1)], value)
        case dict():
            return {key: _filled(inner, ids) for key, inner in value.items()}
        case list():
            return [_filled(inner, ids) for inner in value]
        case _:
            return value


def _another(known: str) -> str:
    """An id of the same form that nothing has."""
    return known[:-4] + ("0000" if known[-4:] != "0000" else "1111")


def _without(answer: tuple[int, str, Mapping[str, str]], ids: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]]:
    """Returns a reply with the requested ids replaced by their names."""
    status, text, headers = answer
    for name, known in ids.items():
        text = text.replace(known, name)
    return status, text, headers
