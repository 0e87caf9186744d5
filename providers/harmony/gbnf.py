"""JSON schemas as rules of llama.cpp's grammars, so that nothing but what fits them can be written.

What a grammar cannot say (ranges, patterns, lengths) is left open and told of. Keys come in the order in which the
schema names them. https://github.com/ggml-org/llama.cpp/tree/master/grammars
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

_DEEPEST: Final = 64
_MOST_RULES: Final = 5_000
_MOST_ITEMS: Final = 200
"""Longer lists are not counted: llama.cpp writes a counted rule out as often as it counts."""

_OPEN: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
        *("uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties", "dependentRequired"),
        *("dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "not", "if", "then", "else"),
    }
)
"""Keywords that are not held to."""

_HELD: Final = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "allOf"),
        *("properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    }
)
"""Keywords that are, where nothing is said beside them that takes their place."""

BASE: Final[Mapping[str, str]] = {
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


def literal(text: str) -> str:
    """The text and nothing else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


class Rules:
    """Collects the rules of one grammar."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = dict(BASE)
        self.left_open: set[str] = set()
        """Keywords of the schemas so far that are not held to."""
        self._root: Any = None
        self._named: dict[str, str] = {}

    def add(self, name: str, rule: str) -> str:
        """A rule of its own; the name to refer to it by."""
        if name in self.rules:
            name = f"{name}-{len(self.rules)}"
        self.rules[name] = rule
        return name

    def of(self, schema: Any, name: str) -> str:
        """The name of a rule for JSON that fits the schema; others that it needs are named after it."""
        self._root, self._named = schema, {}
        return self.add(name, self._rule(schema, name, 0))

    def text(self) -> str:
        """The grammar. It begins with the rule `root`."""
        return "\n".join(f"{name} ::= {rule}" for name, rule in self.rules.items())

    def _rule(self, schema: Any, name: str, depth: int) -> str:
        if schema is False or depth > _DEEPEST or len(self.rules) > _MOST_RULES:
            self.left_open.add("false" if schema is False else "nesting" if depth > _DEEPEST else "size")
            return "value"
        if not isinstance(schema, Mapping):
            return "value"
        self.left_open |= _OPEN & schema.keys()
        if "$ref" in schema:
            self.left_open |= _HELD & schema.keys()
            return self._referred(schema["$ref"], name, depth)
        if "const" in schema:
            return _constant(schema["const"])
        if isinstance(enum := schema.get("enum"), list) and enum:
            return " | ".join(map(_constant, enum))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(each := schema.get(keyword), list) and each:
                rest = {key: value for key, value in schema.items() if key != keyword}
                return self._any([self._merged(rest, one) for one in each], name, depth)
        if isinstance(each := schema.get("allOf"), list) and each:
            whole: Any = {key: value for key, value in schema.items() if key != "allOf"}
            for one in each:
                whole = self._merged(whole, self._resolved(one))
            return self._rule(whole, name, depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            return self._any([{**schema, "type": kind} for kind in kinds], name, depth)
        return self._of_kind(schema, kinds, name, depth)

    def _of_kind(self, schema: Mapping[str, Any], kind: Any, name: str, depth: int) -> str:
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, name, depth)
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._array(schema, name, depth)
        return kind if kind in ("string", "integer", "number", "boolean", "null") else "value"

    def _any(self, schemas: Sequence[Any], name: str, depth: int) -> str:
        names: list[str] = []
        for place, one in enumerate(schemas):
            if len(self.rules) > _MOST_RULES:
                # Alternatives of alternatives double with every level: none is looked at any more.
                self.left_open.add("size")
                return "value"
            names.append(self.add(f"{name}-{place}", self._rule(one, f"{name}-{place}", depth + 1)))
        return " | ".join(names)

    def _referred(self, ref: Any, name: str, depth: int) -> str:
        """Each place that is referred to has one rule, also where it refers to itself."""
        if not isinstance(ref, str):
            return "value"
        if ref not in self._named:
            rule = self._named[ref] = self.add(f"{name}-ref", "value")
            self.rules[rule] = self._rule(self._found(ref), rule, depth + 1)
            if self.rules[rule] == rule:
                self.rules[rule] = "value"  # it refers to itself and to nothing else
        return self._named[ref]

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._found(schema["$ref"])
        return True

    def _merged(self, one: Any, other: Any) -> Any:
        """A schema for what fits both, as far as one schema can say so."""
        if not isinstance(other, Mapping) or not isinstance(one, Mapping):
            return other if isinstance(one, Mapping) and other is False else one
        self.left_open |= set(_overwritten(one, other))
        both = {**one, **other}
        for key, join in _JOINED.items():
            if isinstance(one.get(key), Mapping | list) and isinstance(other.get(key), type(one[key])):
                both[key] = join(one[key], other[key])
        return both

    def _found(self, ref: str) -> Any:
        place = self._root
        if not ref.startswith("#"):
            self.left_open.add("$ref")
            return True
        for key in filter(None, ref[1:].split("/")):
            key = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, Mapping) or key not in place:
                self.left_open.add("$ref")
                return True
            place = place[key]
        return place

    def _object(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        said = schema.get("properties")
        properties: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
        required = schema.get("required")
        needed = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
        more = schema.get("additionalProperties", not properties)
        # What is required and not described may be anything.
        fields = {**properties, **dict.fromkeys(sorted(needed - properties.keys()), True)}
        if not fields and more is True:
            return "object"
        pairs = [
            (self._pair(key, one, f"{name}-{place}", depth), key in needed)
            for place, (key, one) in enumerate(fields.items())
        ]
        first, rest = self._others(more, name, depth)
        for place in reversed(range(len(pairs))):
            pair, is_needed = pairs[place]
            begins = f"{pair} {rest}".strip()
            goes_on = f'ws "," ws {begins}'
            first = begins if is_needed else self._either(begins, first)
            rest = self.add(f"{name}-{place}-rest", goes_on if is_needed else self._either(goes_on, rest))
            first = self.add(f"{name}-{place}-first", first)
        return f'"{{" ws {first} ws "}}"'

    def _pair(self, key: str, schema: Any, name: str, depth: int) -> str:
        value = self.add(f"{name}-value", self._rule(schema, f"{name}-value", depth + 1))
        return f'{literal(_json(key))} ws ":" ws {value}'

    def _others(self, more: Any, name: str, depth: int) -> tuple[str, str]:
        """Rules for what is not described: where it is the first of an object's pairs, and where it follows some."""
        if more is False:
            return "", ""
        value = self.add(f"{name}-more", self._rule(more, f"{name}-more", depth + 1))
        pair = f'string ws ":" ws {value}'
        rest = self.add(f"{name}-others", f'(ws "," ws {pair})*')
        return self.add(f"{name}-only", f"({pair} {rest})?"), rest

    @staticmethod
    def _either(one: str, other: str) -> str:
        return f"{one} | {other}" if other else f"({one})?"

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and prefix:
            self.left_open |= {"prefixItems"} if "items" in schema else set()
            each = [self.add(f"{name}-{n}", self._rule(one, f"{name}-{n}", depth + 1)) for n, one in enumerate(prefix)]
            return '"[" ws ' + ' ws "," ws '.join(each) + ' ws "]"'
        item = self.add(f"{name}-item", self._rule(schema.get("items", True), f"{name}-item", depth + 1))
        least, most = _count(schema.get("minItems")) or 0, _count(schema.get("maxItems"))
        if least > _MOST_ITEMS or (most or 0) > _MOST_ITEMS:
            self.left_open |= {"minItems", "maxItems"} & schema.keys()
            least, most = min(least, 1), None
        if most == 0:
            return '"[" ws "]"'
        counted = f"{{{max(least - 1, 0)},{'' if most is None else max(most, least, 1) - 1}}}"
        listed = f'{item} (ws "," ws {item}){counted}'
        return f'"[" ws {listed if least else f"({listed})?"} ws "]"'


def _count(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else None


def _constant(value: Any) -> str:
    return literal(_json(value))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


_JOINED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "properties": lambda one, other: {**one, **other},
    "required": lambda one, other: [*one, *other],
}
"""Keyword -> how two schemas say it together."""


def _overwritten(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Keywords of one schema that the other has too, and says otherwise."""
    for key in one.keys() & other.keys() & _HELD:
        said, again = one[key], other[key]
        if key == "properties" and isinstance(said, Mapping) and isinstance(again, Mapping):
            is_kept = all(said[name] == again[name] for name in said.keys() & again.keys())
        else:
            is_kept = said == again or key in _JOINED
        if not is_kept:
            yield key
