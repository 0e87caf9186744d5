"""The rounds of a reply with hosted tools are the same bytes by template and decoded, and so is the next input."""

from collections.abc import AsyncGenerator, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import pytest

from dataplane.source import Sink, Source
from dataplane.stepped_source import SteppedSource
from gateway.planning.prepare_turn import MappedExchange
from gateway.replies.reply_streams import TranslatedReply
from gateway.tools.loop_exchange import make_round_source
from providers.base import Batch
from providers.http.dialects import SSE
from providers.http.exchange import ExchangeRequest, HttpExchange
from providers.http.upstream import Upstream
from tests.tool_rounds import hosted_tool
from tests.unit.gateway.replies.test_reply_streams_ways import AGENT_STREAMS, HEAD, STREAMS, Server, normalizer
from tests.unit.support.translator_drivers import conclude, counting_ids
from translation.chat.upstream.decode import ChatDecoder
from translation.hosted.bounds import LoopBounds
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.past_hosted_calls import ApprovedCalls
from translation.hosted.tools import ToolCatalogue
from translation.representation.turn import Turn
from translation.responses.client.encode import ResponsesEncoder

ANSWER, ANSWER_SHORT = STREAMS["one by one"]
LISTED = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "calc", "tools": []}


class WaitingServer(Server):
    async def wait_for_read(self, sink: Sink | None = None) -> None:
        """Everything has arrived."""


class Outcome(NamedTuple):
    frames: bytes
    result: Any
    inputs: list[Sequence[Any]]
    """The items of each round's turn."""
    short: int
    """The number of reads that used the template."""


async def reply_to(rounds: Sequence[list[bytes]], *, fast: bool) -> Outcome:
    numbers = count(1)
    catalogue = ToolCatalogue.build([hosted_tool()])
    turn = Turn(model="m", items=[])
    loop = ToolLoop(turn, catalogue, ApprovedCalls(), LoopBounds(), lambda prefix: f"{prefix}_{next(numbers)}")
    inputs: list[Sequence[Any]] = []
    servers: list[Server] = []

    async def steps() -> AsyncGenerator[Batch | Source[Batch], None]:
        yield [*loop.start(), *loop.emit_item(LISTED, started=LISTED, phases=("in_progress", "completed"))]
        for reads in rounds:
            turn = loop.build_next_turn()
            assert turn is not None
            inputs.append(turn.items)
            servers.append(WaitingServer(list(reads)))
            decoder = ChatDecoder(counting_ids())
            exchange = HttpExchange(
                cast("Upstream", servers[-1]), ExchangeRequest("/x", {}, (), stream=True), decoder, SSE
            )
            yield make_round_source(loop, MappedExchange(exchange, normalizer()))
            assert loop.has_ended_round
        assert loop.build_next_turn() is None
        yield loop.build_end_events()

    wire = TranslatedReply(_Exchange(steps()), None, ResponsesEncoder(HEAD, lambda: 105))
    frames, short = [], 0
    await wire.open()
    while not wire.ended:
        reads = servers[-1].reads if servers and fast else []
        if len(reads) > 1 and wire.template is not None and (made := wire.template.encode_read(reads[0])) is not None:
            reads.pop(0)
            frames.append(made)
            short += 1
        elif piece := wire.take():
            frames.append(piece)
        elif not wire.ended:
            await wire.wait_for_read()
    frames.append(conclude(wire))
    await wire.close()
    return Outcome(b"".join(frames), wire.result(), inputs, short)


class _Exchange(SteppedSource[Batch]):
    losses = ()

    def __init__(self, steps: AsyncGenerator[Batch | Source[Batch], None]) -> None:
        super().__init__(steps, ())

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()


@pytest.mark.parametrize(("reads", "short"), AGENT_STREAMS.values(), ids=AGENT_STREAMS)
async def test_a_round_with_a_call_and_its_answer_is_the_same_on_every_way(reads: list[bytes], short: int) -> None:
    has_call = b"tool_calls" in b"".join(reads)
    rounds = [reads, ANSWER] if has_call else [reads]
    fast, slow = [await reply_to(rounds, fast=fast) for fast in (True, False)]
    assert fast.frames == slow.frames
    assert fast.result == slow.result
    assert fast.inputs == slow.inputs, "the model reads what was sent by template too"
    assert (fast.short, slow.short) == (_own_short(reads, short) + (ANSWER_SHORT if has_call else 0), 0)


def _own_short(reads: list[bytes], short: int) -> int:
    """Returns how many reads of the round use the template: as many as without the loop, except arguments of calls."""
    return sum(b'"content"' in read for read in reads[2:]) if b"tool_calls" in b"".join(reads) else short
