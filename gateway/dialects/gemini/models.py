"""The list of models in the shape of Gemini's API. https://ai.google.dev/api/models"""

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import QueryParams

from gateway.dialects.gemini.error_form import is_gemini_request
from gateway.http.query_params import parse_integer, read_single_value
from gateway.service.served_models import CapabilitiesLookup, ModelsForm
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_METHODS: Final = ("generateContent", "streamGenerateContent", "countTokens")
_EMBEDDING_METHODS: Final = ("embedContent", "batchEmbedContents")

_PREFIX: Final = "models/"
_DEFAULT_PAGE: Final = 50
_MAX_PAGE: Final = 1000


def build_gemini_model(model: Json, find_capabilities: CapabilitiesLookup) -> Json:
    """Returns the model object for a served model.

    `inputTokenLimit` is left out if the context window is not known. No upstream reports an `outputTokenLimit`.
    """
    name = model["id"]
    capabilities = find_capabilities(name)
    window = capabilities.max_context_window
    return {
        "name": f"{_PREFIX}{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": [
            *_METHODS,
            *(_EMBEDDING_METHODS if "embeddings" in capabilities.endpoints else ()),
        ],
        "thinking": capabilities.reasoning,
        **({} if window is None else {"inputTokenLimit": window}),
    }


def list_gemini_models(models: Sequence[Json], params: QueryParams, find_capabilities: CapabilitiesLookup) -> Json:
    """Returns one page of the list: `pageSize` models, beginning with the model that `pageToken` names.

    Raises InvalidRequest for a malformed size, and for a token of another list.
    """
    size = parse_integer(params, "pageSize", minimum=0, maximum=2**31 - 1) or _DEFAULT_PAGE
    size = min(size, _MAX_PAGE)
    first, token = 0, read_single_value(params, "pageToken")
    if token:
        names = [model["id"] for model in models]
        if token not in names:
            raise InvalidRequest("This 'pageToken' is not of this list of models.", param="pageToken")
        first = names.index(token)
    page: Json = {"models": [build_gemini_model(model, find_capabilities) for model in models[first : first + size]]}
    if first + size < len(models):
        page["nextPageToken"] = models[first + size]["id"]
    return page


GEMINI_MODELS: Final = ModelsForm(is_gemini_request, list_gemini_models, build_gemini_model)
