"""The doctor writes, reads and deletes an object of the bucket, and says what to change."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.doctor.file_storage import examine_storage
from gateway.doctor.part_diagnosis import PartDiagnosis
from tests.state.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def examine(section: dict[str, Any]) -> PartDiagnosis:
    diagnosis = examine_storage(parse_settings({"files": {"s3": section}}, environ={}))
    assert diagnosis is not None
    return diagnosis


def test_a_bucket_that_works_passes_and_nothing_stays(server: S3Server) -> None:
    bucket = server.make_bucket()
    diagnosis = examine(bucket.settings)
    assert [(finding.check, finding.verdict) for finding in diagnosis.findings] == [
        ("write", "pass"),
        ("read", "pass"),
        ("delete", "pass"),
    ]
    assert diagnosis.label == bucket.settings["bucket"]
    assert bucket.list_names() == []


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"endpoint": "http://127.0.0.1:1", "deadline_s": 2}, "files.s3.endpoint"),
        ({"bucket": "no-such-bucket"}, "files.s3.bucket"),
    ],
)
def test_a_bucket_that_fails_has_advice(changed: dict[str, Any], advice: str, server: S3Server) -> None:
    diagnosis = examine({**server.make_bucket().settings, **changed})
    (finding,) = diagnosis.findings
    assert (finding.check, finding.verdict) == ("write", "fail")
    assert finding.advice is not None
    assert advice in finding.advice
    assert diagnosis.failed


def test_a_folder_is_not_examined() -> None:
    assert examine_storage(parse_settings({}, environ={})) is None
