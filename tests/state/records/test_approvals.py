"""Records of approvals: each is answered once, by the first answer, and only while it is open."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from gateway.sealing.sealer import Sealer
from gateway.state.database.tables import approvals, responses
from gateway.state.sql.store import SqlStore
from gateway.tools.approvals import ApprovalFactory, ResponseApprovals
from gateway.tools.input_seal import InputSeal
from tests.polling import reach
from tests.state.responses import build_approval, completed, new, response, turn
from translation.errors import InvalidRequest
from translation.hosted.approvals import ApprovalAnswers
from translation.hosted.elicitation.forms import InputForm, RequestedInput

DAY_US = 86_400_000_000
SEAL = InputSeal(Sealer([b"k" * 32]))


def gives(*request_ids: str) -> ApprovalAnswers:
    return ApprovalAnswers(dict.fromkeys(request_ids, "d" * 64))


def denies(*request_ids: str) -> ApprovalAnswers:
    return ApprovalAnswers(denied=request_ids)


def in_us(seconds: float) -> int:
    return time.time_ns() // 1000 + int(seconds * 1_000_000)


async def code_of(answering: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await answering
    return refused.value.code


async def state_of(store: SqlStore, request_id: str = "mcpr_1") -> tuple[str, str | None]:
    record = (await store.approvals.load_approvals("ann", [request_id]))[request_id]
    return record.state, record.answered_by


async def count(store: SqlStore, table: Any) -> int:
    async with store._database.read_transaction() as connection:
        return (await connection.scalar(select(func.count()).select_from(table))) or 0


async def test_a_record_is_read_as_it_was_stored_and_only_by_its_owner(store: SqlStore) -> None:
    record = build_approval("mcpr_1")
    await store.approvals.store_approvals("ann", [record, build_approval("mcpr_2")])
    assert await store.approvals.load_approvals("ann", ["mcpr_1", "mcpr_9", "mcpr_1", "\0"]) == {"mcpr_1": record}
    assert await store.approvals.load_approvals("bob", ["mcpr_1"]) == {}
    assert await code_of(store.approvals.answer_approvals("bob", gives("mcpr_1"), "resp_1")) == "approval_not_found"


async def test_an_approval_is_used_once(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    await store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_1")
    assert await state_of(store) == ("used", "resp_1")
    with pytest.raises(InvalidRequest, match="used already, by the response 'resp_1'") as refused:
        await store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_2")
    assert refused.value.code == "approval_already_used"
    assert await code_of(store.approvals.answer_approvals("ann", denies("mcpr_1"), "resp_2")) == "approval_already_used"
    assert await state_of(store) == ("used", "resp_1")


async def test_a_refused_answer_is_named_by_its_place_in_the_input(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    await store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_1")
    for answers, param in (
        (replace(gives("mcpr_1"), places={"mcpr_1": 3}), "input[3].approval_request_id"),
        (gives("mcpr_1"), "input"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await store.approvals.answer_approvals("ann", answers, "resp_2")
        assert refused.value.param == param


async def test_of_many_requests_on_two_replicas_one_wins(store: SqlStore, other: SqlStore) -> None:
    both = gives("mcpr_1", "mcpr_2")
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1"), build_approval("mcpr_2")])
    trying = [
        replica.approvals.answer_approvals("ann", both, f"resp_{name}_{number}")
        for number in range(8)
        for name, replica in (("one", store), ("two", other))
    ]
    results = await asyncio.gather(*trying, return_exceptions=True)
    refused = [result for result in results if result is not None]
    assert len(refused) == len(trying) - 1
    assert {result.code for result in refused if isinstance(result, InvalidRequest)} == {"approval_already_used"}
    assert all(isinstance(result, InvalidRequest) for result in refused)
    assert await state_of(store, "mcpr_1") == await state_of(other, "mcpr_2")


async def test_of_two_responses_that_begin_with_one_approval_one_begins(store: SqlStore, other: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    rivals = [new(response(), answers=gives("mcpr_1")), new(response(), answers=gives("mcpr_1"))]
    creating = [replica.responses.create_response(rival) for replica, rival in zip((store, other), rivals, strict=True)]
    results = await asyncio.gather(*creating, return_exceptions=True)
    (refusal,) = [result for result in results if result is not None]
    assert isinstance(refusal, InvalidRequest)
    (winner,) = [rival.response["id"] for rival, result in zip(rivals, results, strict=True) if result is None]
    assert await state_of(store) == ("used", winner)
    assert await count(store, responses) == 1, "the other one has left nothing behind"


async def test_all_answers_of_a_request_are_stored_or_none(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1"), build_approval("mcpr_2")])
    await store.approvals.answer_approvals("ann", gives("mcpr_2"), "resp_1")
    assert await code_of(store.responses.create_response(new(response(), answers=gives("mcpr_1", "mcpr_2"))))
    assert await state_of(store, "mcpr_1") == ("open", None)
    assert await count(store, responses) == 0


async def test_a_response_that_is_stored_at_its_end_stores_its_answers_too(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    begun = response()
    await store.responses.store_ended_response(new(begun, answers=denies("mcpr_1")), completed(begun))
    assert await state_of(store) == ("denied", begun["id"])


async def test_a_denied_request_stays_denied(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    await store.approvals.answer_approvals("ann", denies("mcpr_1"), "resp_1")
    await store.approvals.answer_approvals("ann", denies("mcpr_1"), "resp_2")
    assert await state_of(store) == ("denied", "resp_1")
    with pytest.raises(InvalidRequest, match="denied already, by the response 'resp_1'") as refused:
        await store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_3")
    assert refused.value.code == "approval_already_used"


async def test_an_expired_request_cannot_be_approved(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1", expires_us=in_us(-1))])
    assert await state_of(store) == ("expired", None)
    assert await code_of(store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_1")) == "approval_expired"
    await store.approvals.answer_approvals("ann", denies("mcpr_1"), "resp_1")
    assert await state_of(store) == ("expired", None)


async def test_only_the_response_that_used_an_approval_can_open_or_void_it(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1"), build_approval("mcpr_2")])
    await store.approvals.answer_approvals("ann", gives("mcpr_1", "mcpr_2"), "resp_1")
    await store.approvals.reopen_approvals("ann", ["mcpr_1"], "resp_2")
    await store.approvals.void_approvals("bob", ["mcpr_2"], "resp_1")
    assert (await state_of(store), await state_of(store, "mcpr_2")) == (("used", "resp_1"), ("used", "resp_1"))
    await store.approvals.reopen_approvals("ann", ["mcpr_1"], "resp_1")
    await store.approvals.void_approvals("ann", ["mcpr_2"], "resp_1")
    assert (await state_of(store), await state_of(store, "mcpr_2")) == (("open", None), ("void", "resp_1"))
    assert await code_of(store.approvals.answer_approvals("ann", gives("mcpr_2"), "resp_3")) == "approval_already_used"


async def test_expired_records_are_deleted_a_week_later(store: SqlStore) -> None:
    old = build_approval("mcpr_1", expires_us=in_us(0) - 8 * DAY_US)
    late = build_approval("mcpr_2", expires_us=in_us(0) - 6 * DAY_US)
    await store.approvals.store_approvals(
        "ann", [old, late, *(replace(old, id=f"mcpr_old_{number}") for number in range(60))]
    )
    assert await store.retention.delete_expired(before=0) == 0, "they are no objects of the client's"
    assert set(await store.approvals.load_approvals("ann", ["mcpr_1", "mcpr_2", "mcpr_old_7"])) == {"mcpr_2"}


async def test_the_records_of_a_response_are_deleted_with_it(store: SqlStore) -> None:
    asking = await turn(store, "first")
    later = await turn(store, "second", asking)
    await store.approvals.store_approvals(
        "ann", [build_approval("mcpr_1", asking["id"]), build_approval("mcpr_2", later["id"])]
    )
    assert await store.responses.delete_response("ann", asking["id"])
    assert set(await store.approvals.load_approvals("ann", ["mcpr_1", "mcpr_2"])) == {"mcpr_2"}
    async with store._database.write_transaction() as connection:
        await connection.execute(update(responses).values(created_us=1))
    await store.retention.delete_expired(before=int(time.time()))
    assert await count(store, approvals) == 0


async def test_an_approval_is_open_again_although_its_request_was_cancelled_while_it_was_stored(
    store: SqlStore,
) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    approvals_given = ResponseApprovals(store.approvals, "ann", "resp_1", gives("mcpr_1"), ttl_days=7, input_seal=SEAL)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def store_slowly() -> None:
        begun.set()
        await go_on.wait()
        await approvals_given.store_answers()

    storing = asyncio.create_task(store_slowly())
    approvals_given.confirmation = lambda: asyncio.shield(storing)
    confirming = asyncio.create_task(approvals_given.confirm())
    await reach(begun, confirming)
    confirming.cancel()
    await asyncio.wait({confirming})
    reopening = asyncio.create_task(approvals_given.reopen())
    go_on.set()
    await reopening
    assert await state_of(store) == ("open", None)


async def test_a_request_that_lost_an_approval_to_another_does_not_open_it_again(store: SqlStore) -> None:
    await store.approvals.store_approvals("ann", [build_approval("mcpr_1")])
    await store.approvals.answer_approvals("ann", gives("mcpr_1"), "resp_1")
    late = ResponseApprovals(store.approvals, "ann", "resp_2", gives("mcpr_1"), ttl_days=7, input_seal=SEAL)
    late.confirmation = late.store_answers
    assert await code_of(late.confirm()) == "approval_already_used"
    await late.reopen()
    assert await state_of(store) == ("used", "resp_1")


async def test_requested_input_is_stored_sealed_and_used_once(store: SqlStore, other: SqlStore) -> None:
    form = InputForm(key="who", message="Who?", schema={"type": "object", "properties": {"name": {}}})
    requested = RequestedInput(forms=(form,), state="a secret of the server")
    record = build_approval("mcpr_1", sealed_input=SEAL.seal_input(requested, "ann", "mcpr_1"))
    await store.approvals.store_approvals("ann", [record])
    factory = ApprovalFactory(other.approvals, SEAL, ttl_days=7)
    opened = await factory.load_records("ann", ["mcpr_1"])
    assert opened["mcpr_1"].requested_input == requested
    assert await factory.load_records("bob", ["mcpr_1"]) == {}
    attempts = [
        side.approvals.answer_approvals("ann", gives("mcpr_1"), f"resp_{number}")
        for number in range(3)
        for side in (store, other)
    ]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    await other.approvals.reopen_approvals("ann", ["mcpr_1"], (await state_of(store))[1] or "")
    assert await state_of(store) == ("open", None)
