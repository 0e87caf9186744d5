"""Requests for user input are stored sealed, for their owner and their request."""

from dataclasses import replace

import pytest

from gateway.errors import CredentialsNotStored, StoreUnavailable
from gateway.sealing.sealer import Sealer
from gateway.tools.input_seal import InputSeal
from tests.state.responses import build_approval
from translation.hosted.approvals import ApprovalAnswers, ApprovalState
from translation.hosted.elicitation.answers import accept_input
from translation.hosted.elicitation.forms import InputForm, RequestedInput

FORM = InputForm(key="who", message="Who?", schema={"type": "object", "properties": {"name": {}}})
REQUESTED = RequestedInput(forms=(FORM,), state="a secret of the server", round=2, call_id="mcp_1")
SEAL, OTHER = (InputSeal(Sealer([key * 32])) for key in (b"a", b"b"))
ANSWERS = ApprovalAnswers({"mcpr_1": "digest"}, inputs={"mcpr_1": accept_input(REQUESTED, {"name": "Ann"})})


def test_a_record_has_the_requested_input() -> None:
    sealed = SEAL.seal_input(REQUESTED, "ann", "mcpr_1")
    assert "secret" not in sealed
    record = build_approval("mcpr_1", sealed_input=sealed)
    opened = SEAL.unseal_records("ann", {"mcpr_1": record, "mcpr_2": build_approval("mcpr_2")})
    assert opened["mcpr_1"].requested_input == REQUESTED
    assert opened["mcpr_2"].requested_input is None


@pytest.mark.parametrize(("state", "expected"), [("open", "expired"), ("used", "used")])
def test_a_record_sealed_for_another_request_or_with_a_lost_key_has_expired(
    state: ApprovalState, expected: ApprovalState
) -> None:
    sealed = SEAL.seal_input(REQUESTED, "ann", "mcpr_1")
    for seal, owner, request_id in ((SEAL, "bob", "mcpr_1"), (SEAL, "ann", "mcpr_2"), (OTHER, "ann", "mcpr_1")):
        record = build_approval(request_id, sealed_input=sealed, state=state)
        opened = seal.unseal_records(owner, {request_id: record})[request_id]
        assert opened == replace(record, state=expected)


def test_the_answers_of_a_job_are_sealed() -> None:
    fields = SEAL.save_answers(ANSWERS, "ann", "resp_1")
    assert "Ann" not in str(fields)
    assert "secret" not in str(fields)
    assert SEAL.load_answers(fields, "ann", "resp_1") == ANSWERS
    for seal, owner in ((SEAL, "bob"), (OTHER, "ann")):
        with pytest.raises(CredentialsNotStored):
            seal.load_answers(fields, owner, "resp_1")
    plain = ApprovalAnswers({"mcpr_1": "digest"}, not_run_reasons={"mcpr_2": "used"})
    assert SEAL.load_answers(SEAL.save_answers(plain, "ann", "resp_1"), "ann", "resp_1") == plain


def test_nothing_is_stored_unsealed_while_the_key_is_unavailable() -> None:
    waiting = InputSeal(Sealer([], lambda: None))
    with pytest.raises(StoreUnavailable):
        waiting.seal_input(REQUESTED, "ann", "mcpr_1")
