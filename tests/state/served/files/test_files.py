"""Files over HTTP with the official SDK, and with requests that it would never send, on both databases."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from openai import APIStatusError, NotFoundError, OpenAI

from tests.polling import block_until
from tests.serving import Gateway, serving
from tests.state.served.files.conftest import ByteStorage

CONFIG: dict[str, Any] = {"providers": {"demo": {"type": "scripted"}}, "models": {"*": {"provider": "demo"}}}
MIB = 1024 * 1024
BOUNDARY = "boundary-0123456789"
FORM_TYPE = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


@pytest.fixture
def gateway(store_url: str, storage: ByteStorage) -> Iterator[Gateway]:
    config = {
        **CONFIG,
        "store": {"url": store_url},
        "files": {**storage.settings, "max_file_mb": 2},
        "limits": {"files_mb": 5, "files": 40},
    }
    with serving(config) as running:
        yield running


def build_form(*parts: tuple[str, bytes]) -> bytes:
    """Returns a form. Each part is the value of its content-disposition, and its content."""
    written = b"".join(
        b"--%b\r\ncontent-disposition: form-data; %b\r\n\r\n%b\r\n"
        % (BOUNDARY.encode(), head.encode("utf-8", "surrogateescape"), content)
        for head, content in parts
    )
    return written + b"--%b--\r\n" % BOUNDARY.encode()


FILE_PART = ('name="file"; filename="a.txt"', b"hello")
PURPOSE_PART = ('name="purpose"', b"user_data")


def error_of(reply: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_a_file_is_uploaded_described_read_and_deleted(client: OpenAI, storage: ByteStorage) -> None:
    made = client.files.create(
        file=("notes/日本.txt", b"hello"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert made.id.startswith("file-")
    assert (made.object, made.bytes, made.filename, made.purpose) == ("file", 5, "日本.txt", "user_data")
    assert made.status == "processed"
    assert made.expires_at == made.created_at + 3600
    assert client.files.retrieve(made.id) == made
    content = client.files.content(made.id)
    assert content.read() == b"hello"
    headers = content.response.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-length"] == "5"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment; filename=\"__.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"
    assert storage.list_names() == [made.id]
    gone = client.files.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "file", True)
    assert storage.list_names() == []
    for ask in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(NotFoundError) as unknown:
            ask(made.id)
        assert unknown.value.body == {
            "message": f"there is no file with the id '{made.id}'",
            "type": "invalid_request_error",
            "param": None,
            "code": "file_not_found",
        }


OTHER_CLIENTS: dict[str, tuple[dict[str, str], Callable[[dict[str, Any]], object]]] = {
    "of Anthropic's API": ({"anthropic-version": "2023-06-01"}, lambda body: (body["type"], body["error"]["type"])),
    "of Gemini's API": ({"x-goog-api-client": "google-genai-sdk/1"}, lambda body: body["error"]["status"]),
    "of Gemini's API by its key": ({"x-goog-api-key": "none"}, lambda body: body["error"]["status"]),
}
"""A client -> its headers, and what it reads of an error."""

REFUSALS = (("error", "not_found_error"), "NOT_FOUND")


@pytest.mark.parametrize(("headers", "read_error"), OTHER_CLIENTS.values(), ids=OTHER_CLIENTS)
@pytest.mark.parametrize("method", ["POST", "GET", "GET one", "DELETE one"])
def test_clients_of_apis_with_other_files_get_an_error_of_their_api(
    client: OpenAI, http: httpx.Client, method: str, headers: dict[str, str], read_error: Callable[[Any], object]
) -> None:
    made = client.files.create(file=("a.txt", b"hello"), purpose="user_data")
    verb, _, one = method.partition(" ")
    path = f"/files/{made.id}" if one else "/files"
    form = {"content": build_form(FILE_PART, PURPOSE_PART), "headers": {**headers, **FORM_TYPE}}
    refused = http.request(verb, path, **(form if verb == "POST" else {"headers": headers}))
    assert refused.status_code == 404
    assert read_error(refused.json()) in REFUSALS
    assert f"{verb} /v1{path}" in refused.text
    assert [file.id for file in client.files.list()] == [made.id]
    assert http.get(f"/files/{made.id}/content", headers=headers).content == b"hello"


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 512 * 1024, 2 * MIB])
def test_files_of_all_sizes_come_back_as_they_were_sent(client: OpenAI, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    made = client.files.create(file=("a.bin", content), purpose="assistants")
    assert made.bytes == size
    assert client.files.content(made.id).read() == content


@pytest.mark.parametrize(
    ("purpose", "expires_s"),
    [("assistants", None), ("batch", 30 * 86_400), ("fine-tune", None), ("vision", None), ("user_data", None)],
)
def test_files_of_batches_expire_unless_the_client_says_when(client: OpenAI, purpose: Any, expires_s: int) -> None:
    made = client.files.create(file=("a.jsonl", b"{}"), purpose=purpose)
    assert made.expires_at == (None if expires_s is None else made.created_at + expires_s)
    chosen = {"anchor": "created_at", "seconds": 2_592_000}
    made = client.files.create(file=("a.jsonl", b"{}"), purpose=purpose, expires_after=chosen)  # type: ignore[arg-type]
    assert made.expires_at == made.created_at + 2_592_000


def test_lists_are_in_the_order_of_creation_and_have_pages(client: OpenAI) -> None:
    ids = [client.files.create(file=("a.txt", b"x"), purpose="user_data").id for _ in range(5)]
    image = client.files.create(file=("a.png", b"x"), purpose="vision").id
    assert [file.id for file in client.files.list(limit=2)] == [image, *ids[::-1]]
    assert [file.id for file in client.files.list(limit=2, order="asc")] == [*ids, image]
    assert [file.id for file in client.files.list(purpose="vision")] == [image]
    page = client.files.list(limit=2, after=ids[1], order="asc")
    assert ([file.id for file in page.data], page.has_more) == (ids[2:4], True)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("purpose=asistants", "purpose"),
        ("purpose=%00", "purpose"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=a", "limit"),
        ("order=up", "order"),
        ("after=file-none", "after"),
        ("before=a", "before"),
    ],
)
def test_a_list_names_the_parameter_that_it_refuses(http: httpx.Client, query: str, param: str) -> None:
    reply = http.get(f"/files?{query}")
    assert (reply.status_code, error_of(reply)["param"]) == (400, param)
    assert http.get("/files?limit=10000").status_code == 200


def test_fields_may_come_in_any_order(http: httpx.Client) -> None:
    expiry = (('name="expires_after[anchor]"', b"created_at"), ('name="expires_after[seconds]"', b"3600"))
    for parts in ((FILE_PART, PURPOSE_PART, *expiry), (*expiry, PURPOSE_PART, FILE_PART)):
        reply = http.post("/files", content=build_form(*parts), headers=FORM_TYPE)
        assert reply.status_code == 200, reply.text
        assert reply.json()["expires_at"] == reply.json()["created_at"] + 3600


def test_purposes_that_the_sdk_cannot_read_are_accepted(http: httpx.Client) -> None:
    reply = http.post("/files", content=build_form(FILE_PART, ('name="purpose"', b"evals")), headers=FORM_TYPE)
    assert (reply.status_code, reply.json()["purpose"]) == (200, "evals")


def test_bytes_of_a_name_that_are_not_utf_8_are_replaced(http: httpx.Client) -> None:
    head = b'name="file"; filename="\xff\xfe.txt"'.decode("utf-8", "surrogateescape")
    reply = http.post("/files", content=build_form(PURPOSE_PART, (head, b"x")), headers=FORM_TYPE)
    assert reply.json()["filename"] == "\ufffd\ufffd.txt"


ANCHOR = 'name="expires_after[anchor]"'
SECONDS = 'name="expires_after[seconds]"'


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([FILE_PART], "purpose"),
        ([FILE_PART, ('name="purpose"', b"assistants_output")], "purpose"),
        ([FILE_PART, ('name="purpose"', b"")], "purpose"),
        ([FILE_PART, PURPOSE_PART, PURPOSE_PART], "purpose"),
        ([FILE_PART, ('name="purpose"; filename="p.txt"', b"user_data")], "purpose"),
        ([FILE_PART, ('name="purpose"', b"x" * 2000)], "purpose"),
        ([PURPOSE_PART], "file"),
        ([PURPOSE_PART, FILE_PART, FILE_PART], "file"),
        ([PURPOSE_PART, ('name="file"', b"no name")], "file"),
        ([PURPOSE_PART, ('name="file"; filename=""', b"x")], "file"),
        ([PURPOSE_PART, ('name="file"; filename="a/.."', b"x")], "file"),
        ([PURPOSE_PART, ('name="file"; filename="a\u202eb"', b"x")], "file"),
        ([PURPOSE_PART, FILE_PART, (ANCHOR, b"created_at")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, (SECONDS, b"3600")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, (ANCHOR, b"last_active_at"), (SECONDS, b"3600")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, (ANCHOR, b"created_at"), (SECONDS, b"3599")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, (ANCHOR, b"created_at"), (SECONDS, b"2592001")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, (ANCHOR, b"created_at"), (SECONDS, b"1e4")], "expires_after"),
        ([PURPOSE_PART, FILE_PART, ('name="model"', b"a")], "model"),
    ],
)
def test_a_form_that_is_refused_names_the_field_and_leaves_nothing(
    http: httpx.Client, storage: ByteStorage, parts: list[tuple[str, bytes]], param: str
) -> None:
    reply = http.post("/files", content=build_form(*parts), headers=FORM_TYPE)
    assert (reply.status_code, error_of(reply)["param"]) == (400, param), reply.text
    assert http.get("/files").json()["data"] == []
    assert storage.list_names() == []


@pytest.mark.parametrize("form", [b"", b"--other\r\n", build_form(PURPOSE_PART, FILE_PART)[:-30]])
def test_a_malformed_form_is_refused_and_leaves_nothing(http: httpx.Client, storage: ByteStorage, form: bytes) -> None:
    reply = http.post("/files", content=form, headers=FORM_TYPE)
    assert reply.status_code == 400
    assert storage.list_names() == []


@pytest.mark.parametrize("declared", [True, False])
def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(
    http: httpx.Client, storage: ByteStorage, declared: bool
) -> None:
    form = build_form(PURPOSE_PART, ('name="file"; filename="a.bin"', bytes(2 * MIB + 1)))
    content: Any = form if declared else iter([form[start : start + 65536] for start in range(0, len(form), 65536)])
    reply = http.post("/files", content=content, headers=FORM_TYPE)
    error = error_of(reply)
    assert (reply.status_code, error["code"], error["param"]) == (413, "file_too_large", "file")
    assert "files.max_file_mb" in error["message"]
    assert storage.list_names() == []


def test_the_quota_holds_for_uploads_at_once(client: OpenAI, storage: ByteStorage) -> None:
    outcomes: list[Any] = []

    def upload() -> None:
        try:
            outcomes.append(client.files.create(file=("a.bin", bytes(1_500_000)), purpose="user_data").id)
        except APIStatusError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=upload) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    stored = [outcome for outcome in outcomes if isinstance(outcome, str)]
    refused = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    assert (len(outcomes), len(stored)) == (8, 3)  # 5 MB
    for error in refused:
        assert (error.status_code, error.code, error.type) == (429, "storage_quota_exceeded", "rate_limit_error")
        assert "limits.files_mb" in error.message
        assert error.response.headers["x-should-retry"] == "false"
    assert storage.list_names() == sorted(stored)
    with pytest.raises(APIStatusError, match=r"limits\.files_mb"):
        client.files.create(file=("a.bin", bytes(1_500_000)), purpose="user_data")
    client.files.delete(stored[0])
    client.files.create(file=("a.bin", bytes(1_500_000)), purpose="user_data")


def test_a_key_may_have_limits_of_its_own(store_url: str, storage: ByteStorage) -> None:
    keys = [
        {"name": "small", "owner": "ann", "key": "key-of-small-0123456789", "limits": {"files": 1}},
        {"name": "large", "owner": "ann", "key": "key-of-large-0123456789", "limits": {"files": 3}},
        {"name": "plain", "key": "key-of-plain-0123456789"},
    ]
    config = {**CONFIG, "store": {"url": store_url}, "files": storage.settings, "auth": {"keys": keys}}
    with serving({**config, "limits": {"files": 2}}) as gateway:
        replies: list[tuple[str, int]] = []
        for name in ("large", "small", "plain", "large"):
            headers = {"authorization": f"Bearer key-of-{name}-0123456789"}
            for _ in range(2):
                form = {"data": {"purpose": "user_data"}, "files": {"file": ("a.txt", b"x")}}
                reply = httpx.post(f"{gateway.v1}/files", headers=headers, **form)  # type: ignore[arg-type]
                replies.append((name, reply.status_code))
        assert replies == [
            *[("large", 200), ("large", 200), ("small", 429), ("small", 429)],
            *[("plain", 200), ("plain", 200), ("large", 200), ("large", 429)],
        ]


def test_an_upload_that_is_cut_leaves_nothing(gateway: Gateway, http: httpx.Client, storage: ByteStorage) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    headers = {"host": "localhost", "content-length": "2000000", **FORM_TYPE}
    head = "\r\n".join(["POST /v1/files HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())])
    with socket.create_connection((host, int(port))) as connection:
        form = build_form(PURPOSE_PART, ('name="file"; filename="a.bin"', bytes(1_900_000)))
        connection.sendall(f"{head}\r\n\r\n".encode() + form[:1_000_000])
        if storage.shows_beginnings:
            block_until(lambda: bool(storage.list_names()))
    block_until(lambda: not storage.list_names())
    assert http.get("/files").json()["data"] == []


def test_a_head_of_a_download_reads_nothing(client: OpenAI, http: httpx.Client) -> None:
    made = client.files.create(file=("a.txt", b"same"), purpose="user_data")
    reply = http.head(f"/files/{made.id}/content")
    assert (reply.status_code, reply.headers["content-length"], reply.content) == (200, "4", b"")


def test_two_equal_files_are_independent(client: OpenAI) -> None:
    first, second = (client.files.create(file=("a.txt", b"same"), purpose="user_data").id for _ in range(2))
    client.files.delete(first)
    assert client.files.content(second).read() == b"same"


def test_bytes_that_vanished_are_a_failure_of_the_server(client: OpenAI, storage: ByteStorage) -> None:
    made = client.files.create(file=("a.txt", b"same"), purpose="user_data")
    storage.remove_all()
    with pytest.raises(APIStatusError) as failed:
        client.files.content(made.id)
    assert (failed.value.status_code, failed.value.code) == (503, "file_storage_unavailable")
    assert storage.secret not in failed.value.message


def test_all_data_of_an_owner_includes_the_bytes_of_its_files(
    client: OpenAI, http: httpx.Client, storage: ByteStorage
) -> None:
    for _ in range(3):
        client.files.create(file=("a.txt", b"same"), purpose="user_data")
    assert http.delete("/gateway/owner-data").json()["count"] == 3
    assert storage.list_names() == []


def test_without_a_store_there_are_no_files() -> None:
    with serving(CONFIG) as gateway, httpx.Client(base_url=gateway.v1, timeout=60) as http:
        form = {"data": {"purpose": "user_data"}, "files": {"file": ("a.txt", b"x")}}
        replies = [http.post("/files", **form), http.get("/files"), http.get("/files/file-1")]  # type: ignore[arg-type]
        replies += [http.get("/files/file-1/content"), http.delete("/files/file-1")]
        assert {reply.status_code for reply in replies} == {404}
        assert all("store.url" in error_of(reply)["message"] for reply in replies)
