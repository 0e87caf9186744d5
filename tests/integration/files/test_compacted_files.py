"""Compacted contexts name the files of the client, and do not carry their contents."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.files.test_input_files import gateway, upload
from tests.upstream import chat_text
from translation.responses.compaction import unseal_compaction

Json = dict[str, Any]
NOTES = b"The keys are under the mat. " * 10_000


def read_sealed(output: list[Json]) -> str:
    """Returns the content of the only compaction item, as the client carries it."""
    (item,) = [item for item in output if item["type"] == "compaction"]
    content = unseal_compaction(item["encrypted_content"], "input")
    assert content is not None
    return str(content)


WAYS: dict[str, tuple[str, list[Json]]] = {
    "the route": ("/responses/compact", []),
    "a trigger": ("/responses", [{"type": "compaction_trigger"}]),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_sealed_context_names_files_and_does_not_carry_them(tmp_path: Path, way: str) -> None:
    path, end = WAYS[way]
    async with gateway(tmp_path, files=False) as (client, upstream):
        upstream.on("/chat/completions", chat_text("They looked for keys."), chat_text("Yes."))
        part: Json = {"type": "input_file", "file_id": await upload(client, "notes.txt", NOTES)}
        items: list[Json] = [
            {"role": "developer", "content": [part]},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Where?"},
        ]
        compacted = await client.post(path, json={"model": "m", "input": [*items, *end]})
        assert compacted.status_code == 200, compacted.text
        output = compacted.json()["output"]
        sealed = read_sealed(output)
        assert part["file_id"] in sealed
        assert "under the mat" not in sealed
        assert len(compacted.content) < 20_000
        question = {"role": "user", "content": "Sure?"}
        again = await client.post("/responses", json={"model": "m", "input": [*output, question]})
        assert again.status_code == 200, again.text
        read = str(upstream.requests[-1].json)
        assert "They looked for keys." in read
        assert "under the mat" in read, "later turns read the file itself"
        assert part["file_id"] not in read
        deleted = await client.delete(f"/files/{part['file_id']}")
        assert deleted.status_code == 200
        gone = await client.post("/responses", json={"model": "m", "input": [*output, question]})
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "file_not_found")
