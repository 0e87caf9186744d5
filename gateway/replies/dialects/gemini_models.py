"""The list of models in the shape of Gemini's API. https://ai.google.dev/api/models"""

from collections.abc import Callable, Sequence
from typing import Final

from starlette.datastructures import QueryParams

from gateway.http.query_params import parse_integer, single_value
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_METHODS: Final = ("generateContent", "streamGenerateContent", "countTokens")
_EMBEDDING_METHODS: Final = ("embedContent", "batchEmbedContents")

_PREFIX: Final = "models/"
_DEFAULT_PAGE: Final = 50
_MAX_PAGE: Final = 1000


def build_gemini_model(model: Json, can_embed: Callable[[str], bool]) -> Json:
    """Returns the model object for a model of the catalogue. `can_embed` returns whether it makes embeddings."""
    name = model["id"]
    return {
        "name": f"{_PREFIX}{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": [*_METHODS, *(_EMBEDDING_METHODS if can_embed(name) else ())],
    }


def list_gemini_models(models: Sequence[Json], params: QueryParams, can_embed: Callable[[str], bool]) -> Json:
    """Returns one page of the list: `pageSize` models, beginning with the model that `pageToken` names.

    Raises InvalidRequest for a malformed size, and for a token of another list.
    """
    size = parse_integer(params, "pageSize", minimum=0, maximum=2**31 - 1) or _DEFAULT_PAGE
    size = min(size, _MAX_PAGE)
    first, token = 0, single_value(params, "pageToken")
    if token:
        names = [model["id"] for model in models]
        if token not in names:
            raise InvalidRequest("This 'pageToken' is not of this list of models.", param="pageToken")
        first = names.index(token)
    page: Json = {"models": [build_gemini_model(model, can_embed) for model in models[first : first + size]]}
    if first + size < len(models):
        page["nextPageToken"] = models[first + size]["id"]
    return page
