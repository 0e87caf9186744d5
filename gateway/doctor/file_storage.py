"""Examines the bucket of the configuration: writes an object, reads it, and deletes it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

from gateway.blobs.blob_store import BlobMissing, BlobStore
from gateway.blobs.open_blobs import open_blobs
from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.errors import FileStorageUnavailable
from providers.new_id import random_hex

_KIND: Final = "File storage"
_CONTENT: Final = b"responses-gateway doctor"

_RIGHTS: Final = "Let the key put, get and delete objects of the bucket (s3:PutObject, GetObject, DeleteObject)."

_ADVICE: Final = {
    "PermissionError": _RIGHTS,
    "PermissionDeniedError": _RIGHTS,
    "UnauthenticatedError": "Check files.s3.access_key_env and files.s3.secret_key_env.",
    "FileNotFoundError": "Make the bucket, or correct files.s3.bucket: it does not exist there.",
    "GenericError": "Check files.s3.endpoint and files.s3.region, and that the service can be reached from here.",
}


class _Damaged(Exception):
    """What was read is not what was written."""


def examine_storage(settings: Settings) -> PartDiagnosis | None:
    """Returns a diagnosis of the bucket for files; None without a bucket. It makes an object, which it deletes."""
    bucket = settings.files.s3
    return None if bucket is None else asyncio.run(_examine(bucket.bucket, settings))


async def _examine(name: str, settings: Settings) -> PartDiagnosis:
    findings: list[Finding] = []
    async with aclosing(open_blobs(settings)) as blobs:
        blob_id = f"doctor-{random_hex()}"
        for check, work in (("write", _write), ("read", _read), ("delete", _delete)):
            finding = await _judge(check, work, blobs, blob_id)
            findings.append(finding)
            if check == "write" and finding.verdict == "fail":
                break  # there is nothing to read
    return PartDiagnosis(name, findings, kind=_KIND)


async def _judge(
    check: str, work: Callable[[BlobStore, str], Awaitable[str]], blobs: BlobStore, blob_id: str
) -> Finding:
    began = time.monotonic()
    try:
        detail = await work(blobs, blob_id)
    except FileStorageUnavailable as error:
        cause = type(error.__cause__).__name__
        return Finding(check=check, verdict="fail", detail=error.reason, advice=_ADVICE.get(cause, ""))
    except BlobMissing:
        return Finding(check=check, verdict="fail", detail="what was written is not there")
    except _Damaged:
        return Finding(check=check, verdict="fail", detail="what was read is not what was written")
    return Finding(check=check, verdict="pass", detail=detail, seconds=time.monotonic() - began)


async def _write(blobs: BlobStore, blob_id: str) -> str:
    async with blobs.write_blob(blob_id) as blob:
        await blob.write(_CONTENT)
        await blob.finish()
    return f"{len(_CONTENT)} bytes"


async def _read(blobs: BlobStore, blob_id: str) -> str:
    async with blobs.read_blob(blob_id) as pieces:
        content = b"".join([piece async for piece in pieces])
    if content != _CONTENT:
        raise _Damaged
    return f"{len(content)} bytes"


async def _delete(blobs: BlobStore, blob_id: str) -> str:
    await blobs.remove_blobs([blob_id])
    try:
        async with blobs.read_blob(blob_id):
            raise _Damaged
    except BlobMissing:
        return "it is gone"
