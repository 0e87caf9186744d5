"""Where the tests of files have their rows and their bytes: in each database, in a folder and in a bucket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from tests import databases
from tests.databases import Postgres
from tests.state.s3_server import Bucket, S3Server, s3_server


class ByteStorage(Protocol):
    """The storage of bytes of one test."""

    @property
    def shows_beginnings(self) -> bool:
        """Whether the beginning of a small file is in it before its end has arrived."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings in the section `files`."""
        ...

    @property
    def secret(self) -> str:
        """What no client may read of it."""
        ...

    def list_names(self) -> list[str]:
        """Returns the names of everything in it, unfinished or not."""
        ...

    def remove_all(self) -> None: ...


class FolderStorage(NamedTuple):
    path: Path
    shows_beginnings: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    @property
    def secret(self) -> str:
        return str(self.path)

    def list_names(self) -> list[str]:
        return sorted(path.name for path in self.path.rglob("*") if path.is_file())

    def remove_all(self) -> None:
        for path in self.path.rglob("*"):
            if path.is_file():
                path.unlink()


class BucketStorage(NamedTuple):
    bucket: Bucket
    shows_beginnings: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"s3": self.bucket.settings}

    @property
    def secret(self) -> str:
        return str(self.bucket.settings["endpoint"])

    def list_names(self) -> list[str]:
        return [*self.bucket.list_names(), *self.bucket.list_unfinished()]

    def remove_all(self) -> None:
        self.bucket.remove_all()


class Site(NamedTuple):
    """The database and the storage of one test."""

    store_url: str
    storage: ByteStorage


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["sqlite, folder", "postgresql, folder", "sqlite, bucket"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    storage: ByteStorage = FolderStorage(tmp_path / "files")
    if request.param == "postgresql, folder":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.lease()
        yield Site(url, storage)
        server.give_back(url)
        return
    if request.param == "sqlite, bucket":
        s3: S3Server = request.getfixturevalue("s3")
        storage = BucketStorage(s3.make_bucket())
    yield Site(databases.ready_sqlite(tmp_path / "state.db"), storage)


@pytest.fixture
def storage(site: Site) -> ByteStorage:
    return site.storage


@pytest.fixture
def store_url(site: Site) -> str:
    return site.store_url
