"""Vector stores over HTTP with the official SDK, and with requests that it would never send, on both databases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI, RateLimitError

from tests.polling import block_until
from tests.serving import Gateway, serving
from tests.unit.gateway.retrieval.parsing.documents import build_docx, build_pdf

CONFIG: dict[str, Any] = {
    "providers": {"demo": {"type": "scripted"}},
    "models": {"*": {"provider": "demo"}},
    "limits": {"vector_stores": 4},
    "tools": {"file_search": {"max_files": 6}},
    "auth": {"keys": [{"name": "ann", "key": "ann-key-0123456789"}, {"name": "bob", "key": "bob-key-0123456789"}]},
}
TEXTS = {
    "cats.md": "# Cats\n\nA cat sleeps for sixteen hours a day.",
    "dogs.txt": "Dogs bark at the postman.\n\nA dog and a cat can be friends.",
    "猫.txt": "猫は一日に十六時間眠ります。",
}


@pytest.fixture
def gateway(store_url: str, tmp_path: Path) -> Iterator[Gateway]:
    config = {**CONFIG, "store": {"url": store_url}, "files": {"path": str(tmp_path / "files")}}
    with serving(config) as running:
        yield running


def connect(gateway: Gateway, name: str) -> OpenAI:
    return OpenAI(
        base_url=gateway.v1, api_key=f"{name}-key-0123456789", max_retries=0, _strict_response_validation=True
    )


@pytest.fixture
def ann(gateway: Gateway) -> Iterator[OpenAI]:
    with connect(gateway, "ann") as client:
        yield client


@pytest.fixture
def bob(gateway: Gateway) -> Iterator[OpenAI]:
    with connect(gateway, "bob") as client:
        yield client


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer ann-key-0123456789"}
    with httpx.Client(base_url=gateway.v1, timeout=60, headers=headers) as client:
        yield client


def upload(client: OpenAI, name: str, content: bytes | str) -> str:
    data = content.encode() if isinstance(content, str) else content
    return client.files.create(file=(name, data), purpose="assistants").id


def build_store(client: OpenAI, **files: bytes | str) -> str:
    store = client.vector_stores.create(name="Docs")
    for name, content in (files or TEXTS).items():
        entry = client.vector_stores.files.create_and_poll(
            upload(client, name, content), vector_store_id=store.id, attributes={"name": name}
        )
        assert (entry.status, entry.last_error) == ("completed", None)
    return store.id


def test_a_file_is_attached_indexed_found_and_taken_out(ann: OpenAI) -> None:
    store_id = build_store(ann)
    store = ann.vector_stores.retrieve(store_id)
    assert (store.status, store.file_counts.completed, store.file_counts.total) == ("completed", 3, 3)
    assert store.usage_bytes == sum(len(text.encode()) for text in TEXTS.values())
    page = ann.vector_stores.search(store_id, query="How long do cats sleep?")
    first = page.data[0]
    assert (first.filename, first.content[0].text, first.attributes) == (
        "cats.md",
        TEXTS["cats.md"],
        {"name": "cats.md"},
    )
    assert 0 < first.score < 1
    assert [each.filename for each in ann.vector_stores.search(store_id, query=["睡眠", "眠り"]).data] == ["猫.txt"]
    file_id = first.file_id
    [text] = ann.vector_stores.files.content(file_id, vector_store_id=store_id).data
    assert text.text == TEXTS["cats.md"]
    gone = ann.vector_stores.files.delete(file_id, vector_store_id=store_id)
    assert (gone.id, gone.deleted) == (file_id, True)
    assert [each.filename for each in ann.vector_stores.search(store_id, query="cats").data] == ["dogs.txt"]
    assert ann.files.retrieve(file_id).filename == "cats.md"
    assert ann.vector_stores.delete(store_id).deleted
    with pytest.raises(NotFoundError) as unknown:
        ann.vector_stores.retrieve(store_id)
    assert unknown.value.body == {
        "message": f"Vector store with id {store_id} not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": "vector_store_not_found",
    }


def test_documents_of_several_kinds_are_read_in_one_batch(ann: OpenAI) -> None:
    store = ann.vector_stores.create()
    names = {
        "a.pdf": build_pdf("The invoice is overdue"),
        "a.docx": build_docx("The contract ends"),
        "a.png": b"\x89PNG\0",
    }
    ids = [upload(ann, name, content) for name, content in names.items()]
    batch = ann.vector_stores.file_batches.create_and_poll(store.id, file_ids=ids)
    assert (batch.status, batch.file_counts.completed, batch.file_counts.failed) == ("completed", 2, 1)
    [failed] = ann.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="failed").data
    assert failed.last_error is not None
    assert (failed.id, failed.last_error.code) == (ids[2], "unsupported_file")
    assert "/" not in failed.last_error.message
    assert [each.filename for each in ann.vector_stores.search(store.id, query="overdue invoices").data] == ["a.pdf"]
    assert [each.filename for each in ann.vector_stores.search(store.id, query="contract").data] == ["a.docx"]


def test_filters_thresholds_and_limits_choose_results(ann: OpenAI) -> None:
    store_id = build_store(ann)
    search = ann.vector_stores.search
    by_name: Any = {"type": "eq", "key": "name", "value": "dogs.txt"}
    assert [each.filename for each in search(store_id, query="cat", filters=by_name).data] == ["dogs.txt"]
    assert len(search(store_id, query="cat", max_num_results=1).data) == 1
    everything = search(store_id, query="cat sleeps").data
    above = search(store_id, query="cat sleeps", ranking_options={"score_threshold": everything[0].score}).data
    assert above == everything[:1]
    assert search(store_id, query="?!").data == []
    rewritten = ann.vector_stores.with_raw_response.search(store_id, query="cat", rewrite_query=True)
    assert rewritten.headers["x-gateway-loss"] == "rewrite_query=ignored"
    ann.vector_stores.files.update(everything[0].file_id, vector_store_id=store_id, attributes={"name": "dogs.txt"})
    assert len(search(store_id, query="cat", filters=by_name).data) == 2


def test_nothing_of_another_owner_is_seen(ann: OpenAI, bob: OpenAI) -> None:
    store_id = build_store(ann)
    file_id = ann.vector_stores.files.list(store_id).data[0].id
    stores: Any = bob.vector_stores
    for ask in (
        lambda: stores.retrieve(store_id),
        lambda: stores.update(store_id, name="mine"),
        lambda: stores.delete(store_id),
        lambda: stores.search(store_id, query="cat"),
        lambda: stores.files.list(store_id),
        lambda: stores.files.retrieve(file_id, vector_store_id=store_id),
        lambda: stores.files.content(file_id, vector_store_id=store_id),
        lambda: stores.files.update(file_id, vector_store_id=store_id, attributes={}),
        lambda: stores.files.delete(file_id, vector_store_id=store_id),
        lambda: stores.files.create(store_id, file_id=file_id),
        lambda: stores.file_batches.create(store_id, file_ids=[file_id]),
    ):
        with pytest.raises(NotFoundError) as unknown:
            ask()
        assert unknown.value.body["code"] == "vector_store_not_found"  # type: ignore[index]
        assert unknown.value.body["message"] == f"Vector store with id {store_id} not found."  # type: ignore[index]
    with pytest.raises(NotFoundError) as foreign:
        stores.create(file_ids=[file_id])
    assert foreign.value.body["code"] == "file_not_found"  # type: ignore[index]
    assert foreign.value.param == "file_ids[0]"
    assert stores.list().data == []
    own = stores.create()
    with pytest.raises(NotFoundError) as foreign:
        stores.files.create(own.id, file_id=file_id)
    assert (foreign.value.code, foreign.value.param) == ("file_not_found", "file_id")
    assert ann.vector_stores.retrieve(store_id).file_counts.total == 3


def test_what_a_store_does_not_have_is_named_by_a_code(ann: OpenAI) -> None:
    store_id = ann.vector_stores.create().id
    files, batches = ann.vector_stores.files, ann.vector_stores.file_batches
    asked: dict[str, list[Callable[[], object]]] = {
        "file_not_found": [
            lambda: files.retrieve("file-1", vector_store_id=store_id),
            lambda: files.update("file-1", vector_store_id=store_id, attributes={}),
            lambda: files.content("file-1", vector_store_id=store_id),
            lambda: files.delete("file-1", vector_store_id=store_id),
        ],
        "file_batch_not_found": [
            lambda: batches.retrieve("vsfb_1", vector_store_id=store_id),
            lambda: batches.cancel("vsfb_1", vector_store_id=store_id),
            lambda: batches.list_files("vsfb_1", vector_store_id=store_id),
        ],
    }
    for code, calls in asked.items():
        for ask in calls:
            with pytest.raises(NotFoundError) as refused:
                ask()
            assert refused.value.code == code


def test_quotas_are_refused_by_name(ann: OpenAI) -> None:
    for _ in range(4):
        store = ann.vector_stores.create()
    with pytest.raises(RateLimitError) as refused:
        ann.vector_stores.create()
    assert refused.value.code == "vector_store_quota_exceeded"
    ids = [upload(ann, f"{number}.txt", "text") for number in range(7)]
    with pytest.raises(RateLimitError) as refused:
        ann.vector_stores.file_batches.create(store.id, file_ids=ids)
    assert refused.value.code == "vector_store_quota_exceeded"
    assert ann.vector_stores.retrieve(store.id).file_counts.total == 0
    ann.vector_stores.delete(store.id)
    with pytest.raises(RateLimitError) as refused:
        ann.vector_stores.create(file_ids=ids)
    assert refused.value.code == "vector_store_quota_exceeded"
    assert "tools.file_search.max_files" in str(refused.value)
    assert ann.vector_stores.create(file_ids=[*ids[:6], ids[0]]).file_counts.total == 6


def post_to_new_store(http: httpx.Client, ann: OpenAI, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns the status and the error of a request. `{store}` in its path stands for a new store."""
    store = ann.vector_stores.create()
    reply = http.post(f"/vector_stores{path.format(store=store.id)}", json=body)
    return reply.status_code, reply.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"nam": "x"}, "nam"),
        ("", {"name": 1}, "name"),
        ("", {"metadata": {"a": 1}}, "metadata.a"),
        ("", {"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ("", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after"),
        ("", {"expires_after": {"anchor": "last_active_at", "days": 366}}, "expires_after.days"),
        ("", {"file_ids": ["file-unknown"]}, "file_ids[0]"),
        ("", {"file_ids": [1]}, "file_ids[0]"),
        ("/{store}/search", {}, "query"),
        ("/{store}/search", {"query": ""}, "query"),
        ("/{store}/search", {"query": [1]}, "query"),
        ("/{store}/search", {"query": "a" * 4097}, "query"),
        ("/{store}/search", {"query": "a", "max_num_results": 51}, "max_num_results"),
        ("/{store}/search", {"query": "a", "filters": {}}, "filters.type"),
        (
            "/{store}/search",
            {"query": "a", "filters": {"type": "and", "filters": [{"type": "gt", "key": "a", "value": True}]}},
            "filters.filters[0].value",
        ),
        ("/{store}/search", {"query": "a", "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
        (
            "/{store}/search",
            {"query": "a", "ranking_options": {"score_threshold": 2}},
            "ranking_options.score_threshold",
        ),
        ("/{store}/files", {}, "file_id"),
        ("/{store}/files", {"file_id": "file-unknown"}, "file_id"),
        ("/{store}/files", {"file_id": "file-x", "attributes": {"a": None}}, "attributes.a"),
        ("/{store}/files", {"file_id": "file-x", "chunking_strategy": {"type": "other"}}, "chunking_strategy"),
        (
            "/{store}/files",
            {
                "file_id": "file-x",
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 101},
                },
            },
            "chunking_strategy",
        ),
        ("/{store}/file_batches", {}, "file_ids"),
        ("/{store}/file_batches", {"file_ids": []}, "file_ids"),
        ("/{store}/file_batches", {"file_ids": ["a"], "files": [{"file_id": "a"}]}, "file_ids"),
        ("/{store}/file_batches", {"files": [{"file_id": "file-unknown"}]}, "files[0].file_id"),
        ("/{store}/file_batches", {"files": [{"file_id": "a"}], "attributes": {"b": 1}}, "attributes"),
    ],
)
def test_a_bad_request_names_its_parameter(
    http: httpx.Client, ann: OpenAI, path: str, body: dict[str, Any], param: str
) -> None:
    status, error = post_to_new_store(http, ann, path, body)
    assert (status in (400, 404), error["param"]) == (True, param)
    assert error["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"name": "a\0"}, "name"),
        ("", {"description": "a\0"}, "description"),
        ("/{store}/files", {"file_id": "file-x", "attributes": {"a": "b\0"}}, "attributes.a"),
        ("/{store}/files", {"file_id": "file-x", "attributes": {"a\0": "b"}}, "attributes"),
    ],
)
def test_a_text_with_a_null_byte_is_refused_for_it(
    http: httpx.Client, ann: OpenAI, path: str, body: dict[str, Any], param: str
) -> None:
    status, error = post_to_new_store(http, ann, path, body)
    assert (status, error["param"]) == (400, param)
    assert "without U+0000" in error["message"]


def test_lists_have_cursors_in_both_directions(ann: OpenAI, http: httpx.Client) -> None:
    ids = [ann.vector_stores.create(name=str(number)).id for number in range(4)]
    assert [store.id for store in ann.vector_stores.list(limit=2)] == ids[::-1]
    page = http.get("/vector_stores", params={"before": ids[0], "limit": 2}).json()
    assert [store["id"] for store in page["data"]] == [ids[2], ids[1]]
    assert page["has_more"]
    assert http.get("/vector_stores", params={"after": "vs_x"}).json()["error"]["param"] == "after"
    for params, unknown_param in (
        ({"before": "vs_x"}, "before"),
        ({"after": ids[3], "before": "vs_x"}, "before"),
        ({"after": "vs_x", "before": ids[0]}, "after"),
    ):
        error = http.get("/vector_stores", params=params).json()["error"]
        assert error["param"] == unknown_param
        assert "'vs_x'" in error["message"]
    unknown = http.get(f"/vector_stores/{ids[0]}/files", params={"filter": "done"}).json()["error"]
    assert unknown["param"] == "filter"


def test_a_busy_object_says_when_to_ask_again(ann: OpenAI, http: httpx.Client) -> None:
    store = ann.vector_stores.create()
    entry = http.post(f"/vector_stores/{store.id}/files", json={"file_id": upload(ann, "a.txt", "text")})
    assert (entry.json()["status"], entry.headers["openai-poll-after-ms"]) == ("in_progress", "100")
    path = f"/vector_stores/{store.id}/files/{entry.json()['id']}"
    block_until(lambda: http.get(path).json()["status"] == "completed")
    assert "openai-poll-after-ms" not in http.get(path).headers


def test_expiry_and_names_can_be_changed(ann: OpenAI) -> None:
    store = ann.vector_stores.create(name="a", expires_after={"anchor": "last_active_at", "days": 2})
    assert store.expires_at is not None
    assert store.last_active_at is not None
    assert store.expires_at - store.last_active_at == 2 * 86_400
    changed = ann.vector_stores.update(store.id, name="b", metadata={"k": "v"})
    assert (changed.name, changed.metadata, changed.expires_after) == ("b", {"k": "v"}, store.expires_after)
    assert ann.vector_stores.update(store.id, expires_after=None).expires_after is None


def test_a_deleted_file_leaves_every_store(ann: OpenAI) -> None:
    store_id = build_store(ann)
    assert ann.files.delete(ann.vector_stores.files.list(store_id).data[0].id).deleted
    assert ann.vector_stores.retrieve(store_id).file_counts.total == 2


def test_deleting_all_data_of_an_owner_covers_its_stores(ann: OpenAI, bob: OpenAI, http: httpx.Client) -> None:
    build_store(ann)
    kept_id = build_store(bob)
    assert http.delete("/gateway/owner-data").status_code == 200
    assert ann.vector_stores.list().data == []
    assert len(bob.vector_stores.search(kept_id, query="cat").data) == 2
