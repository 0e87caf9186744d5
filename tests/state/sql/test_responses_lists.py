"""Responses on both databases: lists, ids, logs, and the conversations that they extend."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from sqlalchemy import update

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.database.tables import workers
from gateway.state.sql.store import SqlStore
from gateway.state.values import LogEntry, NewResponse, PageRequest, UnknownCursor
from tests.own_process import StallWatch
from tests.state.responses import WORKER, answered, completed, message_item, new, response, texts, turn
from tests.state.sql.response_rows import pages
from translation.errors import InvalidRequest
from translation.framing import sse
from translation.representation.json_types import Json


async def test_lists_are_paged_in_both_orders_without_gap_or_repetition(store: SqlStore) -> None:
    stored = [(await turn(store, str(number)))["id"] for number in range(7)]
    await turn(store, "another's", owner="bob")
    for limit in (1, 3, 7, 100):
        assert await pages(store, limit=limit, order="asc") == stored
        assert await pages(store, limit=limit) == stored[::-1]
    await store.responses.delete_response("ann", stored[3])
    assert await pages(store, limit=2, order="asc") == stored[:3] + stored[4:]
    for unknown in (
        stored[3],
        "resp_unknown",
        "\0",
        "x" * 300,
        (await store.responses.list_responses("bob", PageRequest())).rows[0]["id"],
    ):
        with pytest.raises(UnknownCursor):
            await store.responses.list_responses("ann", PageRequest(after=unknown))


async def test_input_items_are_paged_in_both_orders(store: SqlStore) -> None:
    begun = response()
    input_items = [message_item(str(number)) for number in range(5)]
    await store.responses.create_response(new(begun, *input_items))
    ids = [item["id"] for item in input_items]

    async def page(**how: Any) -> tuple[list[str], bool]:
        found = await store.responses.list_input_items("ann", begun["id"], PageRequest(**how))
        assert found is not None
        return [item["id"] for item in found.rows], found.has_more

    assert await page(limit=2, order="asc") == (ids[:2], True)
    assert await page(limit=2, order="asc", after=ids[1]) == (ids[2:4], True)
    assert await page(limit=2, order="asc", after=ids[3]) == (ids[4:], False)
    assert await page(limit=5) == (ids[::-1], False)
    assert await page(limit=5, after=ids[2]) == (ids[1::-1], False)
    for unknown in ("msg_unknown", "\0", ""):
        with pytest.raises(UnknownCursor):
            await page(after=unknown)


@pytest.mark.parametrize("unknown", ["resp_unknown", "", "\0", "resp\0", "x" * 256, "\ud800"])
async def test_foreign_and_impossible_ids_are_unknown(store: SqlStore, unknown: str) -> None:
    stored = await turn(store, "a")
    for owner, response_id in (("ann", unknown), ("bob", stored["id"])):
        assert await store.responses.load_response(owner, response_id) is None
        assert await store.history.load_history(owner, response_id) is None
        assert await store.responses.list_input_items(owner, response_id, PageRequest()) is None
        assert await store.responses.cancel_response(owner, response_id) is None
        assert await store.responses.delete_response(owner, response_id) is False
    assert await store.history.load_items("bob", [stored["output"][0]["id"]]) == {}
    assert await store.history.load_items("ann", [unknown]) == {}
    assert await pages(store) == [stored["id"]]


async def test_an_item_whose_id_no_row_can_have_is_stored(store: SqlStore) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    begun = response()
    await store.responses.create_response(new(begun, message_item("a"), conversation_id="conv_1"))
    ended = completed(begun, answered("b") | {"id": "x" * 300}, answered("c") | {"id": "nul\0"})
    await store.responses.finish_response("ann", ended, worker=WORKER)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.response == ended
    assert texts(await store.history.load_conversation_history("ann", "conv_1")) == ["a", "b", "c"]


def frames(*said_events: Json) -> bytes:
    return b"".join(sse.encode_event(one["type"], orjson.dumps(one)) for one in said_events)


async def test_output_delivered_before_a_cancellation_stays(store: SqlStore) -> None:
    begun = response(background=True)
    await store.responses.create_response(new(begun, message_item("a"), job_request={"body": 1}, logged=True))
    item = answered("Hel") | {"status": "in_progress", "content": []}
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    told: Sequence[Json] = (
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", "part": part, **where},
        {"type": "response.output_text.delta", "delta": "Hel", **where},
    )
    numbered = [{"type": one["type"], "sequence_number": number} | one for number, one in enumerate(told, 1)]
    await store.event_log.append_log_entry("ann", begun["id"], LogEntry(1, 3, frames(*numbered)), worker=WORKER)
    cancelled = await store.responses.cancel_response("ann", begun["id"])
    assert cancelled is not None
    assert cancelled.response["status"] == "cancelled"
    assert texts(cancelled.response["output"]) == ["Hel"]
    assert cancelled.response["output"][0]["status"] == "incomplete"
    log = await store.event_log.load_log_page("ann", begun["id"], after=3)
    assert not log.has_more
    (last,) = log.entries
    (frame,) = sse.FrameDecoder().feed(last.frames)
    assert orjson.loads(frame.payload) == {
        "type": "response.incomplete",
        "sequence_number": 4,
        "response": cancelled.response,
    }
    assert await store.responses.cancel_response("ann", begun["id"]) == cancelled


async def test_a_long_log_is_decoded_beside_the_event_loop_for_a_cancellation(
    store: SqlStore, record_property: Callable[[str, object], None]
) -> None:
    begun = response(background=True)
    await store.responses.create_response(new(begun, message_item("a"), job_request={"body": 1}, logged=True))
    item = answered("") | {"status": "in_progress"}
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    opening = {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}
    entries = [LogEntry(1, 1, frames(opening))]
    for first in range(2, 40_002, 100):
        deltas = [
            {"type": "response.output_text.delta", "sequence_number": number, "delta": "a ", **where}
            for number in range(first, first + 100)
        ]
        entries.append(LogEntry(first, first + 99, frames(*deltas)))
    appends = (store.event_log.append_log_entry("ann", begun["id"], entry, worker=WORKER) for entry in entries)
    await asyncio.gather(*appends)
    watch = StallWatch()
    cancelled = await store.responses.cancel_response("ann", begun["id"])
    record_property("longest_wait_ms", round(watch.longest_s * 1000))
    assert cancelled is not None
    assert texts(cancelled.response["output"]) == ["a " * 40_000]
    assert watch.longest_s < 0.2


async def test_a_log_begins_with_the_response_as_it_was_created(store: SqlStore) -> None:
    begun = response(status="queued", background=True)
    await store.responses.create_response(
        new(begun, message_item("a"), worker=None, job_request={"body": 1}, logged=True)
    )
    log = await store.event_log.load_log_page("ann", begun["id"], after=-1)
    assert not log.ended
    assert log.entries == [
        LogEntry(0, 0, frames({"type": "response.created", "sequence_number": 0, "response": begun})),
    ]


async def test_only_responses_without_a_worker_are_recovered(store: SqlStore) -> None:
    alive, dead, queued, kept = response(), response(), response(status="queued"), await turn(store, "a")
    await store.responses.create_response(new(alive, message_item("a"), worker="alive"))
    await store.responses.create_response(new(dead, message_item("a"), worker="dead"))
    await store.responses.create_response(new(queued, message_item("a"), worker=None, job_request={"body": 1}))
    await store.jobs.release_jobs("dead")
    assert await store.jobs.fail_orphaned_responses() == 1
    assert await store.jobs.fail_orphaned_responses() == 0
    states = {row["id"]: row["status"] for row in (await store.responses.list_responses("ann", PageRequest())).rows}
    assert states == {
        alive["id"]: "in_progress",
        dead["id"]: "failed",
        queued["id"]: "queued",
        kept["id"]: "completed",
    }
    failed = await store.history.load_history("ann", dead["id"])
    assert failed is not None
    assert (failed.status, texts(failed.items)) == ("failed", ["a"])


async def test_a_turn_extends_its_conversation_unless_it_failed(store: SqlStore) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [message_item("first")])
    for status in ("completed", "incomplete", "failed", "cancelled"):
        begun = response()
        await store.responses.create_response(new(begun, message_item(status), conversation_id="conv_1"))
        await store.responses.finish_response(
            "ann", completed(begun, answered("!")) | {"status": status}, worker=WORKER
        )
    found = await store.history.load_conversation_history("ann", "conv_1")
    assert texts(found) == ["first", "completed", "!", "incomplete", "!"]


async def test_turns_that_end_together_stay_together_in_their_conversation(store: SqlStore) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    await asyncio.gather(*(turn(store, f"t{number}", conversation_id="conv_1") for number in range(10)))
    found = texts(await store.history.load_conversation_history("ann", "conv_1"))
    assert sorted(found[::2]) == sorted(f"t{number}" for number in range(10))
    assert [word.upper() for word in found[::2]] == found[1::2]


async def test_a_conversation_deleted_meanwhile_does_not_keep_a_turn_from_its_end(store: SqlStore) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    begun = response()
    await store.responses.create_response(new(begun, message_item("a"), conversation_id="conv_1"))
    await store.conversations.delete_conversation("ann", "conv_1")
    await store.responses.finish_response("ann", completed(begun), worker=WORKER)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.response["status"] == "completed"


async def test_an_item_is_found_by_its_id_wherever_it_is(store: SqlStore) -> None:
    stored = await turn(store, "a")
    loose = message_item("b")
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [loose])
    (answer,) = stored["output"]
    found = await store.history.load_items("ann", [answer["id"], loose["id"], "msg_unknown", answer["id"]])
    assert found == {answer["id"]: answer, loose["id"]: loose}
    assert len(await store.history.load_items("ann", [*(f"msg_none_{n}" for n in range(2500)), answer["id"]])) == 1


async def test_of_responses_that_continue_a_message_one_alone_is_stored(
    store: SqlStore, store_url: str, tables: Database
) -> None:
    """Two servers store at once. Branches of the Responses API and responses of a dead worker do not count."""
    other = SqlStore(StoreSettings(url=store_url, deadline_s=60), BackgroundSettings(lease_s=60.0))
    await other.open()
    message = await turn(store, "a")
    await turn(store, "b", message)

    def continuation(worker: str = WORKER) -> NewResponse:
        fields = {"parent_id": message["id"], "continues_message": True, "worker": worker}
        return new(response(messages_thread={}), message_item("c"), **fields)

    await other.responses.create_response(continuation("dead"))
    with pytest.raises(InvalidRequest) as refused:
        await store.responses.create_response(continuation())
    assert refused.value.code == "thread_continue_in_flight"
    async with tables.write_transaction() as connection:
        await connection.execute(update(workers).where(workers.c.id == "dead").values(alive_until_us=0))
    begun = [continuation() for _ in range(8)]
    stores = (store, other) * 4
    ends = await asyncio.gather(
        *(one.responses.create_response(each) for one, each in zip(stores, begun, strict=True)), return_exceptions=True
    )
    (winner,) = (each for each, end in zip(begun, ends, strict=True) if end is None)
    assert [end.code for end in ends if isinstance(end, InvalidRequest)] == ["thread_continue_in_flight"] * 7
    await store.responses.finish_response("ann", completed(winner.response), worker=WORKER)
    with pytest.raises(InvalidRequest, match=winner.response["id"]) as refused:
        await other.responses.create_response(continuation())
    assert refused.value.code == "thread_already_continued"
    await other.aclose()
