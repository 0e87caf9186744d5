"""Runs all checks of one model and turns each result into a finding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import httpx

from gateway.doctor.advice import TIMED_OUT, UNCACHED_PREFIX, UNPARSED_OUTPUT, suggest_fix
from gateway.doctor.checks.check_list import CHECKS, FeatureCheck
from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.subjects import Subject
from gateway.doctor.checks.verdicts import (
    BUSY_CODES,
    UNSUPPORTED_PARAMETER,
    CheckFailed,
    Diagnosis,
    Finding,
    Inconclusive,
    RequestFailed,
    TimedOut,
    UncachedPrefix,
    UnparsedOutput,
    Verdict,
)


def examine(
    client: httpx.Client,
    subject: Subject,
    deadline_s: float,
    on_check: Callable[[FeatureCheck], None] = lambda check: None,
    checks: Sequence[FeatureCheck] = CHECKS,
) -> Diagnosis:
    """Runs the checks of one model.

    `client` sends requests to the gateway, `deadline_s` is the time for each, and `on_check` is called before each
    check. If no request of the first check gets a response, the other checks are skipped.
    """
    findings: list[Finding] = []
    is_unanswered = False
    failures: list[tuple[str, tuple[str, ...]]] = []
    """The detail and the needs of failed checks. If several have the same detail and a common need, the advice uses the
    needs of the first."""
    for check in checks:
        on_check(check)
        if is_unanswered:
            findings.append(
                Finding(check=check.name, verdict="skipped", detail=f"the check {checks[0].title} got no reply")
            )
            continue
        session = CheckSession(client, subject, deadline_s)
        began = time.monotonic()
        outcome = _judge_check(check, session)
        failed = outcome.verdict == "fail"
        matching_needs = (
            earlier_needs
            for detail, earlier_needs in failures
            if detail == outcome.detail and set(earlier_needs) & set(check.needs)
        )
        needs = next(matching_needs, check.needs)
        if failed:
            failures.append((outcome.detail, needs))
        findings.append(
            Finding(
                check=check.name,
                verdict=outcome.verdict,
                detail=outcome.detail,
                losses=tuple(session.losses),
                seconds=time.monotonic() - began,
                first_token_s=session.first_token_s,
                request_text=session.transcript.request_text if failed else "",
                reply_text=session.transcript.reply_text if failed else "",
                advice=_suggest_fix(subject, outcome, needs) if failed else "",
            )
        )
        is_unanswered = check is checks[0] and not session.was_answered
    facts = asdict(subject.capabilities).items()
    return Diagnosis(
        model=subject.title,
        provider=subject.provider,
        provider_type=subject.provider_type,
        upstream_model=subject.upstream_model,
        capabilities={name: value for name, value in facts if value is None or isinstance(value, bool | int)},
        findings=tuple(findings),
    )


def _suggest_fix(subject: Subject, outcome: "_Outcome", needs: tuple[str, ...]) -> str:
    return suggest_fix(subject, outcome.code, needs, undeclared=outcome.undeclared, detail=outcome.detail)


class _Outcome(NamedTuple):
    verdict: Verdict
    detail: str
    code: str | None = None
    """The code of the error."""
    undeclared: bool = False
    """Whether the check passed although a capability is not declared."""


def _judge_check(check: FeatureCheck, session: CheckSession) -> _Outcome:
    """Runs a check and judges its result by the declared capabilities."""
    capabilities = session.subject.capabilities
    missing = [name for name in check.needs if not getattr(capabilities, name)]
    outcome = _run_check(check, session, may_refuse=bool(missing) or check.is_optional or session.subject.strict)
    loss = f"{check.loss_param}=dropped"
    is_reported = loss in session.losses and (bool(missing) or check.is_optional or outcome.verdict == "skipped")
    if is_reported and outcome.verdict != "refused":
        return _Outcome("refused", f"the reply reports a loss: {loss}")
    if missing and outcome.verdict == "pass":
        names = ", ".join(missing)
        detail = f"the capability {names} is not declared, but the request was neither refused nor reported as a loss"
        return _Outcome("fail", detail, undeclared=True)
    return outcome


def _run_check(check: FeatureCheck, session: CheckSession, *, may_refuse: bool) -> _Outcome:
    try:
        return _Outcome("pass", check.run(session))
    except Inconclusive as reason:
        return _Outcome("skipped", str(reason))
    except UnparsedOutput as failure:
        return _Outcome("fail", str(failure), UNPARSED_OUTPUT)
    except UncachedPrefix as failure:
        return _Outcome("fail", str(failure), UNCACHED_PREFIX)
    except TimedOut as failure:
        return _Outcome("fail", str(failure), TIMED_OUT)
    except CheckFailed as failure:
        return _Outcome("fail", str(failure))
    except RequestFailed as refusal:
        # An upstream without this parameter may refuse it with an error of its own.
        is_upstream_refusal = (
            check.is_optional and refusal.status == 400 and refusal.error.get("param") == check.loss_param
        )
        if may_refuse and (is_upstream_refusal or refusal.code == UNSUPPORTED_PARAMETER):
            return _Outcome("refused", str(refusal))
        is_busy = refusal.code in BUSY_CODES and check is not CHECKS[0]
        return _Outcome("skipped" if is_busy else "fail", str(refusal), refusal.code)
    except (AttributeError, KeyError, TypeError) as error:
        # Relayed replies are the upstream's own and can be malformed. The next check does not depend on this one.
        return _Outcome("fail", f"a reply is malformed: {error!r}")
