"""Bounded values of labels: the names of models as configured, templates of paths, first parts of parameters."""

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from starlette.types import Scope

from gateway.metrics.params import KNOWN_PARAMS

OTHER: Final = "other"
NONE: Final = "none"

_MAX_CACHED: Final = 1024

_CONVERTOR: Final = re.compile(r":\w+(?=\})")
_METHOD: Final = re.compile(r"(?<=\}):.*")

_PARAM_END: Final = re.compile(r"[.\[( ]")


class ModelLabels:
    """Maps the names that clients request to the names and patterns of one configuration."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self.find = lru_cache(_MAX_CACHED)(self._find)

    def _find(self, model: str) -> str:
        return next((pattern for pattern in self._patterns if fnmatchcase(model, pattern)), OTHER)


class RouteLabels:
    """Maps requests to the templates of the application's routes for POST."""

    def __init__(self, templates: Collection[str] = (), model_templates: Collection[str] = ()) -> None:
        """`model_templates` are those of routes whose requests are all for models, also those without a model."""
        self.labels: Mapping[str, str] = {template: write_template(template) for template in templates}
        """The labels of paths without parameters, and of templates."""
        self._model_labels = frozenset(write_template(template) for template in model_templates)

    def find(self, scope: Scope) -> str:
        """Returns the template of a request; `other` for one that is unknown."""
        label = self.labels.get(scope["path"])
        if label is None:
            label = self.labels.get(getattr(scope.get("route"), "path", ""), OTHER)
        return label

    def is_for_model(self, scope: Scope, label: str) -> bool:
        """Whether a request with this label is for a model, although none is known."""
        return scope.get("method", "POST") == "POST" and label in self._model_labels


def write_template(template: str) -> str:
    """Returns a route's template without the types of its parameters, and without methods behind them."""
    return _METHOD.sub("", _CONVERTOR.sub("", template))


def find_first_part(param: str) -> str:
    """Returns the first part of a parameter's name, such as `text` of `text.format`. Clients can invent parameters, so
    one that no API knows is `other`."""
    first = _PARAM_END.split(param, 1)[0]
    return first if first in KNOWN_PARAMS else OTHER
