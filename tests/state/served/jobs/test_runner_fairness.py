"""The places for jobs are shared among owners: one with many jobs does not keep another one waiting."""

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.state.sql.store import SqlStore
from gateway.state.values import Job, NewResponse
from tests.polling import wait_until
from tests.state.responses import message_item, new, response
from tests.state.served.jobs.job_replica import Replica, ScriptedWire, queued, replica
from translation.representation.json_types import Json

LONGEST_WAIT_S = 5.0
"""What another owner's job may wait for its place. It is some milliseconds on a machine with nothing else to do."""


def build_job(head: Json, owner: str) -> NewResponse:
    return new(head, message_item("hello"), owner=owner, worker=None, job_request={"model": "m"})


async def submit(here: Replica, owner: str, wire: ScriptedWire, head: Json) -> None:
    await here.runner.submit_job(build_job(head, owner), wire)


async def measure_wait(here: Replica, wires: dict[str, ScriptedWire], owner: str) -> float:
    """Returns how long a new job of the owner waits until it runs."""
    head = queued()
    wires[head["id"]] = wire = ScriptedWire(head)
    started = time.monotonic()
    await submit(here, owner, wire, head)
    await wait_until(wire.begun.is_set)
    return time.monotonic() - started


def resume_as(wires: dict[str, ScriptedWire], gate: asyncio.Event) -> Callable[[Job], ScriptedWire]:
    """Returns a function for the replies of jobs that were queued. Those that are not in `wires` wait for the gate."""

    def make(job: Job) -> ScriptedWire:
        known = wires.get(job.response_id)
        return known if known is not None else ScriptedWire(queued(id=job.response_id), gate=gate)

    return make


@pytest.mark.parametrize("form", ["in the background", "as streams that cannot wait"])
async def test_another_owner_does_not_wait_for_forty_jobs_of_one(
    store: SqlStore, form: str, record_property: Callable[[str, object], None]
) -> None:
    gate, wires = asyncio.Event(), dict[str, ScriptedWire]()
    async with replica(store, max_running=8, lease_s=30) as here:
        here.make = resume_as(wires, gate)
        heads = [queued() if form == "in the background" else response("in_progress") for _ in range(40)]
        await asyncio.gather(*(submit(here, "ann", ScriptedWire(head, gate=gate), head) for head in heads))
        waits = [await measure_wait(here, wires, owner) for owner in ("bob", "cid", "bob")]
        record_property("longest_wait_ms", round(max(waits) * 1000))
        assert max(waits) < LONGEST_WAIT_S
        gate.set()
        await wait_until(lambda: not here.runner._job_tasks)


async def test_an_owner_that_submits_all_the_time_does_not_overtake_another(store: SqlStore) -> None:
    """Each time a place becomes free, the job that waits gets it, and not the one that arrives at that moment."""
    order: list[str] = []
    owners: dict[str, str] = {}
    async with replica(store, max_running=1, lease_s=30) as here:

        def make(job: Job) -> ScriptedWire:
            order.append(job.owner)
            return ScriptedWire(queued(id=job.response_id))

        here.make = make
        gate, first = asyncio.Event(), queued()
        await submit(here, "ann", ScriptedWire(first, gate=gate), first)
        for owner in ("bob", "ann", "cid", "ann", "ann"):
            head = queued()
            owners[head["id"]] = owner
            await submit(here, owner, ScriptedWire(head), head)
        gate.set()
        head = queued()
        await submit(here, "ann", ScriptedWire(head), head)
        await wait_until(lambda: len(order) == 6)
    assert order == ["bob", "ann", "cid", "ann", "ann", "ann"]


async def test_without_keys_all_places_are_those_of_everybody(store: SqlStore) -> None:
    gate, heads = asyncio.Event(), [queued() for _ in range(8)]
    wires = [ScriptedWire(head, gate=gate) for head in heads]
    async with replica(store, max_running=8, lease_s=30) as here:
        for head, wire in zip(heads, wires, strict=True):
            await submit(here, "anonymous", wire, head)
        await wait_until(lambda: all(wire.begun.is_set() for wire in wires))
        gate.set()
        await wait_until(lambda: not here.runner._job_tasks)
