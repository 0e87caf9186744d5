"""Requests that only count the tokens of their input. https://ai.google.dev/api/tokens"""

from functools import cache
from typing import Any, Final

from translation.errors import InvalidRequest
from translation.gemini.schema.request import InputParams, check_parts, require_path_model
from translation.representation.json_types import Json
from translation.validation import build_adapter, check_body

_WHOLE_REQUESTS: Final = ("generateContentRequest", "generate_content_request")
"""The key of a whole request for an answer, in both spellings."""


def find_counted_request(body: Json, model: str) -> Json:
    """Returns the request whose tokens are to be counted: the body itself, or the one in it.

    Raises InvalidRequest for a body that has both, and for a request that names another model than `model`.
    """
    key = next((key for key in _WHOLE_REQUESTS if body.get(key) is not None), None)
    if key is None:
        return body
    if body.get("contents"):
        raise InvalidRequest(f"Send 'contents' or '{key}', not both.", param="contents")
    whole: Any = body[key]
    if not isinstance(whole, dict):
        raise InvalidRequest(f"Invalid type for '{key}': expected an object.", param=key, code="invalid_type")
    require_path_model(whole.get("model"), model, f"{key}.model")
    return whole


def validate_counted(body: Json) -> None:
    """Validates a normalized request to count tokens, as `schema.validate` validates a request for an answer."""
    check_body(_count_adapter(), body)
    check_parts(body)


_count_adapter = cache(lambda: build_adapter(InputParams))


@cache
def _count_schema() -> Json:
    properties = {"generateContentRequest": {"type": "object"}, "contents": {"type": "array"}}
    return {"$id": "count-tokens", "type": "object", "properties": properties}


COUNTED_SCHEMA = _count_schema
"""Returns the JSON schema of a request to count tokens, for `/openapi.json`."""
