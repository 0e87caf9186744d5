"""Sends the turns of one session to one upstream, whose prompt cache has the session: finds the key of a request, and
ranks upstreams for a key. Also remembers which upstream has a response that only it can continue.

Upstreams are ranked by weighted rendezvous hashing. So the ranking is the same in every process, on every replica and
after a restart, and an upstream that is added takes over only its share of the sessions.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from gateway.config.routing_settings import AFFINITY_HEADER
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.health import UpstreamName
from translation.representation.json_types import Json

AffinityKind: TypeAlias = Literal["prompt_cache_key", "session", "header", "conversation", "chain", "prefix"]

_MAX_KEY_CHARS: Final = 1024

_SESSION_HEADER_ORDER: Final = (b"x-claude-code-session-id", b"session-id", b"session_id")
_SESSION_HEADERS: Final = frozenset(_SESSION_HEADER_ORDER)

_LOAD_FACTOR: Final = 1.25
_LOAD_ALLOWANCE: Final = 2.0
"""How far the load of an upstream may be above the average of its tier before sessions that rank it first go
elsewhere."""

_MAX_HASH: Final = 2.0**64


class AffinityKey(NamedTuple):
    """What the turns of one session have in common."""

    kind: AffinityKind
    value: bytes

    def to_json(self) -> Json:
        """Returns the key as it is stored with a job."""
        return {"kind": self.kind, "value": self.value.hex()}


def restore_affinity_key(stored: Json) -> AffinityKey:
    """Returns the key that was stored with a job."""
    return AffinityKey(stored["kind"], bytes.fromhex(stored["value"]))


class AffinityFacts(NamedTuple):
    """The values of a request that may identify its session."""

    cache_key: str | None = None
    conversation_id: str | None = None
    chain_root: str | None = None
    """The first response of the chain that the request continues."""


def find_affinity_key(
    affinity: str, headers: Mapping[bytes, bytes], facts: AffinityFacts, owner: str
) -> AffinityKey | None:
    """Returns the key of a request by the setting `affinity`; None if it has none.

    Keys of two owners differ, so that nobody can find out whose sessions are where.
    """
    if affinity == "none" or (affinity == "auto" and not any(facts) and _SESSION_HEADERS.isdisjoint(headers)):
        return None  # as most requests
    if affinity.startswith(AFFINITY_HEADER):
        name = affinity.removeprefix(AFFINITY_HEADER).lower().encode()
        return _make_key("header", headers.get(name, b"").decode("latin-1"), owner)
    session = next((value for name in _SESSION_HEADER_ORDER if (value := headers.get(name))), b"").decode("latin-1")
    sources: tuple[tuple[AffinityKind, str | None], ...] = (
        ("prompt_cache_key", facts.cache_key),
        ("session", session),
        ("conversation", facts.conversation_id),
        ("chain", facts.chain_root),
    )
    for kind, text in sources:
        if text and (key := _make_key(kind, text, owner)) is not None:
            return key
    return None


def make_prefix_key(prefix: str) -> AffinityKey | None:
    """Returns the key of a prompt by its beginning. All owners share it, as they share the upstream's cache."""
    return AffinityKey("prefix", prefix.encode(errors="surrogatepass")) if prefix else None


def _make_key(kind: AffinityKind, value: str, owner: str) -> AffinityKey | None:
    if not value or len(value) > _MAX_KEY_CHARS:
        return None
    return AffinityKey(kind, f"{owner}\x00{value}".encode(errors="surrogatepass"))


def rank_candidates(key: AffinityKey, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates in the order in which they are preferred for a key. All have a weight above 0."""
    return sorted(candidates, key=lambda each: _score(key.value, each), reverse=True)


def choose_by_key(key: AffinityKey, candidates: Sequence[Candidate]) -> Candidate:
    """Returns the preferred candidate whose load is not far above the average; if none is, the least loaded."""
    ranked = rank_candidates(key, candidates)
    average = sum(each.load.in_flight for each in ranked) / sum(each.weight for each in ranked)
    bound = _LOAD_FACTOR * average + _LOAD_ALLOWANCE
    for each in ranked:
        if each.load.in_flight / each.weight <= bound:
            return each
    return min(ranked, key=lambda each: each.load.in_flight / each.weight)


def _score(key: bytes, candidate: Candidate) -> float:
    digest = blake2b(key + b"\x00" + candidate.upstream.encode(), digest_size=8).digest()
    uniform = (int.from_bytes(digest, "big") + 0.5) / _MAX_HASH
    # 2**64 - 0.5 is rounded up to 2**64.
    return -candidate.weight / math.log(min(uniform, 1 - 2**-53))


_MAX_RESPONSES: Final = 10_000
"""The most responses of one name that are remembered, the newest. Any upstream may be asked to continue an older one,
and those that do not have it say so."""

_MAX_ID_CHARS: Final = 256
"""Longer ids are not remembered. Upstreams choose them."""


class ResponseMakers:
    """The upstreams of the latest responses of one name, in one process.

    It is for servers without a store of their own: a response that continues one of an upstream can only be made by
    that upstream.
    """

    def __init__(self) -> None:
        self._makers: OrderedDict[tuple[str, str], UpstreamName] = OrderedDict()

    def note_maker(self, owner: str, response_id: object, maker: UpstreamName) -> None:
        """Remembers which upstream made a response. `response_id` is what the upstream sent as its id."""
        if not isinstance(response_id, str) or len(response_id) > _MAX_ID_CHARS:
            return
        self._makers[owner, response_id] = maker
        if len(self._makers) > _MAX_RESPONSES:
            self._makers.popitem(last=False)

    def find_maker(self, owner: str, response_id: str) -> UpstreamName | None:
        """Returns the upstream that made a response; None if that is not known."""
        return self._makers.get((owner, response_id))
