"""The fields of a relayed response that the gateway knows better than the upstream."""

from translation.representation.json_types import Json

_STORE_KEYS = ("id", "created_at", "store", "background", "previous_response_id", "conversation", "metadata")
"""Keys of a response that belong to whoever stores it."""


def own_fields(initial_response: Json, *, model: str | None, is_stored: bool) -> Json:
    """Returns the fields of `initial_response`, the object from `new_response`, that replace those of the upstream.

    They are the state of a stored response, and `truncation: auto`, because the gateway may do that itself. `model` is
    the name that the client knows; None keeps the upstream's.
    """
    fields = {key: initial_response[key] for key in _STORE_KEYS if key in initial_response} if is_stored else {}
    if initial_response.get("truncation") == "auto":
        fields["truncation"] = "auto"
    return fields if model is None else {**fields, "model": model}
