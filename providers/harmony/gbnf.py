"""JSON schemas as rules of llama.cpp's grammars, so that nothing but what fits them can be written.

What a grammar cannot say (ranges, patterns, lengths) is left open and told of. Keys come in the order in which the
schema names them. https://github.com/ggml-org/llama.cpp/tree/master/grammars
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

_MAX_DEPTH: Final = 64
_MAX_RULES: Final = 5_000
_MAX_ITEMS: Final = 200
"""Longer lists are not counted: llama.cpp writes a counted rule out as often as it counts."""

_UNENFORCED_KEYWORDS: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
        *("uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties", "dependentRequired"),
        *("dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "not", "if", "then", "else"),
    }
)
"""Keywords that are not held to."""

_ENFORCED_KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "allOf"),
        *("properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    }
)
"""Keywords that are, where nothing is said beside them that takes their place."""

JSON_RULES: Final[Mapping[str, str]] = {
    # A text may not spell the beginning of a control token: the tokens themselves would fit the same letters.
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
"""Name -> rule, for JSON of any kind."""


def gbnf_literal(text: str) -> str:
    """The text and nothing else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


class GrammarRules:
    """Collects the rules of one grammar."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = dict(JSON_RULES)
        self.unenforced: set[str] = set()
        """Keywords of the schemas so far that are not held to."""
        self._root: Any = None
        self._rules_by_ref: dict[str, str] = {}

    def add_rule(self, name: str, rule: str) -> str:
        """A rule of its own; the name to refer to it by."""
        if name in self.rules:
            name = f"{name}-{len(self.rules)}"
        self.rules[name] = rule
        return name

    def add_schema(self, schema: Any, name: str) -> str:
        """The name of a rule for JSON that fits the schema; others that it needs are named after it."""
        self._root, self._rules_by_ref = schema, {}
        return self.add_rule(name, self._schema_rule(schema, name, 0))

    def text(self) -> str:
        """The grammar. It begins with the rule `root`."""
        return "\n".join(f"{name} ::= {rule}" for name, rule in self.rules.items())

    def _schema_rule(self, schema: Any, name: str, depth: int) -> str:
        if schema is False or depth > _MAX_DEPTH or len(self.rules) > _MAX_RULES:
            self.unenforced.add("false" if schema is False else "nesting" if depth > _MAX_DEPTH else "size")
            return "value"
        if not isinstance(schema, Mapping):
            return "value"
        self.unenforced |= _UNENFORCED_KEYWORDS & schema.keys()
        if "$ref" in schema:
            self.unenforced |= _ENFORCED_KEYWORDS & schema.keys()
            return self._ref_rule(schema["$ref"], name, depth)
        if "const" in schema:
            return _constant_rule(schema["const"])
        if isinstance(enum := schema.get("enum"), list) and enum:
            return " | ".join(map(_constant_rule, enum))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(each := schema.get(keyword), list) and each:
                rest = {key: value for key, value in schema.items() if key != keyword}
                return self._union_rule([self._merge_schemas(rest, one) for one in each], name, depth)
        if isinstance(each := schema.get("allOf"), list) and each:
            whole: Any = {key: value for key, value in schema.items() if key != "allOf"}
            for one in each:
                whole = self._merge_schemas(whole, self._resolve_refs(one))
            return self._schema_rule(whole, name, depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            return self._union_rule([{**schema, "type": kind} for kind in kinds], name, depth)
        return self._type_rule(schema, kinds, name, depth)

    def _type_rule(self, schema: Mapping[str, Any], kind: Any, name: str, depth: int) -> str:
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object_rule(schema, name, depth)
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._array_rule(schema, name, depth)
        return kind if kind in ("string", "integer", "number", "boolean", "null") else "value"

    def _union_rule(self, schemas: Sequence[Any], name: str, depth: int) -> str:
        names: list[str] = []
        for place, one in enumerate(schemas):
            if len(self.rules) > _MAX_RULES:
                # Alternatives of alternatives double with every level: none is looked at any more.
                self.unenforced.add("size")
                return "value"
            names.append(self.add_rule(f"{name}-{place}", self._schema_rule(one, f"{name}-{place}", depth + 1)))
        return " | ".join(names)

    def _ref_rule(self, ref: Any, name: str, depth: int) -> str:
        """Each place that is referred to has one rule, also where it refers to itself."""
        if not isinstance(ref, str):
            return "value"
        if ref not in self._rules_by_ref:
            rule = self._rules_by_ref[ref] = self.add_rule(f"{name}-ref", "value")
            self.rules[rule] = self._schema_rule(self._lookup_ref(ref), rule, depth + 1)
            if self.rules[rule] == rule:
                self.rules[rule] = "value"  # it refers to itself and to nothing else
        return self._rules_by_ref[ref]

    def _resolve_refs(self, schema: Any) -> Any:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._lookup_ref(schema["$ref"])
        return True

    def _merge_schemas(self, one: Any, other: Any) -> Any:
        """A schema for what fits both, as far as one schema can say so."""
        if not isinstance(other, Mapping) or not isinstance(one, Mapping):
            return other if isinstance(one, Mapping) and other is False else one
        self.unenforced |= set(_conflicting_keywords(one, other))
        both = {**one, **other}
        for key, join in _KEYWORD_MERGERS.items():
            if isinstance(one.get(key), Mapping | list) and isinstance(other.get(key), type(one[key])):
                both[key] = join(one[key], other[key])
        return both

    def _lookup_ref(self, ref: str) -> Any:
        place = self._root
        if not ref.startswith("#"):
            self.unenforced.add("$ref")
            return True
        for key in filter(None, ref[1:].split("/")):
            key = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, Mapping) or key not in place:
                self.unenforced.add("$ref")
                return True
            place = place[key]
        return place

    def _object_rule(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        declared = schema.get("properties")
        properties: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {}
        required = schema.get("required")
        needed = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
        more = schema.get("additionalProperties", not properties)
        # What is required and not described may be anything.
        fields = {**properties, **dict.fromkeys(sorted(needed - properties.keys()), True)}
        if not fields and more is True:
            return "object"
        pairs = [
            (self._pair_rule(key, one, f"{name}-{place}", depth), key in needed)
            for place, (key, one) in enumerate(fields.items())
        ]
        first, rest = self._additional_rules(more, name, depth)
        for place in reversed(range(len(pairs))):
            pair, is_needed = pairs[place]
            begins = f"{pair} {rest}".strip()
            goes_on = f'ws "," ws {begins}'
            first = begins if is_needed else self._alternation(begins, first)
            rest = self.add_rule(f"{name}-{place}-rest", goes_on if is_needed else self._alternation(goes_on, rest))
            first = self.add_rule(f"{name}-{place}-first", first)
        return f'"{{" ws {first} ws "}}"'

    def _pair_rule(self, key: str, schema: Any, name: str, depth: int) -> str:
        value = self.add_rule(f"{name}-value", self._schema_rule(schema, f"{name}-value", depth + 1))
        return f'{gbnf_literal(_json(key))} ws ":" ws {value}'

    def _additional_rules(self, more: Any, name: str, depth: int) -> tuple[str, str]:
        """Rules for what is not described: where it is the first of an object's pairs, and where it follows some."""
        if more is False:
            return "", ""
        value = self.add_rule(f"{name}-more", self._schema_rule(more, f"{name}-more", depth + 1))
        pair = f'string ws ":" ws {value}'
        rest = self.add_rule(f"{name}-others", f'(ws "," ws {pair})*')
        return self.add_rule(f"{name}-only", f"({pair} {rest})?"), rest

    @staticmethod
    def _alternation(one: str, other: str) -> str:
        return f"{one} | {other}" if other else f"({one})?"

    def _array_rule(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and prefix:
            self.unenforced |= {"prefixItems"} if "items" in schema else set()
            each = [
                self.add_rule(f"{name}-{n}", self._schema_rule(one, f"{name}-{n}", depth + 1))
                for n, one in enumerate(prefix)
            ]
            return '"[" ws ' + ' ws "," ws '.join(each) + ' ws "]"'
        item = self.add_rule(f"{name}-item", self._schema_rule(schema.get("items", True), f"{name}-item", depth + 1))
        least, most = _count_or_none(schema.get("minItems")) or 0, _count_or_none(schema.get("maxItems"))
        if least > _MAX_ITEMS or (most or 0) > _MAX_ITEMS:
            self.unenforced |= {"minItems", "maxItems"} & schema.keys()
            least, most = min(least, 1), None
        if most == 0:
            return '"[" ws "]"'
        counted = f"{{{max(least - 1, 0)},{'' if most is None else max(most, least, 1) - 1}}}"
        listed = f'{item} (ws "," ws {item}){counted}'
        return f'"[" ws {listed if least else f"({listed})?"} ws "]"'


def _count_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _constant_rule(value: Any) -> str:
    return gbnf_literal(_json(value))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


_KEYWORD_MERGERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "properties": lambda one, other: {**one, **other},
    "required": lambda one, other: [*one, *other],
}
"""Keyword -> how two schemas say it together."""


def _conflicting_keywords(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Keywords of one schema that the other has too, and says otherwise."""
    for key in one.keys() & other.keys() & _ENFORCED_KEYWORDS:
        value, other_value = one[key], other[key]
        if key == "properties" and isinstance(value, Mapping) and isinstance(other_value, Mapping):
            is_kept = all(value[name] == other_value[name] for name in value.keys() & other_value.keys())
        else:
            is_kept = value == other_value or key in _KEYWORD_MERGERS
        if not is_kept:
            yield key
