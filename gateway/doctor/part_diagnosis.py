"""What the doctor finds about a part of the installation that is no model, such as an MCP server or the bucket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.text_report import format_duration
from translation.representation.json_types import Json

MCP_SERVER: Final = "MCP server"


@dataclass(frozen=True, slots=True)
class PartDiagnosis:
    """The results of all checks of one part."""

    label: str
    findings: Sequence[Finding]
    kind: str = MCP_SERVER
    """What it is, for people."""

    @property
    def failed(self) -> bool:
        return any(finding.verdict == "fail" for finding in self.findings)

    def as_json(self) -> Json:
        """Returns the diagnosis for the report in JSON."""
        keys = ("check", "verdict", "detail", "seconds", "advice")
        checks = [{key: getattr(finding, key) for key in keys} for finding in self.findings]
        return {"server": self.label, "ok": not self.failed, "checks": checks}


def render_parts(diagnoses: Sequence[PartDiagnosis]) -> str:
    """Returns the diagnoses as text: one line per check."""
    lines = []
    for diagnosis in diagnoses:
        lines.append(f"{diagnosis.kind} {diagnosis.label}")
        for finding in diagnosis.findings:
            time_taken = f" ({format_duration(finding.seconds)})" if finding.seconds else ""
            lines.append(f"  {finding.verdict} {finding.check}: {finding.detail}{time_taken}")
            if finding.advice:
                lines.append(f"    {finding.advice}")
    return "\n".join(lines)
