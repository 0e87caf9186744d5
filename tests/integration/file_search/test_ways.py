"""A file search has the same events as a stream, in the background, after a resumption, and over a WebSocket."""

from pathlib import Path
from typing import Any

from tests.integration.file_search.file_gateway import SEARCHED, searching
from tests.websocket_client import talking


async def test_every_way_has_the_same_events_and_the_same_citation(tmp_path: Path) -> None:
    async with searching(tmp_path, *SEARCHED, *SEARCHED, *SEARCHED) as (served, store_id):
        asked: Any = {"model": "m", "input": "Hi", "tools": [{"type": "file_search", "vector_store_ids": [store_id]}]}
        streamed = [event async for event in await served.client.responses.create(**asked, stream=True)]
        job = [event async for event in await served.client.responses.create(**asked, stream=True, background=True)]
        first: Any = job[0]
        resumed = [
            event
            async for event in await served.client.responses.retrieve(
                first.response.id, stream=True, starting_after=first.sequence_number
            )
        ]
        async with talking(served.url, additional_headers={"authorization": "Bearer gateway-key-1"}) as socket:
            told = await socket.turn(**asked)
    kinds = [event.type for event in streamed]
    assert "response.file_search_call.searching" in kinds
    assert "response.output_text.annotation.added" in kinds
    assert [event.type for event in job if event.type != "response.queued"] == kinds
    assert resumed == job[1:]
    assert [event["type"] for event in told] == kinds
    ends = [streamed[-1].model_dump(), job[-1].model_dump(), told[-1]]
    texts = [end["response"]["output"][-1]["content"][0] for end in ends]
    assert [(text["text"], text["annotations"]) for text in texts] == [(texts[0]["text"], texts[0]["annotations"])] * 3
    assert texts[0]["annotations"][0]["type"] == "file_citation"
