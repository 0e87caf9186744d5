"""The three ways of a delta give the same bytes, for every split of the upstream's bytes."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.source import Sink, Source
from gateway.replies.reply_streams import RelayedReply, TranslatedReply
from providers.base import Batch
from providers.http.dialects import RELAY_DIALECTS, SSE
from providers.http.exchange import ExchangeRequest, HttpExchange
from providers.http.relay import HttpRelay
from providers.http.upstream import Upstream
from tests.unit.support.chat_chunks import chunk, text_chunk
from tests.unit.support.translator_drivers import conclude, counting_ids
from translation.chat.client.encode import ChatEncoder
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.upstream.decode import ChatDecoder
from translation.framing import sse
from translation.hygiene.reply import ReplyNormalizer
from translation.messages.client.encode import MessagesEncoder
from translation.representation.delta_runs import EventStage, TextKey
from translation.representation.json_types import Item, Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.tools.tool_rewriting import rewrite_tools

TOOL = {"type": "custom", "name": "f", "description": "Runs a script."}

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
ROLE, STOP = chunk({"role": "assistant", "content": ""}), chunk(finish="stop")


class Server(Source[bytes]):
    """An upstream whose reply is these reads; the upstream's reply too."""

    max_frame_bytes = 1000
    content_type = "text/event-stream"
    ended = False

    def __init__(self, reads: Iterable[bytes]) -> None:
        self.reads = list(reads)

    async def post(self, *_: Any, **__: Any) -> "Server":
        return self

    def redact(self, message: str) -> str:
        return message

    def make_redactor(self, _body: Json) -> Callable[[str], str]:
        return self.redact

    def take(self) -> bytes:
        read = self.reads.pop(0)
        self.ended = not self.reads
        return read

    def take_read(self, read: bytes) -> bytes:
        return read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        raise AssertionError("everything has come")

    async def close(self, *, whole: bool = False) -> None:
        """Has nothing to close."""


class Watching:
    """A stage that changes nothing and wants every event fed."""

    def feed(self, batch: Batch, /) -> Batch:
        return batch

    def delta_observers(self, _text_key: TextKey, /) -> None:
        return None


def normalizer(tools: Sequence[Json] = (), **profile: Any) -> ReplyNormalizer:
    """The normalizer of replies to a request with tools."""
    return ReplyNormalizer(Turn(model="m", items=[], tools=list(tools)), Profile(**profile), counting_ids())


def make_reply(
    server: Server, encoder: Any = None, calls: EventStage | None = None, profile: Profile = DEFAULT_PROFILE
) -> TranslatedReply:
    decoder = ChatDecoder(counting_ids(), profile)
    exchange = HttpExchange(cast("Upstream", server), ExchangeRequest("/x", {}, (), stream=True), decoder, SSE)
    return TranslatedReply(exchange, calls, encoder or ResponsesEncoder(HEAD, lambda: 105))


async def collect_frames(
    server: Server, wire: TranslatedReply | RelayedReply, *, by_template: bool
) -> tuple[bytes, int]:
    """Returns all frames of a stream, and how many reads used the fast path."""
    frames, fast_reads = [], 0
    await wire.open()
    while not wire.ended:
        offered = server.reads[0] if by_template and len(server.reads) > 1 else None
        if (
            offered is not None
            and wire.template is not None
            and (made := wire.template.encode_read(offered)) is not None
        ):
            server.reads.pop(0)
            frames.append(made)
            fast_reads += 1
        else:
            frames.append(wire.take())
    return b"".join(frames) + conclude(wire), fast_reads


def reads_of(chunks: Iterable[Json], frames_per_read: int) -> list[bytes]:
    frames = [*(sse.encode_data(orjson.dumps(each)) for each in chunks), sse.DONE_FRAME]
    return [b"".join(frames[at : at + frames_per_read]) for at in range(0, len(frames), frames_per_read)]


def arguments(text: str, index: int = 0) -> Json:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


def call(name: str, index: int = 0) -> Json:
    function = {"name": name, "arguments": ""}
    return chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]})


def thought(text: str) -> Json:
    return chunk({"reasoning": text})


CALLED = chunk(finish="tool_calls")
REASONING = thought("r")
B = sse.encode_data(orjson.dumps(text_chunk("b")))
STREAMS: dict[str, tuple[list[bytes], int]] = {
    "one by one": (reads_of([ROLE, text_chunk("a"), text_chunk('"b\\ü'), text_chunk("c"), STOP], 1), 2),
    "several in a read": (reads_of([ROLE, text_chunk("a"), *[text_chunk("b")] * 6, STOP], 2), 3),
    "empty ones": (reads_of([ROLE, text_chunk("a"), text_chunk(""), text_chunk("b"), STOP], 1), 2),
    "cut in two": ([*reads_of([ROLE, text_chunk("a")], 1)[:2], B[:-9], B[-9:], *reads_of([STOP], 1)], 0),
    "nothing in between": ([*reads_of([ROLE, text_chunk("a")], 1)[:2], b"", B, *reads_of([STOP], 1)], 1),
    "another kind in between": (
        reads_of([ROLE, text_chunk("a"), text_chunk("b"), REASONING, text_chunk("c"), text_chunk("d"), STOP], 1),
        2,
    ),
    "another kind and the first again in one read": (
        [
            *reads_of([ROLE, text_chunk("a"), text_chunk("b")], 1)[:3],
            *reads_of([REASONING, text_chunk("c"), text_chunk("d"), text_chunk("e")], 2)[:2],
            *reads_of([text_chunk("f"), STOP], 1),
        ],
        3,
    ),
    "the end in the same read": (
        [*reads_of([ROLE, text_chunk("a")], 1)[:2], b"".join(reads_of([text_chunk("b"), STOP], 9))],
        0,
    ),
    "after half a frame": (
        [
            *reads_of([ROLE, text_chunk("a")], 1)[:2],
            b"data: ",
            reads_of([text_chunk("b")], 1)[0][6:],
            *reads_of([text_chunk("c"), STOP], 1),
        ],
        1,
    ),
    "after the end": ([*reads_of([ROLE, text_chunk("a")], 1), *reads_of([text_chunk("b"), STOP], 1)], 0),
}


AGENT_STREAMS: dict[str, tuple[list[bytes], int]] = {
    "arguments": (reads_of([ROLE, call("f"), *map(arguments, ['{"a":', ' "x', 'y"', "}"]), CALLED], 1), 3),
    "arguments after blanks": (reads_of([ROLE, call("f"), *map(arguments, [" ", '{"a":', " 1", "}"]), CALLED], 1), 2),
    "arguments in a fence": (reads_of([ROLE, call("f"), *map(arguments, ["```", "{}", "```"]), CALLED], 1), 0),
    "two calls": (
        reads_of(
            [
                ROLE,
                call("f"),
                arguments('{"a"'),
                arguments(":1}"),
                call("g", 1),
                arguments("{", 1),
                arguments("}", 1),
                CALLED,
            ],
            1,
        ),
        2,
    ),
    "calls in turns": (
        reads_of(
            [
                ROLE,
                call("f"),
                call("g", 1),
                arguments("{"),
                arguments("{", 1),
                arguments("}"),
                arguments("}", 1),
                CALLED,
            ],
            1,
        ),
        0,
    ),
    "text, then a call": (
        reads_of(
            [
                ROLE,
                text_chunk("a"),
                text_chunk("b"),
                call("f"),
                arguments("{"),
                arguments('"a"'),
                arguments(":1}"),
                CALLED,
            ],
            1,
        ),
        3,
    ),
    "reasoning": (reads_of([ROLE, *map(thought, ["a", "b", "c"]), text_chunk("d"), text_chunk("e"), STOP], 1), 3),
    "line breaks in reasoning": (
        reads_of(
            [ROLE, *map(thought, ["\n", "a", "b\n", "\nc", "d", "e\n", "\n"]), text_chunk("\n"), text_chunk("f"), STOP],
            1,
        ),
        5,
    ),
    "line breaks within a piece of reasoning": (
        reads_of([ROLE, *map(thought, ["a", "b\nc", "\nd", "e"]), text_chunk("f"), STOP], 1),
        3,
    ),
}


@pytest.mark.parametrize("frames_per_read", [1, 3, 99])
@pytest.mark.parametrize("stages", ["none", "normalizer", "mapper"])
@pytest.mark.parametrize("reads", [reads for reads, _ in AGENT_STREAMS.values()], ids=AGENT_STREAMS)
async def test_streams_of_agents_are_the_same_on_every_way(
    reads: list[bytes], stages: str, frames_per_read: int
) -> None:
    frames = [frame + b"\n\n" for frame in b"".join(reads).split(b"\n\n")[:-1]]
    cut = [b"".join(frames[at : at + frames_per_read]) for at in range(0, len(frames), frames_per_read)]
    outcomes = []
    for server, fast in ((Server(cut), True), (Server([b"".join(reads)]), False)):
        stage = None if stages == "none" else normalizer()
        if stages == "mapper":
            rewritten = rewrite_tools(
                Turn(model="m", items=[], tools=[TOOL]), kinds=frozenset({"function"}), hosted=frozenset()
            )
            stage = ReplyNormalizer(rewritten.turn, Profile(), counting_ids(), rewritten.call_mapper)
        wire = make_reply(server, calls=stage)
        outcomes.append(((await collect_frames(server, wire, by_template=fast))[0], wire.result()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("reads", "fast_reads"), AGENT_STREAMS.values(), ids=AGENT_STREAMS)
async def test_streams_of_agents_use_the_fast_path(reads: list[bytes], fast_reads: int) -> None:
    server = Server(reads)
    assert (await collect_frames(server, make_reply(server, calls=normalizer()), by_template=True))[1] == fast_reads


@pytest.mark.parametrize("part", ["reasoning_text", "summary_text"])
async def test_reasoning_uses_the_fast_path_in_both_forms(part: Literal["reasoning_text", "summary_text"]) -> None:
    reads, fast_reads = AGENT_STREAMS["reasoning"]
    profile = Profile(reasoning_part=part)
    outcomes = []
    for fast in (True, False):
        server = Server(list(reads))
        outcomes.append(await collect_frames(server, make_reply(server, profile=profile), by_template=fast))
    assert [taken for _, taken in outcomes] == [fast_reads, 0]
    assert outcomes[0][0] == outcomes[1][0]
    kind = {"reasoning_text": b"response.reasoning_text", "summary_text": b"response.reasoning_summary_text"}[part]
    assert outcomes[0][0].count(b"event: " + kind + b".delta") == fast_reads


@given(
    st.lists(st.tuples(st.sampled_from([text_chunk, thought, arguments]), st.text(max_size=4)), max_size=12),
    st.lists(st.integers(0, 3000)),
)
async def test_any_stream_of_an_agent_is_the_same_however_it_is_split(pieces: list[Any], cuts: list[int]) -> None:
    chunks = [ROLE, *(make(text) for make, text in pieces), call("f", 1), arguments("{}", 1), CALLED]
    (whole,) = reads_of([chunks[0], call("g"), *chunks[1:]], 99)
    ends = sorted({cut for cut in cuts if 0 < cut < len(whole)})
    ends = sorted({*ends, *(at + 2 for at in range(len(whole) - 2) if whole[at : at + 2] == b"\n\n" and at % 5)})
    cut = [whole[start:end] for start, end in pairwise([0, *ends, len(whole)]) if end > start]
    outcomes = []
    for server, fast in ((Server(cut), True), (Server([whole]), False)):
        wire = make_reply(server, calls=normalizer())
        outcomes.append(((await collect_frames(server, wire, by_template=fast))[0], wire.result()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("reads", "fast_reads"), STREAMS.values(), ids=STREAMS)
async def test_the_fast_path_sends_the_bytes_of_the_decoded_way(reads: list[bytes], fast_reads: int) -> None:
    servers = Server(reads), Server(reads)
    wires = [make_reply(server) for server in servers]
    frames, taken = await collect_frames(servers[0], wires[0], by_template=True)
    assert (frames, taken) == (*(await collect_frames(servers[1], wires[1], by_template=False))[:1], fast_reads)
    assert wires[0].result() == wires[1].result()


class EchoingSeal:
    """Seals an item as its own JSON, so that a text which the encoder has not stored would be missing."""

    def may_need_seal(self, _payload: bytes, /) -> bool:
        return True

    def seal_added_item(self, item: Item, /) -> Item:
        return item

    def seal_done_item(self, item: Item, /) -> Item:
        return {**item, "encrypted_content": orjson.dumps(item).decode()}


@pytest.mark.parametrize("thinking", ["text", "none"])
@pytest.mark.parametrize(
    "reads", [reads for reads, _ in (STREAMS | AGENT_STREAMS).values()], ids=STREAMS | AGENT_STREAMS
)
async def test_the_fast_path_sends_the_same_bytes_to_messages_clients(
    reads: list[bytes], thinking: Literal["text", "none"]
) -> None:
    outcomes = []
    for fast in (True, False):
        server = Server(list(reads))
        encoder = MessagesEncoder(message_id="msg_1", model="m", thinking=thinking, seal=EchoingSeal())
        outcomes.append(await collect_frames(server, make_reply(server, encoder, normalizer()), by_template=fast))
    assert outcomes[0][0] == outcomes[1][0]


async def test_messages_clients_get_text_by_the_fast_path() -> None:
    reads, fast_reads = STREAMS["one by one"]
    server = Server(list(reads))
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    assert (await collect_frames(server, make_reply(server, encoder), by_template=True))[1] == fast_reads


@pytest.mark.parametrize(
    # A brace alone does not tell whether arguments are an object: it waits for the next piece, which is decoded.
    ("name", "undecided"),
    [("arguments", 0), ("two calls", 1), ("calls in turns", 0), ("text, then a call", 1), ("reasoning", 0)],
)
async def test_messages_clients_get_calls_and_thinking_by_the_fast_path(name: str, undecided: int) -> None:
    reads, fast_reads = AGENT_STREAMS[name]
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    server = Server(list(reads))
    reply = make_reply(server, encoder, normalizer())
    assert (await collect_frames(server, reply, by_template=True))[1] == fast_reads - undecided


@given(st.lists(st.text(), max_size=8), st.lists(st.integers(0, 2000)))
async def test_the_fast_path_sends_the_same_bytes_for_every_split(texts: list[str], cuts: list[int]) -> None:
    (whole,) = reads_of([ROLE, *map(text_chunk, texts), text_chunk("end"), STOP], 99)
    ends = sorted({cut for cut in cuts if 0 < cut < len(whole)})
    # Most reads end with a frame, as with most servers.
    ends = sorted({*ends, *(at + 2 for at in range(len(whole) - 2) if whole[at : at + 2] == b"\n\n" and at % 5)})
    reads = [whole[start:end] for start, end in pairwise([0, *ends, len(whole)]) if end > start]
    servers = Server(reads), Server([whole])
    wires = [make_reply(server) for server in servers]
    frames, _ = await collect_frames(servers[0], wires[0], by_template=True)
    assert frames == (await collect_frames(servers[1], wires[1], by_template=False))[0]
    assert wires[0].result() == wires[1].result()


@pytest.mark.parametrize("way", ["its calls are mapped", "its dialect numbers nothing"])
async def test_other_streams_are_decoded(way: str) -> None:
    reads = reads_of([ROLE, text_chunk("a"), text_chunk("b"), STOP], 1)
    chat = ChatEncoder(completion_id="c", created=1, model="m", reasoning_fields=frozenset(), include_usage=False)
    server = Server(reads)
    wire = make_reply(server, calls=Watching()) if way == "its calls are mapped" else make_reply(server, chat)
    frames, fast_reads = await collect_frames(server, wire, by_template=True)
    assert frames.endswith(sse.DONE_FRAME)
    assert fast_reads == 0


async def test_a_relay_forwards_delta_runs_unchanged() -> None:
    reads = reads_of([ROLE, text_chunk("a"), text_chunk("b"), text_chunk("[DONE]"), STOP], 1)
    server = Server(reads)
    relay = ChatRelay(OwnCompletion(None, {}), ChunkForm(frozenset()))
    wire = RelayedReply(HttpRelay(cast("Upstream", server), RELAY_DIALECTS["chat"], {}), relay)
    assert await collect_frames(server, wire, by_template=True) == (b"".join(reads), 2)
    assert wire.ended
