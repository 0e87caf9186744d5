"""Lowers the outputs of function calls to Gemini's form: results under `output`, failures under `error`."""

from typing import Any

import orjson

from translation.gemini.parts import lower_parts
from translation.lowering.unsupported import UNSUCCESSFUL_STATUSES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss


def result_of(item: Item, param: str, losses: list[Loss]) -> tuple[Json, list[Json]]:
    """Returns the `response` object for a call output, and its media as parts, which the object cannot hold.

    An output is a failure if its status is unsuccessful or if it is a JSON object whose only key is `error`.
    """
    output, media = item["output"], list[Json]()
    if not isinstance(output, str):
        parts = lower_parts(output, param, losses)
        media = [part for part in parts if "text" not in part]
        output = "\n".join(part["text"] for part in parts if "text" in part)
    if (error := _error_in(output)) is not None:
        return {"error": error}, media
    return {"error" if item.get("status") in UNSUCCESSFUL_STATUSES else "output": output}, media


def _error_in(output: str) -> Any:
    if not output.lstrip().startswith("{"):
        return None
    try:
        parsed = orjson.loads(output)
    except orjson.JSONDecodeError:
        return None
    return parsed["error"] if parsed.keys() == {"error"} else None
