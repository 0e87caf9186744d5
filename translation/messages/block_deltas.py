"""Splits whole content blocks into the events of a stream."""

import orjson

from translation.representation.json_types import Json


def split_block(block: Json) -> tuple[Json, list[Json]]:
    """Returns a whole block as it starts in a stream, and the deltas that complete it.

    Clients read texts and inputs from the deltas, so that no block starts with one. Other blocks start whole.
    """
    match block["type"]:
        case "text":
            citations = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            start = {key: value for key, value in block.items() if key != "citations" or not value}
            return {**start, "text": ""}, [{"type": "text_delta", "text": block["text"]}, *citations]
        case "thinking":
            thought = [{"type": "thinking_delta", "thinking": block["thinking"]}] if block["thinking"] else []
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thought, signature]
        case _ if "input" in block:
            delta = {"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()}
            return {**block, "input": {}}, [delta]
        case _:
            return block, []
