"""The rounds of a reply whose tools the gateway runs: each is a turn with attempts of its own.

Tools are not run again when another upstream takes over: it gets the whole history with the calls and their results.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from dataplane.source import Sink, Source
from gateway.errors import TurnFailed
from gateway.planning.plan import RelayPlan, TranslationPlan
from gateway.planning.resolver import Route, Target
from gateway.replies.attempted_reply import ATTEMPT_FAILURES, WatchedSource, find_content_deadline
from gateway.replies.observers import RequestObserver
from gateway.replies.reply_streams import batch_has_content, batch_is_filtered
from gateway.sealing.reply_seal import ReplyItemSeal, has_upstream_content
from gateway.tools.loop_io import MakeRound, RoundMaker
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.outcomes import build_filter_failure
from gateway.upstreams.shared_turn import SharedTurn
from providers.base import Batch, Exchange, as_batch_source
from translation.errors import InvalidRequest, ProtocolViolation, Unrepresentable
from translation.representation.events import Event, Failed, Finished
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.turn import Turn


class PlannedAttempt(Protocol):
    """A plan for one target, and how its reply is presented."""

    @property
    def target(self) -> Target: ...

    @property
    def plan(self) -> RelayPlan | TranslationPlan: ...

    @property
    def item_seal(self) -> ItemSeal | None: ...


class SharedRounds:
    """The rounds of one reply. The first is the turn that the reply was planned with."""

    def __init__(
        self,
        route: Route,
        turn: SharedTurn,
        attempt: PlannedAttempt,
        plan_target: Callable[[Target], Awaitable[PlannedAttempt]],
        observer: RequestObserver,
        *,
        holds_all: bool,
    ) -> None:
        """`attempt` is the plan of the reply. `plan_target` makes another one, whose upstream takes over a round. With
        `holds_all` nothing of a round is delivered before its end, so that it may be repeated until then."""
        self.turns: Final = [turn]
        self.holds_all: Final = holds_all
        self._route = route
        self._attempt = attempt
        self._plan_target = plan_target
        self._observer = observer
        self._others: dict[int, TranslationPlan] = {}
        """The plans for other targets, by the indexes of their candidates."""
        self._last: Target | None = None
        """The target of the last round that has begun."""
        self._planned_losses: Sequence[Loss] = tuple(attempt.plan.losses)
        self._answered: set[int] = set()
        """The indexes of the candidates that have answered a round."""

    @property
    def attempt_count(self) -> int:
        return sum(turn.attempt_count for turn in self.turns)

    @property
    def upstream(self) -> str | None:
        """The upstream that was asked last; None if none was."""
        return next((turn.upstream for turn in reversed(self.turns) if turn.upstream is not None), None)

    def describe(self) -> dict[str, object]:
        """Returns the fields of the log line, for all rounds together."""
        fields = self.turns[0].describe()
        if len(self.turns) == 1:
            return fields
        fields |= {"attempts": self.attempt_count, "provider": self.upstream}
        fields["tried"] = [tried.describe() for turn in self.turns for tried in turn.tried]
        if queue_s := sum(turn.queue_s for turn in self.turns):
            fields["queue_ms"] = round(queue_s * 1000, 1)
        if any(turn.has_empty_budget for turn in self.turns):
            fields["retry_budget"] = "empty"
        if limit := self.turns[-1].limit:
            fields["limit"] = limit
        return fields

    def share_round(self, turn: Turn, make_round: MakeRound) -> Exchange:
        """Returns the exchange of the next round. `make_round` makes it for the target of the reply's plan."""
        shared = self.turns[-1]
        if self._last is not None:
            shared = shared.follow()
            if (readers := self._find_readers(turn.items)) is not None:
                shared.keep_only(readers)
            self.turns.append(shared)
        return SharedRound(self, shared, turn, make_round)

    async def make_round(self, candidate: Candidate, turn: Turn, make_round: MakeRound) -> Exchange:
        """Returns the exchange of a round for one of the targets. Raises InvalidRequest if it cannot take the round."""
        target = self._route.find_target(candidate.index)
        if target.candidate is not self._attempt_candidate:
            make_round = (await self._find_loop(candidate.index, target)).make_round_of
        exchange = await make_round(turn)
        seal = self._attempt.item_seal
        if target.reasoning_seal is not None and isinstance(seal, ReplyItemSeal):
            seal.use_seal(target.reasoning_seal)
        self._last = target
        self._observer.observe_attempt(candidate.upstream, self.attempt_count, target.upstream_model)
        return exchange

    @property
    def _attempt_candidate(self) -> Candidate | None:
        return self._attempt.target.candidate

    async def _find_loop(self, index: int, target: Target) -> RoundMaker:
        plan = self._others.get(index)
        if plan is None:
            made = (await self._plan_target(target)).plan
            if not isinstance(made, TranslationPlan) or not isinstance(made.exchange, RoundMaker):
                raise Unrepresentable("this upstream runs the tools itself", param="tools")
            plan = self._others[index] = made
        if not isinstance(plan.exchange, RoundMaker):
            raise TypeError("only loops are kept")
        return plan.exchange

    def note_answer(self, candidate: Candidate) -> None:
        """Adds the losses of an upstream that has answered. Losses of upstreams that never answered are not
        reported."""
        if candidate.index in self._answered:
            return
        losses = self._attempt.plan.losses
        plan = self._others.get(candidate.index)
        if plan is not None:
            if not self._answered:
                del losses[: len(self._planned_losses)]
                losses[:0] = plan.losses
            else:
                losses += [loss for loss in plan.losses if loss not in losses]
        elif self._answered:
            losses += [loss for loss in self._planned_losses if loss not in losses]
        self._answered.add(candidate.index)

    def has_larger_window(self, other: Candidate, failed: Candidate) -> bool:
        """Whether the context of another candidate is larger than that of the one that failed, or may be."""
        return self._route.has_larger_window(other.index, failed.index)

    def _find_readers(self, items: Sequence[Item]) -> Collection[int] | None:
        """Returns the indexes of the candidates that can read the newest reasoning, if it can only be read by its
        maker; None if every candidate can serve the round. Reasoning of an earlier round of this reply is not sealed
        yet."""
        seal = self._route.target.reasoning_seal
        for item in reversed(items):
            maker: tuple[str, str] | None = None
            if has_upstream_content(item) and self._last is not None:
                maker = self._last.provider.name, self._last.upstream_model
            elif seal is not None:
                maker = seal.find_maker([item])
            if maker is not None:
                return self._route.find_readers(*maker) or None
        return None


class SharedRound(WatchedSource[Batch]):
    """One round: the batches of its first attempt with content."""

    losses: Sequence[Loss] = ()

    def __init__(self, rounds: SharedRounds, shared: SharedTurn, turn: Turn, make_round: MakeRound) -> None:
        self._rounds = rounds
        self._shared = shared
        self._turn = turn
        self._make_round = make_round
        self._source: Source[Batch] | None = None
        self._held: list[Event] = []
        """The events that were read to find out whether the attempt fails."""
        self._last_event: Event | None = None

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()

    @property
    def ended(self) -> bool:
        return not self._held and self._source is not None and self._source.ended

    async def open(self) -> None:
        shared = self._shared
        while True:
            self._held = []
            self._source = source = await self._begin()
            try:
                async with asyncio.timeout_at(self._find_end_of_attempt()):
                    await source.open()
                    await self._read_ahead(source)
                candidate = None if shared.attempt is None else shared.attempt.candidate
                if not (batch_is_filtered(self._held) and await self._move_on_filtered()):
                    if candidate is not None:
                        self._rounds.note_answer(candidate)
                    return
                self._source = None
                await source.close()
                continue
            except ATTEMPT_FAILURES as failure:
                error: Exception = failure
            except TimeoutError:
                error = shared.build_timeout()
            self._source = None
            await source.close()
            if not await shared.move_on(error, self._rounds.has_larger_window):
                raise shared.find_failure(error) from error.__cause__

    async def _move_on_filtered(self) -> bool:
        """Ends the attempt, which a content filter ended before content. Returns whether another one may begin."""
        shared = self._shared
        return shared.leaves_filtered and await shared.move_on(build_filter_failure(), self._rounds.has_larger_window)

    async def _begin(self) -> Source[Batch]:
        """Begins the next attempt. Returns its source, which is not open yet."""
        shared = self._shared
        while True:
            candidate = await shared.begin()
            try:
                return as_batch_source(await self._rounds.make_round(candidate, self._turn, self._make_round))
            except InvalidRequest:
                shared.cancel()
                shared.exclude(candidate.index)
                if not shared.candidates:
                    raise
            except BaseException:
                shared.cancel()
                raise

    def _find_end_of_attempt(self) -> float | None:
        """Returns when the attempt must have content, or with `holds_all` must be complete, if it must."""
        first_s = None if self._rounds.holds_all else self._shared.routing.first_content_s
        return find_content_deadline(first_s, self._shared.deadline)

    async def _read_ahead(self, source: Source[Batch]) -> None:
        """Reads until the attempt may no longer be repeated."""
        has_content = False
        while not source.ended:
            if batch := source.take():
                self._held += batch
                self._last_event = batch[-1]
                if isinstance(batch[-1], Failed):
                    raise TurnFailed(batch[-1])
                if not has_content and batch_has_content(batch):
                    has_content = True
                    self._shared.observe_content()
                if has_content and not self._rounds.holds_all:
                    break
            elif not source.ended:
                await source.wait_for_read()
        if not has_content or (self._rounds.holds_all and not isinstance(self._last_event, Finished)):
            raise ProtocolViolation("the upstream's reply ended without a terminal event")

    def _take_piece(self) -> Batch:
        source = self._opened_source
        if self._held:
            batch: Batch = self._held
            self._held = []
        else:
            batch = source.take()
        if batch:
            self._last_event = batch[-1]
        self.delta_run, self.is_draining = source.delta_run, source.is_draining
        return batch

    def _take_pushed(self, read: bytes) -> Batch:
        source = self._opened_source
        if batch := source.take_read(read):
            self._last_event = batch[-1]
        self.delta_run, self.is_draining = source.delta_run, source.is_draining
        return batch

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._bound_wait(self._opened_source.wait_for_read(sink), self._shared.deadline)

    async def close(self, *, whole: bool = False) -> None:
        source, self._source = self._source, None
        try:
            if source is not None:
                await source.close(whole=whole)
        finally:
            if self._has_failed or isinstance(self._last_event, Failed):
                self._shared.cut()
            elif isinstance(self._last_event, Finished):
                self._shared.succeed()
            else:
                self._shared.leave()

    @property
    def _opened_source(self) -> Source[Batch]:
        if self._source is None:
            raise RuntimeError("the round is not open")
        return self._source
