"""Opens the storage for bytes that the configuration names."""

from pathlib import Path
from typing import Final

from gateway.blobs.blob_store import BlobStore
from gateway.blobs.folder import BlobFolder
from gateway.config.settings import Settings
from gateway.config.storage_settings import SQLITE_PREFIX

_DEFAULT_FOLDER: Final = "responses-gateway-files"


def find_folder(settings: Settings) -> Path:
    """Returns the folder of the bytes: `files.path`, or a folder beside the SQLite file."""
    if settings.files.path is not None:
        return Path(settings.files.path)
    url = settings.store.url or ""
    is_sqlite = url.startswith(SQLITE_PREFIX)
    beside = Path(url.removeprefix(SQLITE_PREFIX).partition("?")[0]).parent if is_sqlite else Path()
    return beside / _DEFAULT_FOLDER


def open_blobs(settings: Settings) -> BlobStore:
    """Returns the storage for the bytes of files: a bucket if one is configured, otherwise a folder."""
    if (bucket := settings.files.s3) is None:
        return BlobFolder(find_folder(settings))
    from gateway.blobs.bucket import Bucket

    return Bucket(bucket)
