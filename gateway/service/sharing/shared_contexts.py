"""Serves requests about a context, such as token counts, for names with several upstreams. Any of the upstreams may
serve them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.errors import NotFound
from gateway.logs import bind_fields
from gateway.planning.admitted_request import AdmittedRequest
from gateway.replies.attempted_reply import ATTEMPT_FAILURES
from gateway.replies.observers import NO_REPLY, Observer
from gateway.upstreams.shared_turn import SharedTurn
from providers.errors import ProviderError
from translation.errors import InvalidRequest

_ResultT = TypeVar("_ResultT")

_REFUSALS = (InvalidRequest, NotFound)


async def ask_targets(
    request: AdmittedRequest,
    observer: Observer,
    ask: Callable[[AdmittedRequest], Awaitable[_ResultT]],
    *,
    judges: bool,
) -> _ResultT:
    """Returns the result of the first target that can serve a request and does not fail.

    `ask` gets the request for one target. `judges` says whether the outcomes change the health of upstreams. Raises the
    refusal of the first target if all refuse, and otherwise the last failure of an upstream.
    """
    route = request.route
    watcher = observer.observe_request(
        request.endpoint.name, route.pattern, streams=False, is_shared=route.sharing is not None
    )
    if route.sharing is None:
        watcher.observe_attempt(request.target.provider.name, 1, request.target.upstream_model)
        try:
            return await ask(request)
        finally:
            watcher.observe_end(NO_REPLY)
    turn = SharedTurn(route.sharing, route.candidates, judges=judges)
    turn.report_result = watcher.observe_result
    refusals: dict[int, Exception] = {}
    while turn.candidates or not refusals:
        try:
            candidate = await turn.begin()
        except ProviderError:
            bind_fields(**turn.describe())  # the turn may have waited, and a limit may have refused it
            raise
        target = route.find_target(candidate.index)
        watcher.observe_attempt(candidate.upstream, turn.attempt_count, target.upstream_model)
        try:
            async with turn.bound_attempt():
                result = await ask(request.with_target(target))
        except _REFUSALS as refusal:
            turn.cancel()
            turn.exclude(candidate.index)
            refusals[candidate.index] = refusal
        except ATTEMPT_FAILURES as error:
            moves = await turn.move_on(error)
            bind_fields(**turn.describe())
            if not moves:
                raise turn.find_failure(error) from error.__cause__
        except BaseException:
            turn.leave()
            raise
        else:
            turn.succeed()
            bind_fields(**turn.describe())
            return result
        finally:
            watcher.observe_end(NO_REPLY)
    raise refusals[min(refusals)]
