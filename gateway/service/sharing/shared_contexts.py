"""Requests about a context, such as token counts, of names with several upstreams: any of them may serve them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.errors import NotFound
from gateway.logs import bind_fields
from gateway.planning.admitted_request import AdmittedRequest
from gateway.replies.attempted_reply import ATTEMPT_FAILURES
from gateway.upstreams.shared_turn import SharedTurn
from translation.errors import InvalidRequest

_ResultT = TypeVar("_ResultT")

_REFUSALS = (InvalidRequest, NotFound)


async def ask_targets(
    request: AdmittedRequest, ask: Callable[[AdmittedRequest], Awaitable[_ResultT]], *, judges: bool
) -> _ResultT:
    """Returns the result of the first target that can serve a request and does not fail.

    `ask` gets the request for one target. `judges` says whether the outcomes count for the health of upstreams. Raises
    the refusal of the first target if all refuse, and otherwise what the last failure of an upstream is.
    """
    route = request.route
    if route.sharing is None:
        bind_fields(attempts=1)
        return await ask(request)
    turn = SharedTurn(route.sharing, route.candidates, judges=judges)
    refusals: dict[int, Exception] = {}
    while turn.candidates or not refusals:
        candidate = await turn.begin()
        bind_fields(provider=candidate.upstream, attempts=turn.attempt_count)
        try:
            result = await ask(request.with_target(route.find_target(candidate.index)))
        except _REFUSALS as refusal:
            turn.cancel()
            turn.exclude(candidate.index)
            refusals[candidate.index] = refusal
        except ATTEMPT_FAILURES as error:
            if not await turn.move_on(error):
                raise turn.find_failure(error) from error.__cause__
        except BaseException:
            turn.leave()
            raise
        else:
            turn.succeed()
            return result
    raise refusals[min(refusals)]
