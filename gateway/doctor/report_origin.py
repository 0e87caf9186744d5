"""The origin of a report: the version of the gateway, the time, and the configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.config.settings import Settings, digest_config
from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis
from gateway.pages.saved_report import SavedCheck, SavedResult, merge_results
from gateway.version import read_installed_version

PRODUCT = "responses-gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOrigin:
    """The facts that a reader needs to compare two reports."""

    product_version: str
    date: str
    """The time at which the examination ended, in ISO 8601, UTC, to the second."""
    config_digest: str
    """The digest that the server's home page shows for the same configuration."""


def describe_origin(settings: Settings) -> ReportOrigin:
    """Returns the origin of a report that is made now."""
    return ReportOrigin(
        product_version=read_installed_version(),
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        config_digest=digest_config(settings),
    )


def save_results(file: Path, diagnoses: Sequence[Diagnosis], origin: ReportOrigin) -> None:
    """Saves the results, without requests and replies, for the server's home page. Raises OSError."""
    titles = {check.name: check.title for check in CHECKS}
    results = [
        SavedResult(
            model=diagnosis.model,
            provider=diagnosis.provider,
            date=origin.date,
            product_version=origin.product_version,
            config_digest=origin.config_digest,
            checks=tuple(
                SavedCheck(
                    title=titles[finding.check], verdict=finding.verdict, detail=finding.detail, advice=finding.advice
                )
                for finding in diagnosis.findings
            ),
        )
        for diagnosis in diagnoses
    ]
    merge_results(file, results)
