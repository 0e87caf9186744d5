"""All checks of one model, each turned into a finding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import httpx

from gateway.doctor.checks import CHECKS, Check
from gateway.doctor.subjects import Subject
from gateway.doctor.verdicts import BUSY, REFUSED_BY_NAME, Diagnosis, Finding, Refusal, Untold, Verdict, Wrong
from gateway.doctor.visit import Visit


def examine(
    client: httpx.Client,
    subject: Subject,
    deadline_s: float,
    beginning: Callable[[Check], None] = lambda check: None,
    checks: Sequence[Check] = CHECKS,
) -> Diagnosis:
    """What every check comes to. `client` speaks to the gateway, `deadline_s` is for each request, and `beginning` is
    told of each check before it runs. Where the first one is not answered at all, the others are not asked."""
    findings: list[Finding] = []
    silent = False
    for check in checks:
        beginning(check)
        if silent:
            findings.append(Finding(check=check.name, verdict="skipped", detail=f"{checks[0].name} was not answered"))
            continue
        visit = Visit(client, subject, deadline_s)
        began = time.monotonic()
        verdict, detail = _verdict(check, visit)
        findings.append(
            Finding(
                check=check.name,
                verdict=verdict,
                detail=detail,
                losses=tuple(visit.losses),
                seconds=time.monotonic() - began,
                first_token_s=visit.first_token_s,
            )
        )
        silent = check is checks[0] and not visit.answered
    facts = asdict(subject.capabilities).items()
    return Diagnosis(
        model=subject.name,
        provider=subject.provider,
        kind=subject.kind,
        upstream_model=subject.upstream_model,
        capabilities={name: value for name, value in facts if value is None or isinstance(value, bool | int)},
        findings=tuple(findings),
    )


def _verdict(check: Check, visit: Visit) -> tuple[Verdict, str]:
    """The verdict and what there is to say of it."""
    capabilities = visit.subject.capabilities
    missing = [name for name in check.needs if not getattr(capabilities, name)]
    verdict, detail = _outcome(check, visit, may_refuse=bool(missing) or check.may_lack or visit.subject.strict)
    loss = f"{check.lost}=dropped"
    is_told = loss in visit.losses and (bool(missing) or check.may_lack or verdict == "skipped")
    if is_told and verdict != "refused":
        return "refused", f"lost, as the reply says: {loss}"
    if missing and verdict == "pass":
        undeclared = ", ".join(missing)
        return "fail", f"the capability {undeclared} is not declared, and yet it was neither refused nor named as lost"
    return verdict, detail


def _outcome(check: Check, visit: Visit, *, may_refuse: bool) -> tuple[Verdict, str]:
    try:
        return "pass", check.run(visit)
    except Untold as untold:
        return "skipped", str(untold)
    except Wrong as wrong:
        return "fail", str(wrong)
    except Refusal as refusal:
        if refusal.code == REFUSED_BY_NAME and may_refuse:
            return "refused", str(refusal)
        is_busy = refusal.code in BUSY and check is not CHECKS[0]
        return ("skipped" if is_busy else "fail"), str(refusal)
    except (AttributeError, KeyError, TypeError) as error:
        # What is relayed comes as the upstream wrote it; the next check can do without this one.
        return "fail", f"a reply is malformed: {error!r}"
