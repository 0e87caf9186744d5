"""Translates JSON schemas to rules of llama.cpp's grammars, so that the model can only write JSON that fits them.

Keywords that a grammar cannot express (ranges, patterns, lengths) are not enforced, and are reported. Keys are written
in the order of the schema. https://github.com/ggml-org/llama.cpp/tree/master/grammars
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

_MAX_DEPTH: Final = 64
_MAX_RULES: Final = 5_000
_MAX_ITEMS: Final = 200
"""The largest `minItems` or `maxItems` that is enforced. llama.cpp expands a counted rule as many times as it
counts."""

_UNENFORCED_KEYWORDS: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
        *("uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties", "dependentRequired"),
        *("dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "not", "if", "then", "else"),
    }
)
"""Keywords that are not enforced."""

_ENFORCED_KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "allOf"),
        *("properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    }
)
"""Keywords that are enforced, unless another keyword of the same schema takes precedence."""

JSON_RULES: Final[Mapping[str, str]] = {
    # A string may not contain the beginning of a control token's spelling, because the token would match those letters.
    "string": r'"\"" chars "\""',
    "chars": r'([^"\\<\x00-\x1F\x7F] chars | "<" after-less | escape chars)?',
    "after-less": r'([^"\\<|\x00-\x1F\x7F] chars | "<" after-less | "|" after-bar | escape chars)?',
    "after-bar": r'([^"\\<a-z\x00-\x1F\x7F] chars | "<" after-less | escape chars)?',
    "escape": r'"\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})',
    "integer": r'"-"? ("0" | [1-9] [0-9]{0,17})',
    "number": r'integer ("." [0-9]{1,17})? ([eE] [-+]? [0-9]{1,3})?',
    "boolean": r'"true" | "false"',
    "null": r'"null"',
    "ws": r'(" " | "\n" [ \t]{0,20})?',
    "value": r"string | number | boolean | null | object | array",
    "object": r'"{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"',
    "array": r'"[" ws (value (ws "," ws value)*)? ws "]"',
}
"""Name -> rule, for JSON without a schema."""


def render_gbnf_literal(text: str) -> str:
    """Returns a literal that matches exactly the text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


class GrammarRules:
    """Collects the rules of one grammar."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = dict(JSON_RULES)
        self.unenforced: set[str] = set()
        """Keywords of the schemas so far that are not enforced."""
        self._root: Any = None
        self._rules_by_ref: dict[str, str] = {}

    def add_rule(self, name: str, rule: str) -> str:
        """Adds a rule. Returns its name, which may be `name` with a number."""
        if name in self.rules:
            name = f"{name}-{len(self.rules)}"
        self.rules[name] = rule
        return name

    def add_schema(self, schema: Any, name: str) -> str:
        """Adds rules for JSON that fits the schema. Returns the name of the first; the names of others begin with
        it."""
        self._root, self._rules_by_ref = schema, {}
        return self.add_rule(name, self._add_schema_rule(schema, name, 0))

    def text(self) -> str:
        """Returns the rules as text, one a line. The caller adds the rule `root`."""
        return "\n".join(f"{name} ::= {rule}" for name, rule in self.rules.items())

    def _add_schema_rule(self, schema: Any, name: str, depth: int) -> str:
        if schema is False or depth > _MAX_DEPTH or len(self.rules) > _MAX_RULES:
            self.unenforced.add("false" if schema is False else "nesting" if depth > _MAX_DEPTH else "size")
            return "value"
        if not isinstance(schema, Mapping):
            return "value"
        self.unenforced |= _UNENFORCED_KEYWORDS & schema.keys()
        if "$ref" in schema:
            self.unenforced |= _ENFORCED_KEYWORDS & schema.keys()
            return self._add_reference_rule(schema["$ref"], name, depth)
        if "const" in schema:
            return _render_constant(schema["const"])
        if isinstance(enum := schema.get("enum"), list) and enum:
            return " | ".join(map(_render_constant, enum))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(keyword), list) and options:
                rest = {key: value for key, value in schema.items() if key != keyword}
                return self._add_union_rule([self._merge_schemas(rest, option) for option in options], name, depth)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            merged: Any = {key: value for key, value in schema.items() if key != "allOf"}
            for part in parts:
                merged = self._merge_schemas(merged, self._resolve_refs(part))
            return self._add_schema_rule(merged, name, depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            return self._add_union_rule([{**schema, "type": kind} for kind in kinds], name, depth)
        return self._add_type_rule(schema, kinds, name, depth)

    def _add_type_rule(self, schema: Mapping[str, Any], kind: Any, name: str, depth: int) -> str:
        if kind == "object" or (kind is None and "properties" in schema):
            return self._add_object_rule(schema, name, depth)
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._add_array_rule(schema, name, depth)
        return kind if kind in ("string", "integer", "number", "boolean", "null") else "value"

    def _add_union_rule(self, schemas: Sequence[Any], name: str, depth: int) -> str:
        names: list[str] = []
        for index, schema in enumerate(schemas):
            if len(self.rules) > _MAX_RULES:
                # Stop here, because nested alternatives multiply with every level.
                self.unenforced.add("size")
                return "value"
            names.append(self.add_rule(f"{name}-{index}", self._add_schema_rule(schema, f"{name}-{index}", depth + 1)))
        return " | ".join(names)

    def _add_reference_rule(self, ref: Any, name: str, depth: int) -> str:
        """Returns the rule of a reference. Each referenced schema has one rule, also if it refers to itself."""
        if not isinstance(ref, str):
            return "value"
        if ref not in self._rules_by_ref:
            rule = self._rules_by_ref[ref] = self.add_rule(f"{name}-ref", "value")
            self.rules[rule] = self._add_schema_rule(self._lookup_ref(ref), rule, depth + 1)
            if self.rules[rule] == rule:
                self.rules[rule] = "value"  # a schema that is only a reference to itself
        return self._rules_by_ref[ref]

    def _resolve_refs(self, schema: Any) -> Any:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._lookup_ref(schema["$ref"])
        return True

    def _merge_schemas(self, one: Any, other: Any) -> Any:
        """Returns a schema for values that fit both, as far as one schema can express it."""
        if not isinstance(other, Mapping) or not isinstance(one, Mapping):
            return other if isinstance(one, Mapping) and other is False else one
        self.unenforced |= set(_find_conflicting_keywords(one, other))
        both = {**one, **other}
        for key, merge in _KEYWORD_MERGERS.items():
            if isinstance(one.get(key), Mapping | list) and isinstance(other.get(key), type(one[key])):
                both[key] = merge(one[key], other[key])
        return both

    def _lookup_ref(self, ref: str) -> Any:
        target = self._root
        if not ref.startswith("#"):
            self.unenforced.add("$ref")
            return True
        for key in filter(None, ref[1:].split("/")):
            key = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                self.unenforced.add("$ref")
                return True
            target = target[key]
        return target

    def _add_object_rule(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        declared = schema.get("properties")
        properties: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {}
        required = schema.get("required")
        required_keys = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
        additional = schema.get("additionalProperties", not properties)
        # Properties that are required but not described may have any value.
        fields = {**properties, **dict.fromkeys(sorted(required_keys - properties.keys()), True)}
        if not fields and additional is True:
            return "object"
        pairs = [
            (self._add_pair_rule(key, value_schema, f"{name}-{index}", depth), key in required_keys)
            for index, (key, value_schema) in enumerate(fields.items())
        ]
        first, rest = self._add_additional_rules(additional, name, depth)
        for index in reversed(range(len(pairs))):
            pair, is_required = pairs[index]
            as_first = f"{pair} {rest}".strip()
            as_next = f'ws "," ws {as_first}'
            first = as_first if is_required else self._alternation(as_first, first)
            rest = self.add_rule(f"{name}-{index}-rest", as_next if is_required else self._alternation(as_next, rest))
            first = self.add_rule(f"{name}-{index}-first", first)
        return f'"{{" ws {first} ws "}}"'

    def _add_pair_rule(self, key: str, schema: Any, name: str, depth: int) -> str:
        value = self.add_rule(f"{name}-value", self._add_schema_rule(schema, f"{name}-value", depth + 1))
        return f'{render_gbnf_literal(_render_json(key))} ws ":" ws {value}'

    def _add_additional_rules(self, additional: Any, name: str, depth: int) -> tuple[str, str]:
        """Returns rules for additional properties: as the first pairs of an object, and after other pairs."""
        if additional is False:
            return "", ""
        value = self.add_rule(f"{name}-more", self._add_schema_rule(additional, f"{name}-more", depth + 1))
        pair = f'string ws ":" ws {value}'
        rest = self.add_rule(f"{name}-others", f'(ws "," ws {pair})*')
        return self.add_rule(f"{name}-only", f"({pair} {rest})?"), rest

    @staticmethod
    def _alternation(one: str, other: str) -> str:
        return f"{one} | {other}" if other else f"({one})?"

    def _add_array_rule(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and prefix:
            self.unenforced |= {"prefixItems"} if "items" in schema else set()
            entries = [
                self.add_rule(f"{name}-{index}", self._add_schema_rule(entry, f"{name}-{index}", depth + 1))
                for index, entry in enumerate(prefix)
            ]
            return '"[" ws ' + ' ws "," ws '.join(entries) + ' ws "]"'
        item = self.add_rule(
            f"{name}-item", self._add_schema_rule(schema.get("items", True), f"{name}-item", depth + 1)
        )
        min_items, max_items = _read_count(schema.get("minItems")) or 0, _read_count(schema.get("maxItems"))
        if min_items > _MAX_ITEMS or (max_items or 0) > _MAX_ITEMS:
            self.unenforced |= {"minItems", "maxItems"} & schema.keys()
            min_items, max_items = min(min_items, 1), None
        if max_items == 0:
            return '"[" ws "]"'
        more = f"{{{max(min_items - 1, 0)},{'' if max_items is None else max(max_items, min_items, 1) - 1}}}"
        items = f'{item} (ws "," ws {item}){more}'
        return f'"[" ws {items if min_items else f"({items})?"} ws "]"'


def _read_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _render_constant(value: Any) -> str:
    return render_gbnf_literal(_render_json(value))


def _render_json(value: Any) -> str:
    return orjson.dumps(value).decode()


_KEYWORD_MERGERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "properties": lambda one, other: {**one, **other},
    "required": lambda one, other: [*one, *other],
}
"""Keyword -> how its values in two schemas are merged."""


def _find_conflicting_keywords(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keywords that both schemas have with different values that cannot be merged."""
    for key in one.keys() & other.keys() & _ENFORCED_KEYWORDS:
        value, other_value = one[key], other[key]
        if key == "properties" and isinstance(value, Mapping) and isinstance(other_value, Mapping):
            is_mergeable = all(value[name] == other_value[name] for name in value.keys() & other_value.keys())
        else:
            is_mergeable = value == other_value or key in _KEYWORD_MERGERS
        if not is_mergeable:
            yield key
