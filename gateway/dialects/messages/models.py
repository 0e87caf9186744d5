"""The list of models in the shape of the Messages API."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from starlette.datastructures import QueryParams

from gateway.dialects.messages.error_form import build_request_id_headers, is_messages_request
from gateway.http.query_params import parse_integer
from gateway.service.served_models import CapabilitiesLookup, ModelsForm
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MAX_PAGE: Final = 1000


def build_message_model(model: Json, find_capabilities: CapabilitiesLookup) -> Json:
    """Returns the model object for a served model. `max_input_tokens` is left out if it is not known."""
    window = find_capabilities(model["id"]).max_context_window
    created = datetime.fromtimestamp(model["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "model",
        "id": model["id"],
        "display_name": model["id"],
        "created_at": created,
        "lifecycle": "active",
        **({} if window is None else {"max_input_tokens": window}),
    }


def list_message_models(models: Sequence[Json], params: QueryParams, find_capabilities: CapabilitiesLookup) -> Json:
    """Returns one page of the list: `limit` models after `after_id` or before `before_id`.

    A page has at most 1,000 models, also without `limit`. Raises InvalidRequest for a malformed limit, for an id that
    is not listed, and for both ids together.
    """
    if "after_id" in params and "before_id" in params:
        raise InvalidRequest("send 'after_id' or 'before_id', not both: a page has one side.", param="before_id")
    limit = parse_integer(params, "limit", minimum=1, maximum=_MAX_PAGE) or _MAX_PAGE
    first, end = 0, len(models)
    if (after := params.get("after_id")) is not None:
        first = _position_of(after, models, "after_id") + 1
    elif (before := params.get("before_id")) is not None:
        end = _position_of(before, models, "before_id")
        first = max(0, end - limit)
    page = [build_message_model(model, find_capabilities) for model in models[first : min(end, first + limit)]]
    has_more = first > 0 if "before_id" in params else first + limit < len(models)
    return {
        "data": page,
        "has_more": has_more,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }


def _position_of(model_id: str, models: Sequence[Json], param: str) -> int:
    for position, model in enumerate(models):
        if model["id"] == model_id:
            return position
    raise InvalidRequest(f"'{param}' is {model_id!r:.200}, which is not in the list of models.", param=param)


MESSAGES_MODELS: Final = ModelsForm(
    is_messages_request, list_message_models, build_message_model, build_request_id_headers
)
