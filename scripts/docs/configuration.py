"""Renders docs/configuration.md from the fields of the settings, and their descriptions or docstrings."""

import ast
import inspect
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gateway.config.settings import Settings
from providers.overrides import OverridesOf
from scripts.docs.markdown import join_blocks, render_table

_INTRODUCTION = """\
# Configuration

Generated from the settings by `make docs`.

The configuration is one YAML file: `responses-gateway serve --config FILE`. Without `--config` it is `config.yaml` in the working
directory. If there is no such file, the server looks for `OPENAI_API_KEY`, `OPENROUTER_API_KEY`, a vLLM on `localhost:8000` and an
Ollama on `localhost:11434`, and serves the models it finds and the demo model. `config.example.yaml` shows every key.

`${NAME}` in a value is replaced by the environment variable of that name. Keys that end in `_env` name an environment variable that
holds the value. A mistake stops the start, with the file, the line, the dotted path and a correction.
`responses-gateway check-config FILE` reports all mistakes without starting. It warns of what is probably not meant: no models, a provider
that no model uses, a name or pattern below another that matches it too, an address without a path, a short key. A key that has no
effect, such as one of `two_pass` on a model without it, is a mistake as well."""  # noqa: E501

_TYPE_NAMES: dict[Any, str] = {
    str: "text",
    SecretStr: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
}


def render_configuration() -> str:
    return join_blocks(_INTRODUCTION, *_sections(Settings, "", {}))


def _sections(model: type[BaseModel], path: str, rendered: dict[type[BaseModel], str]) -> Iterator[str]:
    """Yields the sections of a model and of the models in it. `rendered` maps each model to the path of its table."""
    if path:
        yield f"## {path}"
    if model in rendered:
        yield f"The same keys as under `{rendered[model]}`."
        return
    rendered[model] = path
    if path:
        yield (model.__doc__ or "").split("\n\n")[0]
    fields = model.model_fields.items()
    docstrings = _read_field_docstrings(model.facts) if issubclass(model, OverridesOf) else {}
    rows = [
        (f"`{name}`", _describe_type(field.annotation), _render_default(field), field.description or docstrings[name])
        for name, field in fields
    ]
    yield render_table(["key", "value", "default", "meaning"], rows)
    for name, field in fields:
        for inner, suffix in _find_models(field.annotation):
            yield from _sections(inner, f"{path}.{name}{suffix}".lstrip("."), rendered)


def _read_field_docstrings(facts: type) -> dict[str, str]:
    """Returns the docstrings under the fields of a dataclass, in one line each."""
    (definition,) = ast.parse(inspect.getsource(facts)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(text := ast.literal_eval(below.value), str)
    }


def _find_models(annotation: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """Yields (model, suffix of its path after the field's name)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
        return
    suffix = {dict: ".NAME", tuple: "[]"}.get(get_origin(annotation), "")
    for argument in get_args(annotation):
        for model, inner in _find_models(argument):
            yield model, suffix + inner


def _describe_type(annotation: Any) -> str:
    """Returns a description of the values that a key accepts."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _describe_type(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_type(option) for option in arguments if option is not type(None))
    if origin is Literal:
        return " or ".join(f"`{option}`" for option in arguments)
    if origin in (dict, Mapping):
        return (
            f"keys with {_describe_type(arguments[1])}"
            if not list(_find_models(annotation))
            else "names with keys below"
        )
    if origin in (tuple, frozenset):
        return f"list of {_describe_type(arguments[0])}"
    return _TYPE_NAMES.get(annotation, "keys below")


def _render_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel) or value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{orjson.dumps(value).decode().replace(',', ', ')}`"
