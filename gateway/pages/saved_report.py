"""The last report of the doctor, as a file that `doctor` writes and the home page shows.

The file has the latest result of every model that was ever examined, so that an examination of one model does not
discard the results of the others.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

Verdict: TypeAlias = Literal["pass", "fail", "refused", "skipped"]

_MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest file that is read. A report has some 5 KiB per model."""


class SavedCheck(BaseModel):
    """The result of one check."""

    model_config = ConfigDict(frozen=True)

    title: str
    verdict: Verdict
    detail: str = ""
    advice: str = ""


class SavedResult(BaseModel):
    """The results of one model."""

    model_config = ConfigDict(frozen=True)

    model: str
    provider: str
    date: str
    """The time at which the examination ended, in ISO 8601 and UTC."""
    product_version: str
    config_digest: str
    checks: tuple[SavedCheck, ...]

    def count(self, verdict: Verdict) -> int:
        """Returns the number of checks with this verdict."""
        return sum(check.verdict == verdict for check in self.checks)


class SavedReport(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    results: tuple[SavedResult, ...] = ()


class UnreadableReport(Exception):
    """The file exists, and is no report of this version. The message names the file and the reason."""


def read_report(file: Path) -> SavedReport | None:
    """Returns the content of `file`, or None if there is no such file. Raises UnreadableReport."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableReport(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise UnreadableReport(f"{file} is too large to be a report of the doctor")
    try:
        return SavedReport.model_validate_json(content)
    except ValidationError as error:
        raise UnreadableReport(f"{file} is not a report of this version's doctor") from error


def merge_results(file: Path, results: Sequence[SavedResult]) -> None:
    """Writes `results` to `file`, beside the results of other models in it. Replaces a file that cannot be read.

    The file is replaced in one step, so that readers never get a part of it. Raises OSError.
    """
    try:
        earlier = read_report(file)
    except UnreadableReport:
        earlier = None
    examined = {result.model for result in results}
    others = [result for result in (earlier.results if earlier else ()) if result.model not in examined]
    report = SavedReport(results=(*results, *others))
    with NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False, encoding="utf-8") as stream:
        temporary = Path(stream.name)
        try:
            stream.write(report.model_dump_json(indent=1))
            stream.close()
            temporary.chmod(0o644)  # the server may run as another user than the doctor
            os.replace(temporary, file)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
