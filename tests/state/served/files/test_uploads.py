"""Uploads in parts over HTTP with the official SDK, on both databases."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from openai import APIStatusError, OpenAI

from gateway.files.file_uploads import FileUploads
from gateway.files.open_uploads import OpenUpload
from tests.polling import block_until
from tests.serving import Gateway, serving
from tests.state.served.files.conftest import ByteStorage

CONFIG: dict[str, Any] = {"providers": {"demo": {"type": "scripted"}}, "models": {"*": {"provider": "demo"}}}
MIB = 1024 * 1024
CREATED: dict[str, Any] = {"bytes": 6, "filename": "dir/a.txt", "mime_type": "text/plain", "purpose": "user_data"}


@pytest.fixture
def gateway(store_url: str, storage: ByteStorage) -> Iterator[Gateway]:
    files = {**storage.settings, "max_file_mb": 3, "max_part_mb": 1, "max_parts": 5, "upload_hours": 0.5}
    with serving({**CONFIG, "store": {"url": store_url}, "files": files}) as running:
        yield running


def refusal(call: Any, *args: Any, **named: Any) -> APIStatusError:
    with pytest.raises(APIStatusError) as refused:
        call(*args, **named)
    return refused.value


def test_a_file_is_uploaded_in_parts(client: OpenAI, storage: ByteStorage) -> None:
    made = client.uploads.create(**CREATED, expires_after={"anchor": "created_at", "seconds": 3600})
    assert (made.object, made.status, made.bytes, made.filename) == ("upload", "pending", 6, "a.txt")
    assert made.id.startswith("upload_")
    assert made.expires_at == made.created_at + 1800
    first, unnamed, second = (client.uploads.parts.create(made.id, data=data) for data in (b"abc", b"xx", b"def"))
    assert (first.object, first.upload_id, first.id[:5]) == ("upload.part", made.id, "part_")
    md5 = hashlib.md5(b"defabc").hexdigest().upper()
    done = client.uploads.complete(made.id, part_ids=[second.id, first.id], md5=md5)
    assert (done.status, done.id) == ("completed", made.id)
    assert done.file is not None
    assert done.file.expires_at == done.file.created_at + 3600
    assert client.files.retrieve(done.file.id) == done.file
    assert client.files.content(done.file.id).read() == b"defabc"
    assert storage.list_names() == [done.file.id]
    assert unnamed.id not in storage.list_names()


def test_the_sdk_uploads_a_large_file_in_chunks(client: OpenAI) -> None:
    content = bytes(range(256)) * (10 * 1024)
    done = client.uploads.upload_file_chunked(
        file=content, filename="a.bin", bytes=len(content), mime_type="a/b", purpose="assistants", part_size=MIB
    )
    assert done.file is not None
    assert client.files.content(done.file.id).read() == content


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"bytes": 0}, "bytes"),
        ({"bytes": "6"}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"bytes": None}, "bytes"),
        ({"filename": ".."}, "filename"),
        ({"filename": 1}, "filename"),
        ({"mime_type": ""}, "mime_type"),
        ({"mime_type": None}, "mime_type"),
        ({"purpose": "vision_output"}, "purpose"),
        ({"purpose": []}, "purpose"),
        ({"expires_after": 3600}, "expires_after"),
        ({"expires_after": {"anchor": "created_at"}}, "expires_after"),
        ({"expires_after": {"anchor": "created_at", "seconds": True}}, "expires_after"),
        ({"expires_after": {"anchor": "created_at", "seconds": 3600, "a": 1}}, "expires_after"),
        ({"metadata": {}}, "metadata"),
    ],
)
def test_an_upload_that_is_refused_names_the_parameter(http: httpx.Client, changed: Any, param: str) -> None:
    reply = http.post("/uploads", json={**CREATED, **changed})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_declared_bytes_and_parts_have_bounds(client: OpenAI, storage: ByteStorage) -> None:
    error = refusal(client.uploads.create, **{**CREATED, "bytes": 3 * MIB + 1})
    assert (error.status_code, error.code, error.param) == (413, "file_too_large", "bytes")
    made = client.uploads.create(**CREATED)
    error = refusal(client.uploads.parts.create, made.id, data=b"1234567")
    assert (error.status_code, error.param) == (400, "data")
    made = client.uploads.create(**{**CREATED, "bytes": 2 * MIB})
    error = refusal(client.uploads.parts.create, made.id, data=bytes(MIB + 1))
    assert (error.status_code, error.code, error.param) == (413, "file_too_large", "data")
    assert storage.list_names() == []


def test_a_completion_that_is_refused_leaves_the_upload_pending(client: OpenAI) -> None:
    made = client.uploads.create(**CREATED)
    other = client.uploads.create(**CREATED)
    part = client.uploads.parts.create(made.id, data=b"abcdef")
    foreign = client.uploads.parts.create(other.id, data=b"abcdef")
    for part_ids in ([], [part.id, part.id], [foreign.id], ["part_none"], [1]):
        error = refusal(client.uploads.complete, made.id, part_ids=part_ids)
        assert (error.status_code, error.param) == (400, "part_ids")
    small = client.uploads.parts.create(made.id, data=b"a")
    error = refusal(client.uploads.complete, made.id, part_ids=[small.id])
    assert (error.status_code, error.param) == (400, "part_ids")
    for md5 in ("0" * 32, "short"):
        error = refusal(client.uploads.complete, made.id, part_ids=[part.id], md5=md5)
        assert (error.status_code, error.param) == (400, "md5")
    assert client.uploads.complete(made.id, part_ids=[part.id]).status == "completed"


def test_an_upload_that_has_ended_is_refused_by_name(client: OpenAI, storage: ByteStorage) -> None:
    made = client.uploads.create(**CREATED)
    part = client.uploads.parts.create(made.id, data=b"abcdef")
    assert client.uploads.cancel(made.id).status == "cancelled"
    assert storage.list_names() == []
    for call, named in (
        (client.uploads.cancel, {}),
        (client.uploads.complete, {"part_ids": [part.id]}),
        (client.uploads.parts.create, {"data": b"abc"}),
    ):
        error = refusal(call, made.id, **named)
        assert (error.status_code, error.code) == (400, "upload_not_pending")
        error = refusal(call, "upload_none", **named)
        assert (error.status_code, error.code) == (404, "upload_not_found")


def test_parts_that_arrive_count_for_the_quota(
    store_url: str, storage: ByteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[int] = []
    reserve = OpenUpload.reserve

    def record_and_reserve(upload: OpenUpload, size: int) -> None:
        reserve(upload, size)
        reserved.append(size)

    monkeypatch.setattr(OpenUpload, "reserve", record_and_reserve)
    files = {**storage.settings, "max_file_mb": 3, "max_part_mb": 1}
    config = {**CONFIG, "store": {"url": store_url}, "files": files, "limits": {"files_mb": 1}}
    head = b'--b\r\ncontent-disposition: form-data; name="data"; filename="a"\r\n\r\n'
    rest = bytes(600_000) + b"\r\n--b--\r\n"
    may_end = threading.Event()

    def send_slowly() -> Iterator[bytes]:
        yield head
        may_end.wait(60)
        yield rest

    headers = {"content-type": "multipart/form-data; boundary=b", "content-length": str(len(head + rest))}
    with serving(config) as running, httpx.Client(base_url=running.v1, timeout=60) as http:
        ids = [http.post("/uploads", json={**CREATED, "bytes": 600_000}).json()["id"] for _ in range(2)]
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(http.post, f"/uploads/{ids[0]}/parts", content=send_slowly(), headers=headers)
            block_until(lambda: len(reserved) == 1)
            refused = http.post(f"/uploads/{ids[1]}/parts", content=head + rest, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "storage_quota_exceeded")
            assert "limits.files_mb" in refused.text
            may_end.set()
            assert slow.result(60).status_code == 200
    assert len(storage.list_names()) == 1


def test_an_upload_is_completed_by_one_request_at_a_time(client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    joins: list[None] = []
    may_end = threading.Event()
    join = FileUploads._join_parts

    async def join_late(*arguments: Any, **named: Any) -> str:
        joins.append(None)
        await asyncio.to_thread(may_end.wait, 60)
        return await join(*arguments, **named)

    monkeypatch.setattr(FileUploads, "_join_parts", join_late)
    made = client.uploads.create(**CREATED)
    part = client.uploads.parts.create(made.id, data=b"abcdef")
    with ThreadPoolExecutor(1) as pool:
        completing = pool.submit(client.uploads.complete, made.id, part_ids=[part.id])
        block_until(lambda: len(joins) == 1)
        error = refusal(client.uploads.complete, made.id, part_ids=[part.id])
        assert (error.status_code, error.param) == (400, "upload_id")
        may_end.set()
        assert completing.result(60).status == "completed"
    assert len(joins) == 1


def test_a_part_needs_the_field_data(http: httpx.Client, storage: ByteStorage) -> None:
    made = http.post("/uploads", json=CREATED).json()
    for form, param in (({"file": b"a"}, "file"), ({"data": b"a", "other": b"b"}, "other")):
        reply = http.post(f"/uploads/{made['id']}/parts", files=form)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert storage.list_names() == []


def test_without_a_store_there_are_no_uploads() -> None:
    with serving(CONFIG) as gateway, httpx.Client(base_url=gateway.v1, timeout=60) as http:
        paths = ("", "/upload_1/parts", "/upload_1/complete", "/upload_1/cancel")
        replies = [http.post(f"/uploads{path}", json=CREATED) for path in paths]
        assert {reply.status_code for reply in replies} == {404}
        assert all("store.url" in reply.json()["error"]["message"] for reply in replies)
