"""Keys of the configuration that override the fields of a dataclass. They are derived from it, so that each fact has
one definition: its name, its type, its bounds and its description."""

from dataclasses import fields, replace
from functools import reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model
from pydantic_core import PydanticCustomError


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


FactsT = TypeVar("FactsT", bound=_Dataclass)

NO_KEY: Final = {"has_key": False}
"""The metadata of a dataclass field that no key of `OverridesOf` overrides."""


def _refuse_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "write a number")
    return value


WholeNumber: TypeAlias = Annotated[int, BeforeValidator(_refuse_boolean)]
"""A whole number. Unlike pydantic's `int` it refuses `true` and `false`."""

Number: TypeAlias = Annotated[float, BeforeValidator(_refuse_boolean)]


class OverridesOf(BaseModel, Generic[FactsT]):
    """The keys with which an operator overrides facts that the gateway has defaults for.

    `OverridesOf[Profile]` has a key for each field of `Profile`, of the same type. A key that is left out, or null,
    overrides nothing. The key's description is the docstring under the field.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    facts: ClassVar[type[Any]]
    """The dataclass."""
    keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __class_getitem__(cls, facts: Any) -> type[BaseModel]:
        """Returns the base class with the keys for one dataclass."""
        types = get_type_hints(facts, include_extras=True)
        keys = tuple(field.name for field in fields(facts) if field.metadata.get("has_key", True))
        definitions: dict[str, Any] = {name: (_refuse_booleans(types[name]) | None, None) for name in keys}
        base = create_model(f"OverridesOf{facts.__name__}", __base__=cls, **definitions)
        base.facts, base.keys = facts, keys
        return base

    def to_overrides(self) -> dict[str, Any]:
        """Returns the values that the operator set, by the names of their fields."""
        return {name: value for name in self.keys if (value := getattr(self, name)) is not None}

    def apply_to(self, facts: FactsT) -> FactsT:
        """Returns the facts with the values that the operator set."""
        return replace(facts, **self.to_overrides())


def _refuse_booleans(hint: Any) -> Any:
    """Returns a type in which every `int` is a `WholeNumber`."""
    origin: Any = get_origin(hint)
    arguments = get_args(hint)
    if hint is int:
        return WholeNumber
    if origin is Annotated:
        return Annotated[(_refuse_booleans(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, map(_refuse_booleans, arguments))
    if origin is not None and origin is not Literal:
        return origin[tuple(map(_refuse_booleans, arguments))]
    return hint
