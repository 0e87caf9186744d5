"""Whatever a model of one type said is accepted back for a model of any other."""

from pathlib import Path

import orjson
import pytest

from providers.base import WireDialect
from providers.config import KINDS, ProviderType
from providers.profiles import PROFILES
from providers.registry import CAPABILITIES
from providers.spoken import SPOKEN
from tests.unit.driving import collect, counting_ids
from tests.unit.golden import GOLDEN
from tests.unit.harmony import lower_to_harmony
from translation.hygiene.turn import tidied
from translation.json_types import Item
from translation.responses.lift import lift
from translation.responses.schema import validate
from translation.sse import DONE_PAYLOAD
from translation.tools.bridge import bridge

TARGETS: dict[str, tuple[ProviderType, WireDialect]] = {
    **{kind: (kind, KINDS[kind].own or "chat") for kind in CAPABILITIES},
    "openai, Responses": ("openai", "responses"),
}
"""Name -> type of upstream, and the dialect its turns go out in."""

RECORDINGS = [
    path for dialect in SPOKEN for path in sorted((GOLDEN / dialect).glob("*")) if path.suffix in (".sse", ".ndjson")
]


def said_in(recording: Path) -> list[Item]:
    """What the recording's model said."""
    spoken = SPOKEN[recording.parent.name]  # type: ignore[index]
    decoder, frames = spoken.decoder(counting_ids(), PROFILES["openai_compatible"]), spoken.framing.frames(2**24)
    payloads = [*frames.payloads(recording.read_bytes()), *(frame.payload for frame in frames.finish())]
    events = decoder.read([payload for payload in payloads if payload != DONE_PAYLOAD])
    return collect([*events, *decoder.finish()])


def answered(item: Item) -> list[Item]:
    if item["type"] != "function_call":
        return [item]
    return [item, {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}]


@pytest.mark.parametrize(("kind", "dialect"), TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_what_a_model_said_can_be_said_to_another(recording: Path, kind: ProviderType, dialect: WireDialect) -> None:
    again = [each for item in said_in(recording) for each in answered(item)]
    question = {"type": "message", "role": "user", "content": "Go on."}
    body = {"model": "m", "input": [question, *again, question]}
    validate(body)
    able = CAPABILITIES[kind]
    turn = bridge(lift(body), kinds=able.tool_kinds, hosted=able.hosted_tools).turn
    turn = tidied(turn, PROFILES[kind]).turn
    lower = lower_to_harmony if dialect == "harmony" else SPOKEN[dialect].lower
    assert orjson.dumps(lower(turn, PROFILES[kind]).body)
