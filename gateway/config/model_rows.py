"""The upstreams of models in the unvalidated configuration, and the mistakes that several of one name can have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.config.model_config import DescribedModel, ModelConfig, UpstreamRow
from gateway.config.routing_settings import RoutingSettings, TurnRouting
from gateway.config.yaml_file import PathStep, Problem, ValuePath
from translation.representation.json_types import mapping_or_empty

_MERGED_KEYS: Final = ("capabilities", "request_defaults")
"""The keys whose mappings are merged: those of a row, and those beside `upstreams`."""

_KEYS_OF_ROWS: Final = frozenset(UpstreamRow.model_fields)

_KEYS_OF_NAMES: Final = frozenset(ModelConfig.model_fields) - _KEYS_OF_ROWS - {"upstreams"}

_KEYS_OF_SECTION: Final = frozenset(RoutingSettings.model_fields) - frozenset(TurnRouting.model_fields)
"""The keys of `routing` that are the same for all names."""

_KEYS_WITHOUT_EFFECT: Final = ("balance", "affinity", "routing")
"""The keys that choose between upstreams, or are about further attempts."""


class ModelRow(NamedTuple):
    """One upstream of a model, as it is written, with the keys that are written beside `upstreams`."""

    model: str
    place: ValuePath
    """The path of the row."""
    own_keys: frozenset[str]
    """The keys that the row has itself. The others are beside `upstreams`."""
    values: Mapping[str, Any]

    def locate(self, *key: PathStep) -> ValuePath:
        """Returns the path of a key of this row, where it is written."""
        return (*(self.place if key[0] in self.own_keys else ("models", self.model)), *key)


def list_model_rows(tree: Mapping[str, Any]) -> list[ModelRow]:
    """Returns the upstreams of all models. `tree` is the whole, unvalidated configuration."""
    rows: list[ModelRow] = []
    for name, value in mapping_or_empty(tree.get("models")).items():
        model = mapping_or_empty(value)
        upstreams = model.get("upstreams")
        if not isinstance(upstreams, list):
            rows.append(ModelRow(name, ("models", name), frozenset(model), model))
            continue
        shared = {key: model[key] for key in DescribedModel.model_fields if key in model}
        for number, row in enumerate(map(mapping_or_empty, upstreams)):
            merged = {**shared, **row}
            for key in _MERGED_KEYS:
                if key in merged:
                    merged[key] = {**mapping_or_empty(shared.get(key)), **mapping_or_empty(row.get(key))}
            rows.append(ModelRow(name, ("models", name, "upstreams", number), frozenset(row), merged))
    return rows


def check_upstreams(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields the mistakes of names with several upstreams, and of names that have both forms or neither."""
    for name, value in mapping_or_empty(tree.get("models")).items():
        if not isinstance(value, dict):
            continue
        path = ("models", name)
        if "upstreams" not in value:
            if "provider" not in value:
                yield Problem((*path, "provider"), "is missing; write the provider that serves the model, or upstreams")
            for key in _KEYS_WITHOUT_EFFECT:
                if key in value:
                    yield Problem((*path, key), "it has no effect on one provider: write upstreams, or leave it out")
            continue
        if "provider" in value:
            yield Problem((*path, "upstreams"), "write provider or upstreams, not both")
        for key in mapping_or_empty(value.get("routing")):
            if key in _KEYS_OF_SECTION:
                yield Problem((*path, "routing", key), "it is the same for all names: write it in the section routing")
        upstreams = value["upstreams"]
        if isinstance(upstreams, list):
            yield from _check_rows([mapping_or_empty(row) for row in upstreams], (*path, "upstreams"), value)


def _check_rows(rows: Sequence[Mapping[str, Any]], path: ValuePath, model: Mapping[str, Any]) -> Iterator[Problem]:
    places: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows):
        for key in row:
            if key in _KEYS_OF_NAMES:
                yield Problem((*path, number, key), "it belongs to the name: write it beside upstreams")
        served = (repr(row.get("provider")), repr(row.get("model", model.get("model"))))
        first = places.setdefault(served, number)
        if first != number and "provider" in row:
            message = f"the same provider and model as upstreams[{first}]: write one row, with the sum of both weights"
            yield Problem((*path, number), message)
    for tier in sorted({_tier_of(row) for row in rows}):
        in_tier = [number for number, row in enumerate(rows) if _tier_of(row) == tier]
        if all(rows[number].get("weight") == 0 for number in in_tier):
            message = f"every row of tier {tier} has weight 0, so it gets no turns: write a weight, or remove the rows"
            yield Problem((*path, in_tier[0], "weight"), message)


def _tier_of(row: Mapping[str, Any]) -> int:
    tier = row.get("tier")
    return tier if isinstance(tier, int) else 0
