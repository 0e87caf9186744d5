"""Vector stores of PostgreSQL whose files lie in a bucket, shared by two servers without a folder in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from tests.databases import Postgres
from tests.polling import block_until
from tests.serving import Gateway, serving
from tests.state.s3_server import Bucket, S3Server, s3_server

TEXT = "\n\n".join(f"Paragraph number{n}: a cat sleeps for sixteen hours a day." for n in range(2000))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    return s3.make_bucket()


@contextmanager
def connected(url: str, bucket: Bucket) -> Iterator[tuple[Gateway, OpenAI]]:
    """Serves a gateway of one of the replicas, with a client."""
    config: dict[str, Any] = {
        "providers": {"demo": {"type": "scripted"}},
        "models": {"*": {"provider": "demo"}},
        "store": {"url": url},
        "files": {"s3": bucket.settings},
        "background": {"lease_s": 2.0},
        "tools": {"file_search": {"tries": 1}},
    }
    with serving(config) as gateway, OpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
        yield gateway, client


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    leased = postgres.lease()
    yield leased
    postgres.give_back(leased)


def test_two_servers_share_files_and_their_index(url: str, bucket: Bucket) -> None:
    with connected(url, bucket) as (_, first), connected(url, bucket) as (_, second):
        file = first.files.create(file=("cats.md", TEXT.encode()), purpose="assistants")
        assert bucket.list_names() == [file.id]
        assert second.files.content(file.id).read() == TEXT.encode()
        store = second.vector_stores.create()
        entry = second.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        assert (entry.status, entry.last_error) == ("completed", None)
        for client in (first, second):
            [found, *_] = client.vector_stores.search(store.id, query="number1999").data
            assert (found.file_id, found.filename) == (file.id, "cats.md")
            assert "number1999" in found.content[0].text
        first.files.delete(file.id)
        assert second.vector_stores.search(store.id, query="number1999").data == []
        block_until(lambda: bucket.list_names() == [], "the bytes stay in the bucket")
        with pytest.raises(NotFoundError):
            second.files.content(file.id)


def test_a_file_whose_bytes_are_gone_fails_by_name_and_others_are_indexed(url: str, bucket: Bucket) -> None:
    with connected(url, bucket) as (_, client):
        lost = client.files.create(file=("lost.txt", b"A lost cat."), purpose="assistants")
        bucket.remove_all()
        kept = client.files.create(file=("kept.txt", b"A cat that is kept."), purpose="assistants")
        store = client.vector_stores.create(file_ids=[lost.id, kept.id])
        block_until(lambda: client.vector_stores.retrieve(store.id).file_counts.in_progress == 0)
        counts = client.vector_stores.retrieve(store.id).file_counts
        assert (counts.completed, counts.failed) == (1, 1)
        failed = client.vector_stores.files.retrieve(lost.id, vector_store_id=store.id)
        assert failed.last_error is not None
        assert failed.last_error.code == "server_error"
        [found] = client.vector_stores.search(store.id, query="cat").data
        assert found.file_id == kept.id
