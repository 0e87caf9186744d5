"""Models in the shapes of Ollama's API. Unknown facts about a model are empty or left out, never guessed."""

import hashlib
from typing import Final

from gateway.dialects.ollama.endpoint import format_time
from gateway.planning.resolver import Route
from gateway.service.served_models import ServedModels
from translation.representation.json_types import Json

API_VERSION: Final = "0.13.0"
"""The version of Ollama whose API is implemented. Clients compare it with the version that they need."""

_DEFAULT_TAG: Final = ":latest"

_ARCHITECTURE: Final = "gateway"
"""Replaces a model's architecture, which is unknown. Clients read it to find the length of the context."""

_SECOND_NS: Final = 1_000_000_000

_NO_DETAILS: Final[Json] = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}


def remove_default_tag(models: ServedModels, name: str) -> str:
    """Returns a model's name without the tag `latest`, which clients add, if that is a configured name.

    A name that is configured with its tag keeps it.
    """
    plain = name.removesuffix(_DEFAULT_TAG)
    return plain if plain != name and not models.is_exact_name(name) and models.is_exact_name(plain) else name


def build_listed_model(model: Json) -> Json:
    """Returns the entry of `/api/tags` for a served model. Its digest is computed from its name."""
    return {
        "name": model["id"],
        "model": model["id"],
        "modified_at": format_time(model["created"] * _SECOND_NS),
        "size": 0,
        "digest": hashlib.sha256(model["id"].encode()).hexdigest(),
        "details": _NO_DETAILS,
    }


def build_model_details(model: Json, route: Route) -> Json:
    """Returns the reply of `/api/show` for a model and its route."""
    info: Json = {"general.architecture": _ARCHITECTURE, "general.basename": model["id"]}
    if (window := route.target.capabilities.max_context_window) is not None:
        info[f"{_ARCHITECTURE}.context_length"] = window
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _NO_DETAILS,
        "model_info": info,
        "capabilities": _list_capabilities(route),
        "modified_at": format_time(model["created"] * _SECOND_NS),
    }


def _list_capabilities(route: Route) -> list[str]:
    capabilities = route.target.capabilities
    flags = {
        "completion": True,
        "tools": capabilities.tools,
        "vision": capabilities.images,
        "thinking": capabilities.reasoning,
        "embedding": "embeddings" in capabilities.endpoints,
    }
    return [name for name, is_supported in flags.items() if is_supported]
