"""The turns of a connection: in order in each lane, side by side otherwise, never too many."""

import pytest

from gateway.errors import TooManyQueued
from gateway.websocket.events import Lane, TurnRequest
from gateway.websocket.turn_queue import MAX_LANES, MAX_QUEUED, MAX_RUNNING, CachedResponse, ResponseCache, TurnQueue
from translation.errors import InvalidRequest

MAX_BYTES = 1000


def turn(lane: Lane = None, size: int = 1) -> TurnRequest:
    return TurnRequest(lane=lane, body={}, generate=True, size=size)


def put(lanes: TurnQueue, *turns: TurnRequest) -> None:
    for one in turns:
        lanes.put(one)


def pop_all(lanes: TurnQueue) -> list[Lane]:
    found = []
    while (one := lanes.pop_runnable()) is not None:
        found.append(one.lane)
    return found


def test_turns_of_one_lane_run_one_after_the_other_in_order() -> None:
    lanes = TurnQueue(MAX_BYTES)
    first, second = turn(size=1), turn(size=2)
    put(lanes, first, second)
    assert lanes.pop_runnable() is first
    assert lanes.pop_runnable() is None
    lanes.release(None)
    assert lanes.pop_runnable() is second


def test_lanes_run_side_by_side() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, turn("a"), turn("a"), turn("b"), turn())
    assert pop_all(lanes) == ["a", "b", None]
    assert lanes.running_count == 3


def test_concurrent_turns_are_limited() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, *(turn(str(number)) for number in range(MAX_RUNNING + 1)))
    assert pop_all(lanes) == [str(number) for number in range(MAX_RUNNING)]
    lanes.release("3")
    assert pop_all(lanes) == [str(MAX_RUNNING)]


def test_named_lanes_of_a_connection_are_limited() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, *(turn(str(number)) for number in range(MAX_LANES)), turn())
    with pytest.raises(InvalidRequest) as refused:
        lanes.put(turn("another"))
    assert (refused.value.code, refused.value.param) == ("websocket_stream_limit_reached", "stream_id")
    lanes.put(turn("0"))


def test_queued_turns_are_limited() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, *(turn() for _ in range(MAX_QUEUED)))
    with pytest.raises(TooManyQueued):
        lanes.put(turn())
    pop_all(lanes)
    lanes.put(turn())


def test_queued_turns_are_limited_in_bytes_but_one_is_always_accepted() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, turn(size=MAX_BYTES))
    with pytest.raises(TooManyQueued):
        lanes.put(turn(size=1))


def test_abandoned_turns_do_not_run() -> None:
    lanes = TurnQueue(MAX_BYTES)
    put(lanes, turn("a"), turn("a"), turn("b"))
    lanes.pop_runnable()
    assert [one.lane for one in lanes.clear()] == ["a", "b"]
    lanes.release("a")
    assert lanes.pop_runnable() is None


def cached_response(name: str, size: int = 1) -> CachedResponse:
    return CachedResponse(name, [{"id": name}], size)


def test_each_lane_remembers_its_latest_response() -> None:
    memory = ResponseCache(MAX_BYTES)
    memory.replace_latest("a", cached_response("r1"))
    memory.replace_latest("b", cached_response("r2"))
    memory.replace_latest("a", cached_response("r3"))
    assert memory.map_items_by_id() == {"r2": [{"id": "r2"}], "r3": [{"id": "r3"}]}


def test_a_response_in_a_store_needs_no_memory() -> None:
    memory = ResponseCache(MAX_BYTES)
    memory.replace_latest("a", cached_response("r1"))
    memory.replace_latest("a", None)
    assert memory.map_items_by_id() == {}


def test_a_failed_continuation_evicts_its_parent_from_its_own_lane_only() -> None:
    memory = ResponseCache(MAX_BYTES)
    memory.replace_latest("a", cached_response("r1"))
    memory.evict("b", "r1")
    memory.evict("a", "r0")
    memory.evict("a", None)
    assert list(memory.map_items_by_id()) == ["r1"]
    memory.evict("a", "r1")
    assert list(memory.map_items_by_id()) == []


def test_memory_is_bounded_and_the_oldest_lane_gives_way() -> None:
    memory = ResponseCache(MAX_BYTES)
    memory.replace_latest("a", cached_response("r1", 600))
    memory.replace_latest("b", cached_response("r2", 300))
    memory.replace_latest("c", cached_response("r3", 200))
    assert list(memory.map_items_by_id()) == ["r2", "r3"]
    assert memory.measure("r3")[0] == 200
    assert memory.measure("r1") == (0, 0)


def test_responses_larger_than_a_request_may_be_are_not_remembered() -> None:
    memory = ResponseCache(MAX_BYTES)
    memory.replace_latest("a", cached_response("r1"))
    memory.replace_latest("a", cached_response("r2", MAX_BYTES + 1))
    assert memory.map_items_by_id() == {}
