"""Names of models in bodies of Gemini's API, beside the name in the path."""

from typing import Final

from translation.errors import InvalidRequest

_PREFIX: Final = "models/"


def require_path_model(named: object, model: str, param: str) -> None:
    """Raises InvalidRequest if a body names another model than `model`, that of the path. None names no model."""
    if named is None:
        return
    if not isinstance(named, str) or named.removeprefix(_PREFIX) != model.removeprefix(_PREFIX):
        raise InvalidRequest(
            f"The model of the request, '{named!s:.100}', is not that of the path, '{model:.100}'.", param=param
        )
