"""The event log: written before it is sent, fenced by leases, and announced to followers."""

import asyncio

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable
from gateway.state.endings import encode_lifecycle_frame
from gateway.state.sql.store import SqlStore
from gateway.state.values import LeaseLost, LogEntry, LogOpening, StoredHeaders
from tests.state.conftest import DEADLINE_S
from tests.state.responses import WORKER, answered, completed, message_item, new, response
from translation.representation.json_types import Json

OTHER = "worker-2"


def entry(first: int, last: int | None = None, text: str = "x") -> LogEntry:
    last = first if last is None else last
    frames = [f'event: e\ndata: {{"type":"e","sequence_number":{n},"t":"{text}"}}\n\n' for n in range(first, last + 1)]
    return LogEntry(first, last, "".join(frames).encode())


async def begun(store: SqlStore, *, worker: str | None = WORKER, owner: str = "ann") -> Json:
    """A response with a log, which has its first event."""
    head = response(background=True)
    await store.responses.create_response(
        new(head, message_item("hello"), owner=owner, worker=worker, logged=True, job_request={"a": 1})
    )
    return head


async def numbers(store: SqlStore, head: Json, after: int = -1, owner: str = "ann") -> list[tuple[int, int]]:
    page = await store.event_log.load_log_page(owner, head["id"], after=after)
    return [(found.first, found.last) for found in page.entries]


async def test_a_log_begins_with_the_response_and_continues_in_order(store: SqlStore) -> None:
    head = await begun(store)
    await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
    await store.event_log.append_log_entry("ann", head["id"], entry(2, 5), worker=WORKER)
    assert await numbers(store, head) == [(0, 0), (1, 1), (2, 5)]
    page = await store.event_log.load_log_page("ann", head["id"], after=1)
    assert page.entries == [entry(2, 5)]
    assert (page.has_more, page.ended) == (False, False)


def opening(head: Json, **echoed: object) -> LogOpening:
    answered_by = {**head, "status": "in_progress", **echoed}
    created = encode_lifecycle_frame("response.created", answered_by, 0)
    return LogOpening(created, answered_by, StoredHeaders("seed=dropped", "second"))


async def test_the_opening_of_a_log_is_replaced_with_the_response_and_its_headers(store: SqlStore) -> None:
    head = await begun(store)
    replaced = opening(head, temperature=0.5)
    for _ in range(2):  # a caller that got no result tries again
        await store.event_log.replace_opening("ann", head["id"], replaced, worker=WORKER)
    await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
    page = await store.event_log.load_log_page("ann", head["id"], after=-1)
    assert page.entries == [LogEntry(0, 0, replaced.created), entry(1)]
    stored = await store.responses.load_response("ann", head["id"])
    assert stored is not None
    assert (stored.response["temperature"], stored.headers) == (0.5, replaced.headers)
    usage = await store.owner_data.measure_owner("ann")
    assert usage.log_bytes == len(replaced.created) + len(entry(1).frames)


@pytest.mark.parametrize("why", ["another worker", "another owner", "ended"])
async def test_an_opening_is_replaced_only_by_the_worker_of_a_running_response(why: str, store: SqlStore) -> None:
    head = await begun(store)
    if why == "ended":
        ended = completed(head, answered("hi"))
        await store.responses.finish_response("ann", ended, worker=WORKER, last=entry(1))
    before = (await store.event_log.load_log_page("ann", head["id"], after=-1)).entries
    owner, worker = ("bob" if why == "another owner" else "ann"), (OTHER if why == "another worker" else WORKER)
    with pytest.raises(LeaseLost):
        await store.event_log.replace_opening(owner, head["id"], opening(head), worker=worker)
    assert (await store.event_log.load_log_page("ann", head["id"], after=-1)).entries == before
    stored = await store.responses.load_response("ann", head["id"])
    assert stored is not None
    assert stored.headers.upstream is None


async def test_an_entry_is_found_by_any_of_its_events(store: SqlStore) -> None:
    head = await begun(store)
    await store.event_log.append_log_entry("ann", head["id"], entry(1, 9), worker=WORKER)
    assert await numbers(store, head, after=4) == [(1, 9)]
    assert await numbers(store, head, after=9) == []


async def test_bytes_are_returned_unchanged(store: SqlStore) -> None:
    head = await begun(store)
    odd = LogEntry(1, 1, b"event: e\ndata: \x00\xff\xc3\x28\r\n\n")
    await store.event_log.append_log_entry("ann", head["id"], odd, worker=WORKER)
    assert (await store.event_log.load_log_page("ann", head["id"], after=0)).entries == [odd]


async def test_a_log_has_ended_with_its_last_entry(store: SqlStore) -> None:
    head = await begun(store)
    await store.responses.finish_response("ann", completed(head, answered("HELLO")), worker=WORKER, last=entry(1, 2))
    page = await store.event_log.load_log_page("ann", head["id"], after=0)
    assert (page.entries, page.ended) == ([entry(1, 2)], True)


async def test_a_long_log_is_read_in_pages_none_of_which_ends_it_early(store: SqlStore) -> None:
    head = await begun(store)
    await asyncio.gather(
        *(store.event_log.append_log_entry("ann", head["id"], entry(n), worker=WORKER) for n in range(1, 600))
    )
    await store.responses.finish_response("ann", completed(head), worker=WORKER, last=entry(600))
    found: list[int] = []
    ends: list[bool] = []
    more, pages = True, 0
    while more:
        page = await store.event_log.load_log_page("ann", head["id"], after=found[-1] if found else -1)
        found += [read.last for read in page.entries]
        ends.append(page.ended)
        more, pages = page.has_more, pages + 1
    assert found == list(range(601))
    assert pages > 1
    assert ends == [*[False] * (pages - 1), True]


@pytest.mark.parametrize("how", ["finish", "cancel"])
async def test_an_end_is_not_hidden_from_followers_by_the_entry_before_it(store: SqlStore, how: str) -> None:
    head = await begun(store)
    async with store.event_log.watch_response("ann", head["id"]) as watch:
        await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
        if how == "finish":
            await store.responses.finish_response("ann", completed(head), worker=WORKER, last=entry(2))
        else:
            await store.responses.cancel_response("ann", head["id"])
        await watch.wait_for_change()  # once for both
        page = await store.event_log.load_log_page("ann", head["id"], after=0)
    assert [read.last for read in page.entries] == [1, 2]
    assert page.ended


async def test_only_the_worker_that_holds_a_response_may_append(store: SqlStore) -> None:
    head = await begun(store)
    with pytest.raises(LeaseLost):
        await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=OTHER)
    with pytest.raises(LeaseLost):
        await store.event_log.append_log_entry("ann", "resp_unknown", entry(1), worker=WORKER)
    with pytest.raises(LeaseLost):
        await store.event_log.append_log_entry("bob", head["id"], entry(1), worker=WORKER)
    assert await numbers(store, head) == [(0, 0)]


async def test_nothing_is_added_to_a_log_that_has_ended(store: SqlStore) -> None:
    cancelled, finished, deleted = [await begun(store) for _ in range(3)]
    await store.responses.cancel_response("ann", cancelled["id"])
    await store.responses.finish_response("ann", completed(finished), worker=WORKER, last=entry(1))
    await store.responses.delete_response("ann", deleted["id"])
    for head in (cancelled, finished, deleted):
        with pytest.raises(LeaseLost):
            await store.event_log.append_log_entry("ann", head["id"], entry(2), worker=WORKER)


async def test_a_refused_append_does_not_fail_others(store: SqlStore) -> None:
    heads = [await begun(store) for _ in range(4)]
    await store.responses.cancel_response("ann", heads[1]["id"])
    results = await asyncio.gather(
        *(store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER) for head in heads),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), LeaseLost, type(None), type(None)]
    assert await numbers(store, heads[3]) == [(0, 0), (1, 1)]


async def test_an_append_that_was_not_answered_can_be_repeated(store: SqlStore) -> None:
    head = await begun(store)
    for _ in range(2):
        await store.event_log.append_log_entry("ann", head["id"], entry(1, 3), worker=WORKER)
    assert await numbers(store, head) == [(0, 0), (1, 3)]


async def test_many_streams_append_at_once_and_each_keeps_its_order(store: SqlStore) -> None:
    heads = [await begun(store) for _ in range(20)]

    async def write(head: Json) -> None:
        for number in range(1, 11):
            await store.event_log.append_log_entry("ann", head["id"], entry(number), worker=WORKER)

    await asyncio.gather(*map(write, heads))
    for head in heads:
        assert await numbers(store, head) == [(n, n) for n in range(11)]


async def test_a_cancelled_append_does_not_stop_others(store: SqlStore) -> None:
    heads = [await begun(store) for _ in range(3)]
    tasks = [
        asyncio.get_running_loop().create_task(
            store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
        )
        for head in heads
    ]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, type(None), type(None)]
    await store.event_log.append_log_entry("ann", heads[0]["id"], entry(1), worker=WORKER)
    assert await numbers(store, heads[0]) == [(0, 0), (1, 1)]


async def test_appends_that_wait_when_the_store_closes_fail_by_name(store: SqlStore) -> None:
    head = await begun(store)
    waiting = asyncio.get_running_loop().create_task(
        store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
    )
    await asyncio.sleep(0)
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_another_owner_reads_nothing(store: SqlStore) -> None:
    head = await begun(store)
    page = await store.event_log.load_log_page("bob", head["id"], after=-1)
    assert (page.entries, page.ended) == ((), True) or (list(page.entries), page.ended) == ([], True)
    assert (await store.event_log.load_log_page("ann", "resp\0", after=-1)).ended


async def test_a_follower_is_notified_of_an_append_of_its_own_process_at_once(store_url: str) -> None:
    # It polls so seldom that only a signal can notify it in time.
    store = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=3600), BackgroundSettings())
    await store.open()
    head = await begun(store)
    async with asyncio.timeout(60), store.event_log.watch_response("ann", head["id"]) as watch:
        await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
        await watch.wait_for_change()
        assert await numbers(store, head, after=0) == [(1, 1)]
        await store.responses.cancel_response("ann", head["id"])
        await watch.wait_for_change()
        assert (await store.event_log.load_log_page("ann", head["id"], after=1)).ended
    await store.aclose()


async def test_a_follower_is_notified_of_appends_of_other_processes(store: SqlStore, store_url: str) -> None:
    other = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=0.05), BackgroundSettings())
    await other.open()
    head = await begun(store)
    async with asyncio.timeout(60), other.event_log.watch_response("ann", head["id"]) as watch:
        for number in range(1, 20):
            await store.event_log.append_log_entry("ann", head["id"], entry(number), worker=WORKER)
            while not await numbers(other, head, after=number - 1):
                await watch.wait_for_change()
    await other.aclose()


async def test_a_change_without_a_waiting_follower_is_not_missed(store_url: str) -> None:
    store = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=3600), BackgroundSettings())
    await store.open()
    head = await begun(store)
    async with asyncio.timeout(60), store.event_log.watch_response("ann", head["id"]) as watch:
        for number in range(1, 30):
            await asyncio.gather(
                store.event_log.append_log_entry("ann", head["id"], entry(number), worker=WORKER),
                watch.wait_for_change(),
            )
            if number % 2:
                await store.event_log.append_log_entry("ann", head["id"], entry(number + 1000), worker=WORKER)
                await watch.wait_for_change()
    await store.aclose()


async def test_followers_in_the_same_process_miss_nothing_however_slow_they_are(store: SqlStore) -> None:
    head = await begun(store)
    async with store.event_log.watch_response("ann", head["id"]):
        last = 0
        for size in (1, 5, 200, 3):  # more than is held in memory, and less
            for number in range(last + 1, last + size + 1):
                await store.event_log.append_log_entry("ann", head["id"], entry(number), worker=WORKER)
            found: list[int] = []
            after = last
            while len(found) < size:
                page = await store.event_log.load_log_page("ann", head["id"], after=after)
                found += [read.last for read in page.entries]
                after = found[-1]
            assert found == list(range(last + 1, last + size + 1))
            last += size
        await store.responses.finish_response("ann", completed(head), worker=WORKER, last=entry(last + 1))
        page = await store.event_log.load_log_page("ann", head["id"], after=last)
        assert (page.entries, page.ended) == ([entry(last + 1)], True)
    assert len(await numbers(store, head)) == last + 2


async def test_entries_in_memory_are_read_by_their_owner_only(store: SqlStore) -> None:
    head = await begun(store)
    async with store.event_log.watch_response("ann", head["id"]), store.event_log.watch_response("bob", head["id"]):
        await store.event_log.append_log_entry("ann", head["id"], entry(1), worker=WORKER)
        assert await numbers(store, head, after=0) == [(1, 1)]
        assert await numbers(store, head, after=0, owner="bob") == []
