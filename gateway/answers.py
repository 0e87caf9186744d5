"""Whole JSON replies."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from gateway import errors
from gateway.logs import note_failure
from translation.json_types import Json


def json_answer(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def error_answer(error: Exception) -> Response:
    """The one place a failure becomes an HTTP reply."""
    note_failure(error)
    return json_answer(errors.as_body(error), errors.answer(error).status, errors.headers(error))
