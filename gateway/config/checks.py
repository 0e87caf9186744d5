"""Validates plain values as settings: expands environment variables and collects every problem at once."""

import difflib
import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gateway.config.mapped_tools.checks import check_mapped_tools, list_mapped_tools
from gateway.config.model_rows import ModelRow, check_upstreams, list_model_rows
from gateway.config.own_address import check_metrics_address, check_own_addresses
from gateway.config.storage_settings import check_bucket_package
from gateway.config.telemetry_settings import check_tracing_package
from gateway.config.tool_settings import check_parser_package
from gateway.config.unused_keys import check_unused_keys
from gateway.config.yaml_file import ConfigError, Document, Problem, ValuePath
from providers import engine_checks
from providers.capabilities import CAPABILITIES
from providers.config import BUDGET_ENFORCING_TYPES, TOKEN_PROMPT_TYPES, TOKENS_ONLY_TYPES, ProviderConfig, is_loopback
from providers.model_families import MODEL_FAMILIES
from translation.representation.json_types import mapping_or_empty

_SettingsT = TypeVar("_SettingsT", bound=BaseModel)

_VARIABLE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_ENVIRONMENT_KEYS = {
    "api_key_env": "api_key",
    "key_env": "key",
    "keys_env": "keys",
    "bearer_env": "bearer",
    "client_secret_env": "client_secret",
    "access_key_env": "access_key",
    "secret_key_env": "secret_key",
    "parser_key_env": "parser_key",
}
"""Key that names an environment variable -> key that gets its value."""

_TIME_ADVICE: Final = "write a time with its zone, such as 2027-01-31T00:00:00Z"

_BOUND_ERRORS = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
"""Types of errors about numbers out of range, whose messages name the bound only."""

_ADVICE_BY_ERROR_TYPE = {
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "string_type": "write text; in quotes, if it looks like a number or a date",
    "dict_type": "write keys and values: {key: value}",
    "model_type": "write keys and values: {key: value}",
    "timezone_aware": _TIME_ADVICE,
    "datetime_parsing": _TIME_ADVICE,
    "datetime_from_date_parsing": _TIME_ADVICE,
    "datetime_type": _TIME_ADVICE,
    "too_short": "write at least one",
    "string_too_short": "write at least one character",
    "tuple_type": "write a list: [a, b]",
    "finite_number": "write a finite number",
    "frozen_set_type": "write a list: [a, b]",
}
"""Pydantic's error type -> the advice, for types whose own message does not help an operator."""

RELOADABLE_SECTIONS: Final = frozenset({"env_file", "auth", "providers", "models", "families", "routing", "tools"})
"""The sections that may change while the server runs. Sockets, limits and tables of the others exist only once."""

_RESTART_ADVICE: Final = "cannot change while the server runs: restart it, or undo the change"


def validate_settings(
    model: type[_SettingsT], document: Document, environ: Mapping[str, str], source: str
) -> _SettingsT:
    """Returns `document` as settings of type `model`. Raises ConfigError with every mistake in it.

    `source` is the document's name in errors, `environ` the environment.
    """
    problems: list[Problem] = []
    tree = _expand_environment(document.tree, (), environ, problems)
    problems += check_upstreams(tree)
    try:
        settings = model.model_validate(tree)
    except ValidationError as error:
        # The value of a missing environment variable was replaced by a placeholder. Its errors are not reported again,
        # and no key is reported as unknown that is known elsewhere.
        reported_paths = {problem.path for problem in problems}
        field_problems = find_model_problems(model, error)
        problems += [problem for problem in field_problems if problem.path not in reported_paths]
    rows = list_model_rows(tree)
    # A key beside `upstreams` can be wrong for several rows.
    row_checks = (
        *_check_model_providers(rows, tree),
        *_check_profiles(rows, tree),
        *_check_two_pass_and_parsers(rows, tree),
        *check_unused_keys(rows, tree),
    )
    problems += dict.fromkeys(row_checks)
    problems += _check_model_servers(tree)
    problems += _check_model_searches(tree)
    problems += check_mapped_tools(tree)
    problems += _check_model_files(tree)
    problems += _check_embeddings(tree)
    problems += _check_families(tree)
    problems += _check_engines(tree)
    problems += check_own_addresses(tree)
    problems += check_metrics_address(tree)
    problems += check_tracing_package(tree)
    problems += check_bucket_package(tree)
    problems += check_parser_package(tree)
    problems += _check_exposure(tree)
    if problems:
        raise ConfigError(source, problems, document.lines)
    return settings


def find_model_problems(model: type[BaseModel], error: ValidationError) -> list[Problem]:
    """Returns the problems that validating plain values as `model` found, in the words of the configuration."""
    placed = [(_find_place(model, details["loc"]), details) for details in _drop_implied_errors(error)]
    problems: list[Problem] = []
    for place, details in placed:
        if place.is_of_choice:
            if any(_is_inside(other.path, place.path) for other, _ in placed):
                continue  # the value has another form, in which something is wrong
            if any(problem.path == place.path for problem in problems):
                continue  # that it has none of the forms is said for one of them
        problems.append(_problem_of(place, details))
    return problems


def _expand_environment(value: Any, path: ValuePath, environ: Mapping[str, str], problems: list[Problem]) -> Any:
    """Returns a copy of the tree in which `${NAME}` and the `*_env` keys are replaced by values of the environment."""

    def read(name: str, path: ValuePath) -> str:
        if name not in environ:
            problems.append(Problem(path, f"the environment variable {name} is not set; set it, or name another"))
            return f"unset {name}"
        return environ[name]

    match value:
        case str():
            return _VARIABLE_PATTERN.sub(lambda match: read(match[1], path), value)
        case list():
            return [
                _expand_environment(entry, (*path, number), environ, problems) for number, entry in enumerate(value)
            ]
        case dict():
            expanded = {
                key: _expand_environment(entry, (*path, key), environ, problems) for key, entry in value.items()
            }
            for key, target in _ENVIRONMENT_KEYS.items():
                if not isinstance(name := expanded.get(key), str):
                    continue
                if expanded.get(target) is not None:
                    problems.append(Problem((*path, key), f"write {key} or {target}, not both"))
                expanded[target] = read(name, (*path, key))
            return expanded
    return value


def _check_model_providers(rows: Sequence[ModelRow], tree: Mapping[str, Any]) -> Iterator[Problem]:
    providers = mapping_or_empty(tree.get("providers"))
    for row in rows:
        provider = row.values.get("provider")
        if isinstance(provider, str) and provider not in providers:
            message = f"there is no provider {provider!r}; {_suggest_name(provider, providers)}"
            yield Problem(row.locate("provider"), message)


def _check_model_servers(tree: Mapping[str, Any]) -> Iterator[Problem]:
    servers = mapping_or_empty(mapping_or_empty(mapping_or_empty(tree.get("tools")).get("mcp")).get("servers"))
    for name, model in mapping_or_empty(tree.get("models")).items():
        labels = mapping_or_empty(mapping_or_empty(model).get("tools")).get("mcp")
        for number, label in enumerate(labels if isinstance(labels, list) else ()):
            if isinstance(label, str) and label not in servers:
                yield Problem(
                    ("models", name, "tools", "mcp", number),
                    f"there is no server {label!r} in tools.mcp.servers; {_suggest_name(label, servers)}",
                )


def _check_model_searches(tree: Mapping[str, Any]) -> Iterator[Problem]:
    mapped_tools = list_mapped_tools(tree)
    has_engine = bool(mapping_or_empty(mapping_or_empty(tree.get("tools")).get("web_search")).get("engine"))
    has_engine = has_engine or "web_search" in mapped_tools
    for name, model in mapping_or_empty(tree.get("models")).items():
        if mapping_or_empty(mapping_or_empty(model).get("tools")).get("web_search") is True and not has_engine:
            yield Problem(("models", name, "tools", "web_search"), "there is no engine: write tools.web_search.engine")
        own = mapping_or_empty(mapping_or_empty(model).get("tools")).get("code_interpreter")
        if own is True and "code_interpreter" not in mapped_tools:
            yield Problem(
                ("models", name, "tools", "code_interpreter"),
                "nothing runs code: write a tool of an MCP server that does (tools.mcp.servers.NAME.as)",
            )


def _check_embeddings(tree: Mapping[str, Any]) -> Iterator[Problem]:
    settings = mapping_or_empty(mapping_or_empty(tree.get("tools")).get("file_search")).get("embeddings")
    name, providers = mapping_or_empty(settings).get("provider"), mapping_or_empty(tree.get("providers"))
    if not isinstance(name, str):
        return
    place: ValuePath = ("tools", "file_search", "embeddings", "provider")
    if name not in providers:
        yield Problem(place, f"there is no provider {name!r}; {_suggest_name(name, providers)}")
        return
    provider = mapping_or_empty(providers[name])
    own = next((each for kind, each in CAPABILITIES.items() if kind == provider.get("type")), None)
    endpoints = mapping_or_empty(provider.get("capabilities")).get("endpoints")
    if endpoints is None:
        endpoints = () if own is None else own.endpoints
    if isinstance(endpoints, Collection) and "embeddings" not in endpoints:
        yield Problem(place, f"the provider {name!r} has no /v1/embeddings: write one that has")


def _check_model_files(tree: Mapping[str, Any]) -> Iterator[Problem]:
    store = tree.get("store")
    if not isinstance(store, dict) or store.get("url", "") is not None or "file_search" in list_mapped_tools(tree):
        return
    for name, model in mapping_or_empty(tree.get("models")).items():
        if mapping_or_empty(mapping_or_empty(model).get("tools")).get("file_search") is not None:
            yield Problem(("models", name, "tools", "file_search"), "there are no vector stores: write store.url")


def _check_families(tree: Mapping[str, Any]) -> Iterator[Problem]:
    families = mapping_or_empty(tree.get("families"))
    for name, family in families.items():
        if name not in MODEL_FAMILIES and isinstance(family, dict) and not family.get("patterns"):
            yield Problem(("families", name, "patterns"), "is missing; write the patterns of the names of its models")
        parser = mapping_or_empty(family).get("tool_parser")
        if isinstance(parser, str) and (problem := engine_checks.find_tool_parser_problem("vllm_inprocess", parser)):
            yield Problem(("families", name, "tool_parser"), problem)


def _check_profiles(rows: Sequence[ModelRow], tree: Mapping[str, Any]) -> Iterator[Problem]:
    known = {**MODEL_FAMILIES, **mapping_or_empty(tree.get("families"))}
    for row in rows:
        profile = row.values.get("profile")
        if isinstance(profile, str) and profile not in known:
            yield Problem(row.locate("profile"), f"there is no profile {profile}; write one of {', '.join(known)}")


def _check_two_pass_and_parsers(rows: Sequence[ModelRow], tree: Mapping[str, Any]) -> Iterator[Problem]:
    providers = mapping_or_empty(tree.get("providers"))
    for name, config in providers.items():
        if mapping_or_empty(mapping_or_empty(config).get("capabilities")).get("two_pass") is True:
            yield from _check_two_pass_type(
                mapping_or_empty(config).get("type"), ("providers", name, "capabilities", "two_pass")
            )
    for row in rows:
        two_pass, provider = row.values.get("two_pass"), row.values.get("provider")
        kind = mapping_or_empty(providers.get(provider)).get("type") if isinstance(provider, str) else None
        if two_pass not in (None, False, "off"):
            yield from _check_two_pass_type(kind, row.locate("two_pass"))
        if two_pass == "engine" and kind in TOKEN_PROMPT_TYPES - BUDGET_ENFORCING_TYPES:
            yield Problem(row.locate("two_pass"), f"{kind} cannot enforce a thinking budget in one pass: write true")
        if mapping_or_empty(row.values.get("capabilities")).get("two_pass") is True:
            yield from _check_two_pass_type(kind, row.locate("capabilities", "two_pass"))
        parser = row.values.get("tool_parser")
        is_in_tokens = kind in TOKEN_PROMPT_TYPES and two_pass not in (None, False, "off", "engine")
        if parser == "openai" and (is_in_tokens or kind in TOKENS_ONLY_TYPES):
            yield Problem(
                row.locate("tool_parser"),
                "openai is for servers that return calls apart from the text, and an engine returns only text: write "
                "the parser of the model's format, such as hermes; for gpt-oss, use a provider of type harmony",
            )
        parser_problem = (
            engine_checks.find_tool_parser_problem(kind, parser)
            if kind is not None and isinstance(parser, str)
            else None
        )
        if parser_problem is not None:
            yield Problem(row.locate("tool_parser"), parser_problem)


def _check_two_pass_type(kind: Any, path: ValuePath) -> Iterator[Problem]:
    """Yields a problem if two passes are not possible with this type of provider."""
    if kind is not None and kind not in TOKEN_PROMPT_TYPES:
        suitable_types = ", ".join(sorted(TOKEN_PROMPT_TYPES))
        yield Problem(path, f"{kind} cannot continue a partial reply; providers of type {suitable_types} can")


def _check_engines(tree: Mapping[str, Any]) -> Iterator[Problem]:
    for name, values in mapping_or_empty(tree.get("providers")).items():
        try:
            config = ProviderConfig.model_validate(values)
        except ValidationError:
            continue  # reported with the rest of the file
        for complaint in engine_checks.check_engine_config(config):
            yield Problem(("providers", name, *complaint.path), complaint.message)


def _check_exposure(tree: Mapping[str, Any]) -> Iterator[Problem]:
    host = mapping_or_empty(tree.get("server")).get("host")
    if isinstance(host, str) and not is_loopback(host) and not mapping_or_empty(tree.get("auth")).get("keys"):
        yield Problem(
            ("server", "host"), f"{host} can be reached by others: write auth.keys, or listen on 127.0.0.1 only"
        )


def _drop_implied_errors(error: ValidationError) -> list[ErrorDetails]:
    """Returns the errors without lists that pydantic reports as too short only because their entries are invalid."""
    errors = error.errors(include_url=False)
    inside = {details["loc"][:end] for details in errors for end in range(len(details["loc"]))}
    return [details for details in errors if details["type"] != "too_short" or details["loc"] not in inside]


def _problem_of(place: "_Place", details: ErrorDetails) -> Problem:
    path, kind, context = place.path, details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return Problem(path, f"unknown key; {_suggest_name(str(path[-1]), list(place.siblings))}")
    if kind == "missing":
        description = (place.siblings[str(path[-1])].description or "").partition(".")[0]
        return Problem(path, f"is missing; write {description[:1].lower()}{description[1:]}")
    if kind == "literal_error":
        return Problem(path, f"write {context['expected']}, not {_redact_value(details['input'])}")
    if kind in _ADVICE_BY_ERROR_TYPE:
        actual = f", not {_redact_value(details['input'])}" if kind.endswith(("_type", "_parsing", "_float")) else ""
        return Problem(path, _ADVICE_BY_ERROR_TYPE[kind] + actual)
    message = details["msg"].removeprefix("Input ")
    actual = f", not {_redact_value(details['input'])}" if kind in _BOUND_ERRORS else ""
    return Problem(path, message + actual)


def _suggest_name(word: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    if near:
        return f"did you mean {near[0]}?"
    return f"write one of {', '.join(known)}" if known else "there are none"


def _is_inside(path: ValuePath, outer: ValuePath) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


class _Place(NamedTuple):
    """Where an error is: its path in the document, and the keys that may be set there, with their fields."""

    path: ValuePath
    siblings: Mapping[str, FieldInfo]
    is_of_choice: bool = False
    """Whether the value itself is none of several forms that are allowed, for one of which this error is."""


def _find_place(model: type[BaseModel], location: tuple[int | str, ...]) -> _Place:
    """Returns the place of pydantic's location, which also has a step for the form of a value that may have several."""
    annotation: Any = model
    path: list[int | str] = []
    siblings: Mapping[str, FieldInfo] = {}
    is_of_choice = False
    for step in location:
        if step == "[key]":
            continue
        forms = _list_forms(annotation)
        is_of_choice = len(forms) > 1
        if is_of_choice:
            annotation = next((form for form in forms if getattr(form, "__name__", None) == step), Any)
            continue
        (annotation,) = forms
        path.append(step)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            siblings = {field.alias or name: field for name, field in annotation.model_fields.items()}
            annotation = siblings[str(step)].annotation if step in siblings else Any
        else:
            arguments = get_args(annotation) or (Any,)
            annotation = arguments[-1 if get_origin(annotation) is dict else 0]
    return _Place(tuple(path), siblings, is_of_choice)


def _list_forms(annotation: Any) -> Sequence[Any]:
    """Returns the forms that a value may have, without null."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [form for form in get_args(annotation) if form is not type(None)]
    return [annotation]


def _redact_value(value: Any) -> str:
    """Renders enough of a value to find it in the file.

    The text is short, and never has the content of a structure, which may include an API key.
    """
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case dict():
            return "keys and values"
        case list() | tuple():
            return "a list"
    return repr(value)[:40]


def find_fixed_changes(running: BaseModel, settings: BaseModel) -> Iterator[Problem]:
    """Yields one problem for each key outside `RELOADABLE_SECTIONS` that differs. Both values are whole settings."""
    for section in type(settings).model_fields.keys() - RELOADABLE_SECTIONS:
        old, new = getattr(running, section), getattr(settings, section)
        if old == new:
            continue
        if not isinstance(old, BaseModel) or not isinstance(new, BaseModel):
            yield Problem((section,), _RESTART_ADVICE)
            continue
        for key in type(new).model_fields:
            if getattr(old, key) != getattr(new, key):
                yield Problem((section, key), _RESTART_ADVICE)
