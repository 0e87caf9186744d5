"""gateway/upstreams/waiting_turns.py, load.py: which of the turns that wait gets the slots of an upstream that was
parked or ejected, and what becomes of them while all upstreams are."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from gateway.config.settings import parse_settings
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.health import UpstreamName
from gateway.upstreams.load import SlotSearch
from gateway.upstreams.waiting_turns import WaitingTurns, choose_slot
from providers.errors import UpstreamOverloaded, UpstreamRateLimited
from tests.unit.gateway.upstreams.crowd import NO_CONNECTION, SOON_S, Crowd, gather_crowd
from tests.unit.gateway.upstreams.fleet_states import uniform


async def gather_before_a_pause(
    *labels: str, seconds: float, limits: Sequence[int | None] = (1, 1), state: str = "parked"
) -> Crowd:
    """Returns turns that wait because the first upstream has a free slot but is parked or ejected, and the second is
    full."""
    crowd = Crowd(uniform(len(limits), limits=limits, queue_s=60, eject_s=seconds))
    await crowd.fill()
    health, now = crowd.fleet.candidates[0].health, crowd.fleet.clock.now
    crowd.holders.pop(0).succeed()
    for _ in range((limits[0] or 1) - 1):
        crowd.holders.pop(0).succeed()
    if state == "parked":
        health.park("rate_limit_exceeded", seconds, now)
    else:
        health.eject("failures", now)
    for label in labels:
        await crowd.join(label, crowd.fleet.candidates[:2])
    assert len(crowd.queue) == len(labels)
    return crowd


@pytest.mark.parametrize("state", ["parked", "ejected"])
@pytest.mark.parametrize(("waiting", "expected"), [("a1", "a1"), ("a1 a2 b1", "a1 b1 a2")], ids=["one", "many"])
async def test_turns_that_wait_get_the_slots_of_an_upstream_that_is_available_again(
    waiting: str, expected: str, state: str
) -> None:
    crowd = await gather_before_a_pause(*waiting.split(), seconds=SOON_S, state=state)
    crowd.fleet.clock.now += 1
    for label in expected.split():
        assert await crowd.end(label) is crowd.fleet.candidates[0]
    assert await crowd.end_all() == expected.split()
    await crowd.check_that_nothing_is_left()


async def test_the_first_of_two_pauses_of_a_provider_that_ends_is_enough() -> None:
    crowd = await gather_before_a_pause("a1", seconds=60)
    fleet = crowd.fleet
    other = fleet.registry.build_candidate(2, UpstreamName("u0", "k"), "u0:k", 1.0, 0)
    other.health.park("rate_limit_exceeded", SOON_S, fleet.clock.now)
    await crowd.join("b1", [other, fleet.candidates[1]])
    await crowd.join("c1")
    assert len(crowd.queue) == 3
    fleet.clock.now += 1
    assert await crowd.end("b1") is other
    assert await crowd.end_all() == ["b1", "a1", "c1"]
    fleet.clock.now += 60
    await crowd.check_that_nothing_is_left()


async def test_a_slot_that_became_free_during_a_pause_is_offered_at_its_end() -> None:
    crowd = await gather_crowd("a1")
    fleet = crowd.fleet
    fleet.candidates[0].health.park("rate_limit_exceeded", SOON_S, fleet.clock.now)
    crowd.holders.pop().succeed()
    assert await crowd.settle() == []
    fleet.clock.now += 1
    assert await crowd.end_all() == ["a1"]
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["", "the first is cancelled"])
async def test_one_turn_that_waits_is_the_trial_and_the_others_follow_its_first_content(is_cancelled: bool) -> None:
    labels = ["a0", "a1", "a2"] if is_cancelled else ["a1", "a2"]
    crowd = await gather_before_a_pause(*labels, seconds=SOON_S, limits=(2, 1), state="ejected")
    crowd.fleet.clock.now += 1
    if is_cancelled:
        crowd.fleet.candidates[0].load.offer_slots()
        crowd.tasks.pop("a0").cancel()
    await crowd.tasks["a1"]
    assert await crowd.settle() == ["a1"]
    assert crowd.fleet.states()[0] == "trial"
    crowd.turns["a1"].observe_content()
    assert await crowd.tasks["a2"] is crowd.fleet.candidates[0]
    assert await crowd.end_all() == ["a1", "a2"]
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("way", ["succeeds", "leaves", "is taken back"])
async def test_the_end_of_a_trial_lets_the_next_turn_begin(way: str) -> None:
    crowd = await gather_before_a_pause("a1", "a2", seconds=SOON_S, limits=(1, 1), state="ejected")
    crowd.fleet.clock.now += 1
    await crowd.tasks.pop("a1")
    trial = crowd.turns["a1"]
    {"succeeds": trial.succeed, "leaves": trial.leave, "is taken back": trial.cancel}[way]()
    assert await crowd.end("a2") is crowd.fleet.candidates[0]
    await crowd.end_all()
    assert crowd.fleet.states()[0] == "available"
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("kind", ["a new turn", "a turn that was planned for it", "a repetition"])
async def test_no_turn_takes_a_free_slot_for_which_another_one_waits(kind: str) -> None:
    crowd = await gather_before_a_pause("a1", seconds=60, limits=(1, 1, None))
    fleet = crowd.fleet
    paused, _, unlimited = fleet.candidates
    turn = crowd.build_turn([paused, unlimited] if kind == "a repetition" else [paused])
    if kind == "a repetition":
        assert await turn.begin() is unlimited
    fleet.clock.now += 61  # and nothing has offered its slot yet
    if kind == "a repetition":
        assert await turn.move_on(NO_CONNECTION)
    elif kind == "a turn that was planned for it":
        assert turn.propose() is paused
    task = asyncio.create_task(turn.begin())
    assert await crowd.settle() == ["a1"]
    assert len(crowd.queue) == 1
    await crowd.end_all()
    assert await task is paused
    turn.succeed()
    await crowd.check_that_nothing_is_left()


def limit_rate(seconds: float) -> UpstreamRateLimited:
    return UpstreamRateLimited("slow down", status=429, headers={"retry-after": f"{seconds:g}"})


@pytest.mark.parametrize("way", ["rate limit", "failure", "cut"])
async def test_a_slot_is_offered_only_after_the_failure_that_freed_it_was_judged(way: str) -> None:
    crowd = await gather_crowd("a1", "a2", "b1", limits=(1, 1), eject_failures=1)
    holder = crowd.build_turn(crowd.fleet.candidates)  # it may eject
    holder.attempt, crowd.holders[0].attempt = crowd.holders[0].attempt, None
    del crowd.holders[0]
    if way == "cut":
        holder.cut()
    else:
        holder.fail(limit_rate(30) if way == "rate limit" else NO_CONNECTION)
    assert await crowd.settle() == []
    assert crowd.fleet.states() == ["parked" if way == "rate limit" else "ejected", "full"]
    assert crowd.fleet.candidates[0].load.in_flight == 0
    crowd.fleet.clock.now += 61
    assert await crowd.end_all() == ["a1", "b1", "a2"]
    await crowd.check_that_nothing_is_left()


async def test_turns_that_wait_are_refused_once_all_upstreams_are_parked_for_longer() -> None:
    crowd = await gather_crowd("a1", "a2", "b1", queue_s=10)
    crowd.holders.pop().fail(limit_rate(30))
    await crowd.settle()
    assert len(crowd.queue) == 0
    for label, task in crowd.tasks.items():
        with pytest.raises(UpstreamRateLimited) as raised:
            await task
        assert raised.value.headers == {"retry-after": "30"}
        assert (crowd.turns[label].attempt_count, crowd.turns[label].limit) == (0, "")
    crowd.fleet.clock.now += 31
    await crowd.check_that_nothing_is_left()


async def test_a_repetition_shows_the_failure_before_once_its_upstream_is_parked_for_longer() -> None:
    crowd = await gather_crowd(limits=(1, 1), queue_s=10)
    crowd.holders.pop(0).succeed()
    turn = crowd.build_turn(crowd.fleet.candidates)
    await turn.begin()
    assert await turn.move_on(NO_CONNECTION)
    task = asyncio.create_task(turn.begin())
    await crowd.settle()
    assert len(crowd.queue) == 1
    crowd.holders.pop().fail(limit_rate(30))
    await crowd.settle()
    assert task.exception() is NO_CONNECTION
    crowd.fleet.clock.now += 31
    await crowd.check_that_nothing_is_left()


async def test_a_repetition_waits_until_the_ejection_of_its_upstream_has_ended() -> None:
    crowd = await gather_crowd(limits=(1, 1))
    first, second = crowd.fleet.candidates
    crowd.holders.pop(0).succeed()
    turn = crowd.build_turn([first, second])
    await turn.begin()
    assert await turn.move_on(NO_CONNECTION)
    task = asyncio.create_task(turn.begin())
    await crowd.settle()
    assert len(crowd.queue) == 1
    second.health.eject("failures", crowd.fleet.clock.now)
    crowd.holders.pop().fail(NO_CONNECTION)
    await crowd.settle()
    assert not task.done()
    second.health.end_ejection(crowd.fleet.clock.now)
    second.load.offer_slots()
    assert await task is second
    turn.succeed()
    await crowd.check_that_nothing_is_left()


async def test_turns_that_wait_outlast_a_parking_of_all_upstreams_that_ends_in_time() -> None:
    crowd = await gather_crowd("a1", "b1", queue_s=10)
    crowd.holders.pop().fail(limit_rate(SOON_S))
    assert await crowd.settle() == []
    crowd.fleet.clock.now += 1
    assert await crowd.end_all() == ["a1", "b1"]
    await crowd.check_that_nothing_is_left()


async def eject_all(crowd: Crowd) -> None:
    """Ends the holders of all upstreams in failures that eject them: the first one for longer."""
    for seconds, holder in zip((60, 50), crowd.holders, strict=True):
        assert holder.attempt is not None
        health = holder.attempt.candidate.health
        health.eject("failures", crowd.fleet.clock.now)
        health.ejected_until = crowd.fleet.clock.now + seconds
        holder.fail(NO_CONNECTION)
    crowd.holders.clear()


@pytest.mark.parametrize("state", ["ejected", "parked"])
async def test_a_failure_sends_no_turn_that_waits_to_an_ejected_upstream(state: str) -> None:
    """Each would fail there, and free the slot for the next one: the queue would be empty at once."""
    crowd = await gather_crowd("a1", "a2", "b1", limits=(1, 1), eject_failures=1, queue_s=10)
    first, second = crowd.fleet.candidates
    second.health.eject("failures", crowd.fleet.clock.now)
    crowd.holders.pop().fail(NO_CONNECTION)
    if state == "ejected":
        first.health.eject("failures", crowd.fleet.clock.now)
    crowd.holders.pop().fail(limit_rate(1.0) if state == "parked" else NO_CONNECTION)
    assert crowd.fleet.states() == [state, "ejected"]
    assert await crowd.settle() == []
    assert len(crowd.queue) == 3
    crowd.fleet.clock.now += 1.1
    first.health.end_ejection(crowd.fleet.clock.now)
    first.load.offer_slots()
    assert await crowd.end_all() == ["a1", "b1", "a2"]
    crowd.fleet.clock.now += 61
    await crowd.check_that_nothing_is_left()


async def test_a_turn_whose_time_is_over_is_not_sent_to_an_ejected_upstream() -> None:
    crowd = await gather_crowd("a1", "a2", "b1", limits=(1, 1), eject_failures=1, queue_s=SOON_S)
    await eject_all(crowd)
    crowd.fleet.clock.now += 1
    for label in ("a1", "a2", "b1"):
        with pytest.raises(UpstreamOverloaded):
            await crowd.tasks.pop(label)
    assert crowd.served == []
    crowd.fleet.clock.now += 61
    await crowd.check_that_nothing_is_left()


async def test_a_newcomer_asks_no_upstream_on_trial_for_which_turns_wait() -> None:
    crowd = await gather_crowd("a1", "a2", limits=(2, 1), eject_failures=1)
    first, second = crowd.fleet.candidates
    for each in (first, second):
        each.health.eject("failures", crowd.fleet.clock.now)
    crowd.holders.pop().fail(NO_CONNECTION)
    first.health.end_ejection(crowd.fleet.clock.now)
    for _ in range(2):
        crowd.holders.pop().fail(NO_CONNECTION)
    assert await crowd.settle() == ["a1"]
    assert crowd.fleet.states() == ["trial", "ejected"]
    await crowd.join("b1", [first])
    assert await crowd.settle() == ["a1"]
    assert await crowd.end_all() == ["a1", "a2", "b1"]
    crowd.fleet.clock.now += 61
    await crowd.check_that_nothing_is_left()


async def test_a_newcomer_asks_an_ejected_upstream_while_turns_wait_for_its_end() -> None:
    crowd = await gather_crowd("a1", "a2", limits=(1, 1), eject_failures=1)
    await eject_all(crowd)
    await crowd.join("b1")
    assert await crowd.settle() == ["b1"]
    assert await crowd.end("b1") is crowd.fleet.candidates[1]  # whose ejection ends first
    crowd.fleet.clock.now += 61
    for each in crowd.fleet.candidates:
        each.load.search_again()
        each.load.offer_slots()
    assert await crowd.end_all() == ["b1", "a1", "a2"]
    await crowd.check_that_nothing_is_left()


async def test_a_newcomer_that_only_an_ejected_upstream_can_serve_does_not_wait_for_turns_that_wait_for_another() -> (
    None
):
    crowd = await gather_before_a_pause("a1", seconds=60, state="ejected")
    await crowd.join("b1", crowd.fleet.candidates[:1])
    assert await crowd.end("b1") is crowd.fleet.candidates[0]
    assert await crowd.settle() == ["b1"]
    crowd.fleet.clock.now += 61
    assert await crowd.end_all() == ["b1", "a1"]
    await crowd.check_that_nothing_is_left()


async def test_a_newcomer_is_refused_at_once_while_all_upstreams_are_ejected_and_full_and_none_waits() -> None:
    crowd = await gather_crowd()
    crowd.fleet.candidates[0].health.eject("failures", crowd.fleet.clock.now)
    await crowd.join("a1")
    with pytest.raises(UpstreamOverloaded):
        await crowd.tasks.pop("a1")


async def test_turns_that_wait_get_the_slots_of_an_upstream_whose_ejection_is_ended_early() -> None:
    crowd = await gather_before_a_pause("a1", "b1", seconds=60, state="ejected")
    first = crowd.fleet.candidates[0]
    first.load.offer_slots()
    assert await crowd.settle() == []
    first.health.end_ejection(crowd.fleet.clock.now)
    first.load.offer_slots()
    assert await crowd.settle() == ["a1"]
    await crowd.end_all()
    await crowd.check_that_nothing_is_left()


async def test_turns_that_cannot_use_a_slot_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    offer_slot = WaitingTurns.offer_slot

    def note_search(self: WaitingTurns, search: SlotSearch, owner: str) -> bool:
        searches.append(owner)
        return offer_slot(self, search, owner)

    monkeypatch.setattr(WaitingTurns, "offer_slot", note_search)
    crowd = await gather_before_a_pause("a1", "a2", "b1", seconds=60, limits=(3, 1))
    fleet = crowd.fleet
    healthy = fleet.registry.build_candidate(1, UpstreamName("u0", "k"), "u0:k", 1.0, 0)
    searches.clear()
    for _ in range(5):
        turn = crowd.build_turn([healthy], name="n")
        await turn.begin()
        turn.observe_content()
        turn.succeed()
    await crowd.join("c1")
    assert searches == []
    fleet.clock.now += 61
    fleet.candidates[0].load.offer_slots()
    assert await crowd.settle() == ["a1", "b1", "c1"]
    assert await crowd.end_all() == ["a1", "b1", "c1", "a2"]
    await crowd.check_that_nothing_is_left()


async def find_takers(crowd: Crowd) -> list[str]:
    """Returns the labels of the turns that wait although an upstream has a free slot for them."""
    for each in crowd.fleet.candidates:
        each.load.offer_slots()  # as a timer does when a parking or an ejection has ended
    for _ in range(10):  # a turn that is cancelled passes its slot on
        await crowd.settle()

    def is_taker(candidates: Sequence[Candidate]) -> bool:
        loads = {each.load for each in candidates if not each.load.is_full}
        return any(choose_slot(candidates, load, crowd.fleet.clock.now) is not None for load in loads)

    waiting = [label for label, task in crowd.tasks.items() if not task.done()]
    return [label for label in waiting if is_taker(crowd.turns[label].candidates)]


@pytest.mark.parametrize("seed", [2, 3, 16, 433, 556, 560])
async def test_no_turn_waits_while_an_upstream_has_a_free_slot_for_it(seed: int) -> None:
    chance = random.Random(seed)
    crowd = await gather_crowd(limits=(1, 2, 1), queue_s=1e6, eject_failures=2, eject_s=5, attempts=2)
    fleet = crowd.fleet
    fleet.candidates.append(fleet.registry.build_candidate(3, UpstreamName("u1", "k"), "u1:k", 1.0, 1))
    label = 0
    for _ in range(300):
        step = chance.choice(("join", "join", "end", "end", "end", "clock", "probe", "cancel", "limit"))
        begun = [each for each in crowd.turns if (task := crowd.tasks[each]).done() and not task.cancelled()]
        waiting = [each for each in crowd.turns if not crowd.tasks[each].done()]
        if step == "join":
            label += 1
            some = chance.sample(fleet.candidates, chance.randint(1, 4))
            await crowd.join(f"{chance.choice('abc')}{label}", some, chance.choice("mn"))
        elif step == "end" and begun:
            left = chance.choice(begun)
            turn = crowd.turns.pop(left)
            if crowd.tasks.pop(left).exception() is None:
                end = chance.choice(("succeed", "leave", "cut", "cancel", "observe", "fail", "fail", "limit"))
                if end == "observe":
                    turn.observe_content()
                    turn.succeed()
                elif end in ("fail", "limit"):
                    turn.fail(NO_CONNECTION if end == "fail" else limit_rate(chance.choice((1, 20))))
                else:
                    getattr(turn, end)()
        elif step == "cancel" and waiting:
            left = chance.choice(waiting)
            crowd.tasks.pop(left).cancel()
            del crowd.turns[left]
        elif step == "clock":
            fleet.clock.now += chance.choice((0.5, 3, 10))
        elif step == "probe":
            health = chance.choice(fleet.candidates).health
            health.end_ejection(fleet.clock.now)
        elif step == "limit":
            providers = {
                f"u{number}": {"type": "scripted", "max_in_flight": chance.choice((1, 2, 3))} for number in range(3)
            }
            routing = {"eject_failures": 2, "eject_s": 5}
            fleet.registry.use_settings(parse_settings({"providers": providers, "routing": routing}, environ={}))
        assert await find_takers(crowd) == [], (seed, step)
    for task in crowd.tasks.values():
        task.cancel()
    await asyncio.gather(*crowd.tasks.values(), return_exceptions=True)
    assert len(crowd.queue) == 0
