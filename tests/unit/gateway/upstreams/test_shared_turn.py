"""gateway/upstreams/shared_turn.py: the course of one turn over its attempts."""

import asyncio

import pytest

from gateway.upstreams.affinity import AffinityKey, rank_candidates
from gateway.upstreams.candidates import prepare_candidates
from gateway.upstreams.shared_turn import SharedTurn
from providers.errors import (
    ConnectionsExhausted,
    ContextLengthExceeded,
    ProviderError,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from tests.polling import wait_until
from tests.unit.gateway.upstreams.fleet_states import Fleet, uniform

UNREACHABLE = UpstreamUnreachable("no connection")
RESET = UpstreamUnreachable("reset", was_sent=True)
TIMEOUT = UpstreamTimeout("silent")
OVERLOADED = UpstreamOverloaded("busy", status=503)
BAD_REQUEST = UpstreamRejected("no", status=400)
NO_KEY = UpstreamUnauthorized("no key", status=401)


def limited(**headers: str) -> UpstreamRateLimited:
    return UpstreamRateLimited("slow down", status=429, headers={k.replace("_", "-"): v for k, v in headers.items()})


async def run(turn: SharedTurn, *errors: Exception | None) -> list[str]:
    """Runs a turn whose attempts end so, and returns the upstreams that were asked. None is a success."""
    asked: list[str] = []
    for error in errors:
        asked.append((await turn.begin()).upstream)
        if error is None:
            turn.succeed()
        elif not await turn.move_on(error):
            return asked
    return asked


@pytest.mark.parametrize("error", [UNREACHABLE, RESET, TIMEOUT, OVERLOADED, limited(), NO_KEY])
async def test_another_upstream_is_asked_after_a_failure_of_the_first(error: Exception) -> None:
    fleet = uniform(3)
    turn = fleet.begin_turn()
    asked = await run(turn, error, None)
    assert len(set(asked)) == 2
    assert [tried.result for tried in turn.tried][1] == "ok"
    assert turn.attempt_count == 2
    assert [each.load.in_flight for each in fleet.candidates] == [0, 0, 0]


async def test_no_more_attempts_are_made_than_allowed() -> None:
    fleet = uniform(5, attempts=3)
    assert len(await run(fleet.begin_turn(), *[UNREACHABLE] * 5)) == 3


async def test_a_judgement_is_final() -> None:
    fleet = uniform(3)
    turn = fleet.begin_turn()
    assert len(await run(turn, BAD_REQUEST, None)) == 1
    assert turn.find_failure(BAD_REQUEST) is BAD_REQUEST


async def test_an_upstream_can_forbid_to_try_again() -> None:
    error = UpstreamOverloaded("busy", status=503, headers={"x-should-retry": "false"})
    assert len(await run(uniform(3).begin_turn(), error, None)) == 1


@pytest.mark.parametrize("error", [RESET, TIMEOUT, UpstreamRejected("x", status=502)])
async def test_a_request_that_may_have_begun_is_not_repeated_if_that_is_not_allowed(error: Exception) -> None:
    assert len(await run(uniform(3, retry_unsafe=False).begin_turn(), error, None)) == 1
    assert len(await run(uniform(3, retry_unsafe=False).begin_turn(), UNREACHABLE, None)) == 2


async def test_a_higher_tier_is_asked_when_the_lower_one_has_no_other() -> None:
    fleet = Fleet((1, 0), (1, 1), (1, 2))
    assert await run(fleet.begin_turn(), UNREACHABLE, UNREACHABLE, None) == ["u0", "u1", "u2"]


async def test_the_same_upstream_is_asked_again_after_a_wait_once_all_were_tried() -> None:
    fleet = uniform(2, attempts=4)
    asked = await run(fleet.begin_turn(), UNREACHABLE, UNREACHABLE, UNREACHABLE, None)
    assert set(asked[:2]) == {"u0", "u1"}
    assert len(asked) == 4


async def test_a_single_upstream_is_asked_again_only_for_what_allows_it() -> None:
    assert len(await run(uniform(1).begin_turn(), UNREACHABLE, None)) == 2
    for error in (RESET, TIMEOUT, OVERLOADED, ConnectionsExhausted("x", status=503), NO_KEY):
        assert len(await run(uniform(1).begin_turn(), error, None)) == 1


async def test_the_same_upstream_is_asked_after_the_delay_that_it_named() -> None:
    soon = UpstreamOverloaded("busy", status=503, headers={"retry-after": "0.01"})
    assert await run(uniform(1).begin_turn(), soon, None) == ["u0", "u0"]
    late = UpstreamOverloaded("busy", status=503, headers={"retry-after": "3"})
    assert await run(uniform(1, wait_s=2).begin_turn(), late, None) == ["u0"]


async def test_weight_0_gets_no_turns() -> None:
    fleet = Fleet((0, 0), (1, 0))
    assert await run(fleet.begin_turn(), UNREACHABLE, UNREACHABLE) == ["u1", "u1"]


async def test_a_key_prefers_its_upstream_and_failures_leave_it() -> None:
    fleet, key = uniform(4), AffinityKey("session", b"k")
    first = rank_candidates(key, fleet.candidates)[0].upstream
    for _ in range(5):
        assert await run(fleet.begin_turn(key), None) == [first]
    asked = await run(fleet.begin_turn(key), UNREACHABLE, None)
    assert asked[0] == first != asked[1]


async def test_the_upstream_of_the_round_before_is_preferred() -> None:
    fleet = uniform(4)
    for _ in range(5):
        assert await run(fleet.begin_turn(preferred="u2"), None) == ["u2"]


async def test_turns_are_counted_before_anything_is_awaited() -> None:
    fleet = uniform(2)
    turns = [fleet.begin_turn() for _ in range(20)]
    for turn in turns:
        await turn.begin()
    assert sorted(each.load.in_flight for each in fleet.candidates) == [10, 10]


async def test_a_rate_limited_upstream_gets_no_turns_until_its_reset() -> None:
    fleet = uniform(2)
    asked = await run(fleet.begin_turn(), limited(retry_after="5"), None)
    parked = next(each for each in fleet.candidates if each.upstream == asked[0])
    for _ in range(10):
        assert await run(fleet.begin_turn(), None) == [asked[1]]
    fleet.clock.now += 5
    assert parked.find_state(fleet.clock.now) == "available"


async def test_if_all_are_parked_nothing_is_sent_and_the_client_is_told_when() -> None:
    fleet = uniform(2)
    await run(fleet.begin_turn(), limited(retry_after="7"), limited(retry_after="4"))
    turn = fleet.begin_turn()
    with pytest.raises(UpstreamRateLimited) as raised:
        await turn.begin()
    assert raised.value.headers == {"retry-after": "4"}
    assert turn.attempt_count == 0
    assert turn.upstream is None


async def test_a_quota_is_named_as_such() -> None:
    fleet = uniform(1)
    quota = UpstreamRateLimited("no credit", status=429, code="insufficient_quota")
    await run(fleet.begin_turn(), quota)
    with pytest.raises(UpstreamRateLimited) as raised:
        await fleet.begin_turn().begin()
    assert (raised.value.code, raised.value.headers) == ("insufficient_quota", {"retry-after": "60"})


async def test_limits_without_retry_after_are_read_from_their_own_headers() -> None:
    fleet = uniform(2)
    error = limited()
    error.raw_headers = {b"x-ratelimit-reset-requests": b"6m0s"}
    await run(fleet.begin_turn(), error, None)
    assert sorted(fleet.states()) == ["available", "parked"]
    fleet.clock.now += 299
    assert sorted(fleet.states()) == ["available", "parked"]


async def test_refused_credentials_eject_at_once_for_the_longest_time() -> None:
    fleet = uniform(2, eject_max_s=60)
    await run(fleet.begin_turn(), NO_KEY, None)
    fleet.clock.now += 59
    assert sorted(fleet.states()) == ["available", "ejected"]
    fleet.clock.now += 2
    assert fleet.states() == ["available", "available"]


async def test_a_missing_model_ejects_too_unless_there_is_no_other() -> None:
    missing = UpstreamModelNotFound("no model", status=404)
    fleet = uniform(2)
    await run(fleet.begin_turn(), missing, None)
    assert "ejected" in fleet.states()
    alone = uniform(1)
    await run(alone.begin_turn(), missing)
    assert alone.states() == ["available"]


async def test_if_all_are_ejected_the_soonest_is_asked_all_the_same() -> None:
    fleet = Fleet((1, 0), (1, 0), (1, 1))
    now = fleet.clock.now
    for number, began in enumerate((now, now - 1, now - 2)):
        fleet.candidates[number].health.eject("failures", began)
    ends = {each.upstream: each.health.find_end(now) or 0 for each in fleet.candidates[:2]}
    assert await run(fleet.begin_turn(), None) == [min(ends, key=ends.__getitem__)]


async def test_parked_upstreams_are_not_asked_in_a_panic() -> None:
    fleet = uniform(2)
    fleet.candidates[0].health.eject("failures", fleet.clock.now)
    fleet.candidates[1].health.park("rate_limit_exceeded", 60, fleet.clock.now)
    assert await run(fleet.begin_turn(), None) == ["u0"]


async def test_an_ejected_upstream_is_asked_as_the_last_resort_for_a_repetition() -> None:
    fleet = uniform(2)
    turn = fleet.begin_turn()
    first = await turn.begin()
    other = next(each for each in fleet.candidates if each is not first)
    other.health.eject("failures", fleet.clock.now)
    assert await turn.move_on(UNREACHABLE)
    assert await turn.begin() is other


async def test_nobody_is_asked_twice_while_all_are_ejected() -> None:
    fleet = uniform(2, attempts=5)
    for each in fleet.candidates:
        each.health.eject("failures", fleet.clock.now)
    assert sorted(await run(fleet.begin_turn(), *[UNREACHABLE] * 5)) == ["u0", "u1"]


async def test_an_upstream_is_ejected_by_turns_that_only_it_could_serve() -> None:
    for name in ("keep_only", "exclude", "follow"):
        fleet = uniform(2, eject_failures=1)
        turn = fleet.begin_turn()
        if name == "exclude":
            turn.exclude(1)
        else:
            turn.keep_only([0])
        if name == "follow":
            turn = turn.follow()
        await run(turn, TIMEOUT)
        assert fleet.states() == ["ejected", "available"]


async def test_the_retry_budget_ends_a_turn() -> None:
    fleet = uniform(3, retries_per_s=0, retry_share=0)
    turn = fleet.begin_turn()
    assert len(await run(turn, TIMEOUT, None)) == 1
    assert turn.has_empty_budget
    free = fleet.begin_turn()
    assert len(await run(free, UNREACHABLE, UNREACHABLE, None)) == 3


async def test_the_first_reset_of_a_turn_is_free_and_the_second_is_not() -> None:
    fleet = uniform(4, retries_per_s=0, retry_share=0)
    turn = fleet.begin_turn()
    assert len(await run(turn, RESET, RESET, None)) == 2
    assert turn.has_empty_budget


async def test_the_first_reset_is_not_free_if_only_an_ejected_upstream_is_left() -> None:
    fleet = uniform(2, retries_per_s=0, retry_share=0)
    turn = fleet.begin_turn()
    first = await turn.begin()
    next(each for each in fleet.candidates if each is not first).health.eject("failures", fleet.clock.now)
    assert not await turn.move_on(RESET)


FAILURES: dict[str, tuple[list[Exception], int]] = {
    "the last": ([TIMEOUT, OVERLOADED], 1),
    "refused credentials do not hide it": ([TIMEOUT, NO_KEY], 0),
    "nor does a missing model": ([TIMEOUT, UpstreamModelNotFound("x", status=404)], 0),
    "nor a forbidden one": ([TIMEOUT, UpstreamUnauthorized("x", status=403)], 0),
    "nor a rate limit": ([TIMEOUT, limited()], 0),
    "a later one hides them": ([NO_KEY, TIMEOUT], 1),
    "the last of them": ([NO_KEY, limited()], 1),
    "a judgement": ([TIMEOUT, BAD_REQUEST], 1),
}


@pytest.mark.parametrize(("errors", "shown"), FAILURES.values(), ids=FAILURES)
async def test_the_client_is_shown_the_failure_that_says_most(errors: list[Exception], shown: int) -> None:
    turn = uniform(2, attempts=2).begin_turn()
    await run(turn, *errors)
    assert turn.find_failure(errors[-1]) is errors[shown]


async def test_the_client_is_told_the_least_delay_of_all_limits() -> None:
    turn = uniform(2, attempts=2).begin_turn()
    errors = limited(retry_after="9"), limited(retry_after="30")
    await run(turn, *errors)
    assert turn.find_failure(errors[1]) is errors[1]
    assert errors[1].headers == {"retry-after": "9"}


async def test_the_client_of_an_overloaded_upstream_is_told_its_delay_or_one_second() -> None:
    for headers, told in (
        ({}, {"retry-after": "1"}),
        ({"retry-after": "2.5"}, {"retry-after": "3"}),
        ({"retry-after-ms": "2500"}, {"retry-after": "3", "retry-after-ms": "2500"}),
    ):
        turn = uniform(1, wait_s=0).begin_turn()
        error = UpstreamOverloaded("busy", status=503, headers=headers)
        await run(turn, error)
        assert isinstance(shown := turn.find_failure(error), UpstreamOverloaded)
        assert shown.headers == told


async def test_the_next_judge_is_asked_if_that_is_configured() -> None:
    too_long = ContextLengthExceeded("too long", status=400)
    plain, configured = uniform(2), uniform(2, fallback_on=("context_length_exceeded",))
    assert len(await run(plain.begin_turn(), too_long, None)) == 1
    assert len(await run(configured.begin_turn(), too_long, None)) == 2
    turn = configured.begin_turn()
    await turn.begin()
    assert not await turn.move_on(too_long, lambda other, failed: False)
    filtered = UpstreamRejected("no", status=400, code="content_filter")
    assert len(await run(configured.begin_turn(), filtered, None)) == 1
    assert len(await run(uniform(2, fallback_on=("content_filter",)).begin_turn(), filtered, None)) == 2


async def test_a_judgement_is_never_asked_for_twice_of_the_same_upstream() -> None:
    too_long = ContextLengthExceeded("too long", status=400)
    assert len(await run(uniform(1, fallback_on=("context_length_exceeded",)).begin_turn(), too_long, None)) == 1


async def test_the_time_of_a_turn_ends_its_attempts() -> None:
    fleet = uniform(3, total_s=5)
    turn = fleet.begin_turn()
    assert turn.deadline is None
    await turn.begin()
    assert turn.deadline == fleet.clock.now + 5
    assert str(turn.build_timeout()) == "the upstream sent no content in time"
    fleet.clock.now += 6
    assert not await turn.move_on(UNREACHABLE)
    assert str(turn.build_timeout()) == "the turn took longer than 5 s"


async def test_a_timer_that_fires_a_little_early_ends_the_turn_too() -> None:
    fleet = uniform(3, total_s=5)
    turn = fleet.begin_turn()
    await turn.begin()
    fleet.clock.now += 4.9995
    assert not await turn.move_on(UNREACHABLE)


async def test_a_client_that_leaves_says_nothing_about_the_upstream() -> None:
    fleet = uniform(2, eject_failures=1)
    turn = fleet.begin_turn()
    await turn.begin()
    turn.leave()
    turn.leave()
    assert fleet.states() == ["available", "available"]
    assert [tried.result for tried in turn.tried] == ["client_gone"]
    assert sum(each.load.in_flight for each in fleet.candidates) == 0


async def test_a_failure_after_content_counts_against_the_upstream() -> None:
    fleet = uniform(2, eject_failures=1)
    turn = fleet.begin_turn()
    await turn.begin()
    turn.observe_content()
    turn.cut()
    assert "ejected" in fleet.states()
    assert turn.tried[0].result == "cut"


async def test_the_first_content_of_a_trial_restores_the_upstream() -> None:
    fleet = uniform(2)
    ejected = fleet.candidates[0]
    ejected.health.eject("failures", fleet.clock.now)
    fleet.clock.now += 6
    turn = fleet.begin_turn(preferred="u0")
    assert await turn.begin() is ejected
    assert fleet.states() == ["trial", "available"]
    turn.observe_content()
    turn.observe_content()
    assert fleet.states() == ["available", "available"]
    assert ejected.content_times.average == 0


async def test_a_failed_trial_moves_on_like_any_attempt() -> None:
    fleet = uniform(2)
    fleet.candidates[0].health.eject("failures", fleet.clock.now)
    fleet.clock.now += 6
    assert await run(fleet.begin_turn(preferred="u0"), UNREACHABLE, None) == ["u0", "u1"]
    assert fleet.states() == ["ejected", "available"]


async def test_an_attempt_that_is_taken_back_is_not_counted() -> None:
    fleet = uniform(2)
    turn = fleet.begin_turn()
    first = await turn.begin()
    turn.cancel()
    turn.exclude(first.index)
    second = await turn.begin()
    assert second is not first
    assert turn.attempt_count == 1
    assert first.load.in_flight == 0


async def test_full_upstreams_make_turns_wait_in_their_order() -> None:
    fleet = uniform(2, limits=(1, 1))
    holders = [fleet.begin_turn() for _ in range(2)]
    for holder in holders:
        await holder.begin()
    waiting = [fleet.begin_turn() for _ in range(3)]
    tasks = [asyncio.ensure_future(turn.begin()) for turn in waiting]
    queue = fleet.sharing.state.waiting
    await wait_until(lambda: len(queue) == 3)
    holders[0].succeed()
    first = await tasks[0]
    assert len(queue) == 2
    assert first.load.in_flight == 1
    waiting[0].succeed()
    await tasks[1]
    waiting[1].succeed()
    await tasks[2]
    waiting[2].succeed()
    holders[1].succeed()
    assert [each.load.in_flight for each in fleet.candidates] == [0, 0]


async def test_a_turn_that_leaves_the_queue_is_not_served() -> None:
    fleet = uniform(1, limits=(1,))
    holder, waiting, last = (fleet.begin_turn() for _ in range(3))
    await holder.begin()
    task, last_task = asyncio.ensure_future(waiting.begin()), asyncio.ensure_future(last.begin())
    await wait_until(lambda: len(fleet.sharing.state.waiting) == 2)
    task.cancel()
    await asyncio.wait([task])
    holder.succeed()
    await last_task
    assert waiting.attempt_count == 0
    last.succeed()
    assert fleet.candidates[0].load.in_flight == 0


async def test_a_slot_that_was_granted_to_a_client_that_just_left_is_freed() -> None:
    fleet = uniform(1, limits=(1,))
    holder, waiting = fleet.begin_turn(), fleet.begin_turn()
    await holder.begin()
    task = asyncio.ensure_future(waiting.begin())
    await wait_until(lambda: len(fleet.sharing.state.waiting) == 1)
    holder.succeed()
    task.cancel()
    await asyncio.wait([task])
    assert fleet.candidates[0].load.in_flight == 0


async def test_the_queue_has_an_end_in_time_and_in_length() -> None:
    for routing in ({"queue_s": 0}, {"queue_length": 0}):
        fleet = uniform(1, limits=(1,), **routing)
        await fleet.begin_turn().begin()
        turn = fleet.begin_turn()
        with pytest.raises(UpstreamOverloaded) as raised:
            await turn.begin()
        assert raised.value.headers == {"retry-after": "1"}
        assert turn.attempt_count == 0


async def test_a_higher_tier_with_a_free_slot_is_taken_at_once() -> None:
    fleet = Fleet((1, 0), (1, 1), limits=(1, None))
    await fleet.begin_turn().begin()
    assert (await fleet.begin_turn().begin()).upstream == "u1"


async def test_a_repetition_waits_for_a_full_upstream() -> None:
    fleet = uniform(2, limits=(1, 1))
    first, second = fleet.begin_turn(), fleet.begin_turn()
    await first.begin()
    other = await second.begin()
    assert await first.move_on(UNREACHABLE)
    task = asyncio.ensure_future(first.begin())
    await wait_until(lambda: len(fleet.sharing.state.waiting) == 1)
    second.succeed()
    assert await task is other


async def test_a_repetition_that_cannot_begin_shows_the_failure_before() -> None:
    fleet = uniform(2, limits=(1, 1), queue_s=0.01)
    first, second = fleet.begin_turn(), fleet.begin_turn()
    await first.begin()
    await second.begin()
    assert await first.move_on(TIMEOUT)
    with pytest.raises(ProviderError) as raised:
        await first.begin()
    assert raised.value is TIMEOUT


async def test_a_repetition_waits_for_a_full_upstream_no_longer_than_the_turn_may_take() -> None:
    fleet = uniform(2, limits=(1, 1), queue_s=60, total_s=0.05)
    first, second = fleet.begin_turn(), fleet.begin_turn()
    await first.begin()
    await second.begin()
    assert await first.move_on(TIMEOUT)
    with pytest.raises(ProviderError) as raised:
        async with asyncio.timeout(60):
            await first.begin()
    assert raised.value is TIMEOUT


async def test_a_name_with_one_provider_only_waits_for_its_limit() -> None:
    fleet = uniform(1, limits=(1,))
    fleet.sharing = fleet.sharing._replace(repeats=False)
    assert await run(fleet.begin_turn(), UNREACHABLE, None) == ["u0"]


async def test_two_names_take_turns_at_one_provider() -> None:
    fleet = uniform(1, limits=(1,))
    other = fleet.sharing._replace(name="n", state=fleet.registry.find_name("n"))
    holder = fleet.begin_turn()
    await holder.begin()
    turns = [fleet.begin_turn() for _ in range(2)]
    turns.append(SharedTurn(other, prepare_candidates(fleet.candidates), clock=fleet.clock, rng=fleet.rng))
    order: list[int] = []

    async def take(number: int) -> None:
        await turns[number].begin()
        order.append(number)
        turns[number].succeed()

    tasks = [asyncio.ensure_future(take(number)) for number in range(3)]
    await wait_until(lambda: len(fleet.sharing.state.waiting) + len(other.state.waiting) == 3)
    holder.succeed()
    await asyncio.gather(*tasks)
    assert order == [0, 2, 1]


async def test_a_larger_limit_of_a_reload_lets_turns_begin() -> None:
    from gateway.config.settings import parse_settings

    fleet = uniform(1, limits=(1,))
    await fleet.begin_turn().begin()
    waiting = fleet.begin_turn()
    task = asyncio.ensure_future(waiting.begin())
    await wait_until(lambda: len(fleet.sharing.state.waiting) == 1)
    providers = {"u0": {"type": "scripted", "max_in_flight": 2}}
    fleet.registry.use_settings(parse_settings({"providers": providers}, environ={}))
    await task
    assert fleet.candidates[0].load.in_flight == 2
