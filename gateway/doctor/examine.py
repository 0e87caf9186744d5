"""All checks of one model, each turned into a finding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import httpx

from gateway.doctor.advice import MISREAD, TOO_SLOW, advice
from gateway.doctor.checks.check_session import Visit
from gateway.doctor.checks.responses import CHECKS, Check
from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.verdicts import (
    BUSY,
    REFUSED_BY_NAME,
    Diagnosis,
    Finding,
    Misread,
    Refusal,
    TooSlow,
    Untold,
    Verdict,
    Wrong,
)


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
    blamed: list[tuple[str, tuple[str, ...]]] = []
    """What checks failed with, and what they take: of the same words the first says what cannot be done."""
    for check in checks:
        beginning(check)
        if silent:
            findings.append(Finding(check=check.name, verdict="skipped", detail=f"{checks[0].title} was not answered"))
            continue
        visit = Visit(client, subject, deadline_s)
        began = time.monotonic()
        outcome = _judged(check, visit)
        failed = outcome.verdict == "fail"
        same = (told for detail, told in blamed if detail == outcome.detail and set(told) & set(check.needs))
        needs = next(same, check.needs)
        if failed:
            blamed.append((outcome.detail, needs))
        findings.append(
            Finding(
                check=check.name,
                verdict=outcome.verdict,
                detail=outcome.detail,
                losses=tuple(visit.losses),
                seconds=time.monotonic() - began,
                first_token_s=visit.first_token_s,
                asked=visit.witness.asked if failed else "",
                came=visit.witness.came if failed else "",
                advice=advice(subject, outcome.code, needs, undeclared=outcome.undeclared) if failed else "",
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


class _Outcome(NamedTuple):
    verdict: Verdict
    detail: str
    code: str | None = None
    """Of the error that it was answered with."""
    undeclared: bool = False
    """It does what nobody says it can."""


def _judged(check: Check, visit: Visit) -> _Outcome:
    """What a check came to, in the light of what is declared."""
    capabilities = visit.subject.capabilities
    missing = [name for name in check.needs if not getattr(capabilities, name)]
    outcome = _outcome(check, visit, may_refuse=bool(missing) or check.may_lack or visit.subject.strict)
    loss = f"{check.lost}=dropped"
    is_told = loss in visit.losses and (bool(missing) or check.may_lack or outcome.verdict == "skipped")
    if is_told and outcome.verdict != "refused":
        return _Outcome("refused", f"lost, as the reply says: {loss}")
    if missing and outcome.verdict == "pass":
        told = ", ".join(missing)
        words = f"the capability {told} is not declared, and yet it was neither refused nor named as lost"
        return _Outcome("fail", words, undeclared=True)
    return outcome


def _outcome(check: Check, visit: Visit, *, may_refuse: bool) -> _Outcome:
    try:
        return _Outcome("pass", check.run(visit))
    except Untold as untold:
        return _Outcome("skipped", str(untold))
    except Misread as misread:
        return _Outcome("fail", str(misread), MISREAD)
    except TooSlow as slow:
        return _Outcome("fail", str(slow), TOO_SLOW)
    except Wrong as wrong:
        return _Outcome("fail", str(wrong))
    except Refusal as refusal:
        # An upstream that has no such parameter may say so itself, in its own words.
        is_foreign = check.may_lack and refusal.status == 400 and refusal.error.get("param") == check.lost
        if may_refuse and (is_foreign or refusal.code == REFUSED_BY_NAME):
            return _Outcome("refused", str(refusal))
        is_busy = refusal.code in BUSY and check is not CHECKS[0]
        return _Outcome("skipped" if is_busy else "fail", str(refusal), refusal.code)
    except (AttributeError, KeyError, TypeError) as error:
        # What is relayed comes as the upstream wrote it; the next check can do without this one.
        return _Outcome("fail", f"a reply is malformed: {error!r}")
