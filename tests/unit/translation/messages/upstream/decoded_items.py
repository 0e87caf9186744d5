"""Events and items of replies of the Messages API, as tests of the decoder write them down."""

from typing import Any

from tests.unit.support.translator_drivers import collect, counting_ids, decode
from translation.messages.upstream.decode import AnthropicDecoder
from translation.representation.events import Event
from translation.representation.json_types import Item, Json
from translation.representation.profile import DEFAULT_PROFILE, Profile


def events_of(*chunks: Any, profile: Profile = DEFAULT_PROFILE) -> list[Event]:
    return decode(AnthropicDecoder(counting_ids(), profile), chunks)


def items_of(*chunks: Any, profile: Profile = DEFAULT_PROFILE) -> list[Item]:
    return collect(events_of(*chunks, profile=profile))


def message_item(text: str, status: str = "completed", number: int = 1, annotations: list[Json] | None = None) -> Item:
    part = {"type": "output_text", "text": text, "annotations": annotations or [], "logprobs": []}
    return {"id": f"msg_{number}", "type": "message", "status": status, "role": "assistant", "content": [part]}


RUN = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
