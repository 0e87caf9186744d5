"""Facts of a request that decide which targets of its route are asked: who made its reasoning, and how it begins."""

from collections.abc import Sequence
from typing import Final

from gateway.planning.admitted_request import AdmittedRequest
from gateway.sealing.reply_seal import ENCRYPTED_CONTENT
from gateway.upstreams.affinity import AffinityKey, make_prefix_key
from translation.hygiene.volatile_lines import move_volatile_lines_of_turn
from translation.representation.json_types import Item
from translation.representation.turn import Turn

_PREFIX_CHARS: Final = 1024


def find_makers(request: AdmittedRequest) -> Sequence[int]:
    """Returns the indexes of the candidates that can read the newest reasoning which only its maker can; empty if any
    can serve the request.

    A model that loses its thoughts in the middle of its work answers wrongly. If no target is the maker, the reasoning
    is lost in any case. Raises StoreUnavailable if the key to sealed content cannot be loaded.
    """
    targets = request.route.targets
    seal = targets[0].reasoning_seal
    if seal is None or not (items := _list_sealed_items(request)):
        return ()
    maker = seal.find_maker(items)
    if maker is None:
        return ()
    return request.route.find_readers(*maker)


def find_prefix_key(request: AdmittedRequest) -> AffinityKey | None:
    """Returns the key of a prompt by how it begins: its tools, its instructions, its first message. Lines that change
    with every request are not part of it."""
    turn = _lift(request)
    first = next((item for item in turn.items if item.get("role") not in ("system", "developer")), None)
    if request.target.profile.volatile_lines:
        # They are moved to the newest message, which may be the first one.
        turn = move_volatile_lines_of_turn(turn, request.target.profile.volatile_lines)
    pieces: list[str] = []
    for piece in _list_prompt_pieces(turn, first):
        pieces.append(piece[:_PREFIX_CHARS])
        if sum(map(len, pieces)) >= _PREFIX_CHARS:
            break
    return make_prefix_key("\n".join(pieces)[:_PREFIX_CHARS])


def _list_sealed_items(request: AdmittedRequest) -> Sequence[Item]:
    """Returns the items of a request that may have sealed content."""
    items = request.facts.input_value
    if isinstance(items, list):
        return [item for item in items if ENCRYPTED_CONTENT in item]
    if not request.endpoint.reply.carries_seals:
        return ()
    return [item for item in _lift(request).items if ENCRYPTED_CONTENT in item]


def _lift(request: AdmittedRequest) -> Turn:
    """Returns the turn of a request, as leniently as its API allows: of a thread, which no upstream keeps, as it is
    translated. Raises InvalidRequest for a thread that no upstream could be asked for."""
    return request.endpoint.request.lift(request.body, relayed=request.facts.state.thread is None)


def _list_prompt_pieces(turn: Turn, first: Item | None) -> list[str]:
    names = [f"{tool.get('name') or tool.get('type')} {tool.get('description') or ''}" for tool in turn.tools]
    leading: list[Item] = []
    for item in turn.items:
        if item.get("role") not in ("system", "developer"):
            break
        leading.append(item)
    items = leading if first is None else [*leading, first]
    return [*names, turn.instructions or "", *(text for item in items for text in _list_texts(item))]


def _list_texts(item: Item) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if isinstance(part, dict) and isinstance(part.get("text"), str)]
