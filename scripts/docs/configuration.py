"""Renders docs/configuration.md: a guide, and the fields of the settings with their descriptions or docstrings."""

import ast
import inspect
import re
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gateway.config.discovery import HOSTED_SERVICES, LOCAL_SERVERS
from gateway.config.settings import Settings
from providers.config import PROVIDER_DEFAULTS
from providers.overrides import OverridesOf
from scripts.docs.configuration_examples import EXAMPLES
from scripts.docs.markdown import join_blocks, render_code, render_table

_GUIDE = """\
# Configuration

The gateway has one configuration file, in YAML. This page begins with a guide. [The reference](#reference) below has every key, and is generated
from the settings. `config.example.yaml` shows every key in one file.

## Without a file

`responses-gateway serve` without a file looks at the machine, and serves what it finds:

{discovered}

After SIGHUP it looks again. `responses-gateway models` lists the result. A service whose key is set is asked for the names of its models when
the server starts; if it does not answer in time, only names that match the patterns of its families are sent to it.

## The first file

`responses-gateway init` writes `config.yaml`, a file to begin with. `responses-gateway serve` uses the `config.yaml` of its working directory;
`--config FILE` names another file. A file replaces what the gateway would find by itself. A whole configuration can be as short as this:

```yaml
providers:
  local: {{type: openai_compatible, base_url: "http://127.0.0.1:9000/v1"}}
models:
  "*": {{provider: local}}
```

`responses-gateway check-config FILE` reports every mistake in a file without starting: the line, the dotted path and a correction. `serve` reports the
same and does not start. A key that does not exist is a mistake, and so is one that has no effect, such as one of `two_pass` on a model
without it. `check-config` also warns of what is valid and rarely intended: no models, a provider that no model uses, a name or pattern below
another that matches it too, an address without a path, a short key.

## Providers and models

A *provider* is a server or service behind the gateway. Its `type` decides which API it speaks and what it can do; [providers.md](providers.md) lists
the types. A *model* is a name that clients may request, and says which provider serves it. Its key `model` is the name that the provider knows, if
that is another one. A name with `*` or `?` is a pattern, and is sent on as the client wrote it. The first match wins, so write exact names above
patterns:

```yaml
providers:
  gpu: {{type: vllm, base_url: "http://gpu:8000/v1"}}
  openai: {{type: openai, api_key_env: OPENAI_API_KEY}}
models:
  fast: {{provider: gpu, model: Qwen/Qwen3-8B}}
  "gpt-*": {{provider: openai}}
  "*": {{provider: gpu}}
```

What a model can do follows from its provider's type and from its name. If the gateway is wrong about it, set the key: `capabilities` for what it accepts,
`parsing_format` and `tool_parser` for the text that it writes. `responses-gateway doctor` [tests all of it](doctor.md), and names the key to set.

## Secrets

Write no secret into the file. `${{NAME}}` in a value is replaced by the environment variable of that name, and a key that ends in `_env` names an
environment variable that holds the value: `api_key_env: OPENAI_API_KEY` is the same as `api_key: ${{OPENAI_API_KEY}}`. A variable that is not set is a
mistake. `env_file` names a file of lines `NAME=value`, whose values are used first, and which is read again after SIGHUP.

## Who may use it

Without `auth.keys` everybody on this machine may use the gateway, and nobody else can reach it. An address that other machines can reach requires
keys. A key owns what is stored with it, and has limits of its own:

```yaml
server: {{host: 0.0.0.0}}
auth:
  keys:
    - {{name: team-a, key_env: TEAM_A_KEY}}
    - {{name: team-b, key_env: TEAM_B_KEY, models: ["fast"]}}
limits: {{open_requests: 100}}
```

## Changes while it runs

After SIGHUP the server reads its file again, and replaces keys, providers, models and tools without closing a connection. A file with a mistake is
refused, and the log says why. Other sections need a restart. [operations.md](operations.md) has the details, the container and upgrades.

## Reference

Generated from the settings by `make docs`. Each key has an address of its own, such as `configuration.md#server.port`."""  # noqa: E501

_NOTHING_TO_FIND = """\
- `demo` and `scripted`, two models inside the gateway ([demo.md](demo.md)), and the MCP server `notes`;"""


def _describe_discovery() -> str:
    """Returns the list of what a server without a file looks for, from the tables of the code."""
    local = [
        f"- {_TITLES[server.name]} on `{urlsplit(server.base_url).netloc}`: the models that it lists;"
        for server in LOCAL_SERVERS
    ]
    hosted = [
        f"- {_TITLES[service.provider_type]}, if `{PROVIDER_DEFAULTS[service.provider_type].key_env}` is set: "
        f"the models that it lists, and names like {render_code(service.patterns)};"
        for service in HOSTED_SERVICES
    ]
    lines = [_NOTHING_TO_FIND, *local, *hosted]
    return "\n".join(lines).removesuffix(";") + "."


_TITLES: dict[str, str] = {
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "ollama": "an Ollama server",
    "openai": "OpenAI",
    "openrouter": "OpenRouter",
    "vllm": "a vLLM server",
}

_TYPE_NAMES: dict[Any, str] = {
    str: "text",
    SecretStr: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
}


def render_configuration() -> str:
    return join_blocks(_GUIDE.format(discovered=_describe_discovery()), *_sections(Settings, "", {}))


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
    fields = {field.alias or name: field for name, field in model.model_fields.items()}.items()
    if (base := next((base for base in rendered if base is not model and _shares_keys(base, model)), None)) is not None:
        fields = {name: field for name, field in fields if name not in base.model_fields or field.is_required()}.items()
        if fields:
            yield f"It has these keys, and each key of `{rendered[base]}` that describes an upstream's model."
        else:
            yield f"It has each key of `{rendered[base]}`, and no defaults."
    docstrings = _read_field_docstrings(model.facts) if issubclass(model, OverridesOf) else {}
    rows = [
        (
            _link_key(path, name, field),
            _describe_type(field.annotation),
            _render_default(field),
            field.description or docstrings[name],
        )
        for name, field in fields
    ]
    if rows:
        yield render_table(["key", "value", "default", "meaning"], rows)
    if path:
        yield f"```yaml\n{EXAMPLES[path]}\n```"
    for name, field in fields:
        for inner, suffix in _find_models(field.annotation):
            yield from _sections(inner, f"{path}.{name}{suffix}".lstrip("."), rendered)


def _link_key(path: str, name: str, field: FieldInfo) -> str:
    """Returns the cell of a key: with an anchor of its own, or a link to the section that it has."""
    section = f"{path}.{name}".lstrip(".")
    for _, suffix in _find_models(field.annotation):
        return f"[`{name}`](#{re.sub(r'[^a-z0-9_]', '', f'{section}{suffix}'.lower())})"
    anchor = section.replace(".NAME", "").replace("[]", "")
    return f'<a id="{anchor}"></a>`{name}`'


def _shares_keys(rendered: type[BaseModel], model: type[BaseModel]) -> bool:
    """Whether two models have more keys in common than each has alone. A key that takes other values is another key."""
    types = [
        {(name, _describe_type(field.annotation)) for name, field in each.model_fields.items()}
        for each in (rendered, model)
    ]
    shared = types[0] & types[1]
    return len(shared) > len(rendered.model_fields.keys() ^ model.model_fields.keys())


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
