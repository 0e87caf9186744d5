"""Results of the doctor for its reports."""

from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding
from gateway.doctor.report_origin import ReportOrigin


def diagnosis(model: str = "m", *failing: str, **changes: str) -> Diagnosis:
    """Returns a diagnosis in which all checks pass except the named ones. A skipped check has a reason."""
    findings = [
        Finding(
            check=check.name,
            verdict="fail" if check.name in failing else "skipped" if check.name == "errors" else "pass",
            detail="<b>why</b> & so" if check.name in (*failing, "errors") else "",
            request_text='POST /v1/responses\n{"input":"<i>"}' if check.name in failing else "",
            reply_text='200\n{"output":"<u>"}' if check.name in failing else "",
            advice="Mend <it>." if check.name in failing else "",
            losses=("stop=dropped",) if check.name == "stop" else (),
            seconds=0.5,
            first_token_s=0.0123 if check.name == "streaming" else None,
        )
        for check in CHECKS
    ]
    facts = {"provider": "p", "provider_type": "vllm", "upstream_model": "org/m", **changes}
    return Diagnosis(model=model, findings=tuple(findings), capabilities={"tools": True}, **facts)


FAILING = diagnosis("failing", "tools", "tools_streamed", "stop")


ORIGIN = ReportOrigin(product_version="1.2.3", date="2026-11-23T08:00:00Z", config_digest="abc123")
