"""Which schemas of tools are left out, and why."""

import time
from typing import Any

import pytest

from translation.hosted.bounds import DEFAULT_SCHEMA_LIMITS as LIMITS
from translation.hosted.bounds import SchemaLimits
from translation.hosted.schema_checks import find_schema_fault
from translation.representation.json_types import Json


def nested(levels: int, *, in_lists: bool = False) -> Any:
    schema: Any = {"type": "object"}
    for _ in range(levels - 1):
        schema = {"anyOf": [[schema]]} if in_lists else {"a": schema}
    return schema


def with_property(**schema: Any) -> Any:
    return {"type": "object", "properties": {"a": schema}}


USABLE: dict[str, Any] = {
    "empty": {},
    "an object or null": {"type": ["object", "null"]},
    "recursive": with_property(**{"$ref": "#"}),
    "a definition": {**with_property(**{"$ref": "#/$defs/x~1y"}), "$defs": {"x/y": {"type": "string"}}},
    "a chain of references": {
        **with_property(**{"$ref": "#/$defs/x"}),
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"type": "string"}},
    },
    "a property named $ref": {"type": "object", "properties": {"$ref": {"type": "string"}}},
    "an older draft": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
    "an unknown draft": {"$schema": "https://example.com/x", "type": "object"},
    "nested repetitions, which take linear time": with_property(type="string", pattern="^(a+)+$"),
    "a pattern that looks ahead": with_property(type="string", pattern="^(?=x)y$"),
    "as deep as the limit": nested(32),
}


@pytest.mark.parametrize("schema", USABLE.values(), ids=USABLE)
def test_fault_13_a_usable_schema_is_unchanged(schema: Any) -> None:
    assert find_schema_fault(schema, SchemaLimits()) is None


FAULTS: dict[str, tuple[Any, str]] = {
    "no object": ("x", "its schema is not an object"),
    "of a text": ({"type": "string"}, "its schema is not one of objects"),
    "too deep": (nested(33), "its schema is nested deeper than 32 levels"),
    "too deep in lists": (nested(33, in_lists=True), "its schema is nested deeper than 32 levels"),
    "deeper than can be written": (nested(900), "its schema is nested deeper than 32 levels"),
    "a number that is too large": (with_property(maximum=2**64), "its schema has a number of more than 64 bits, "),
    "text that is not Unicode": (with_property(description="\ud800"), "its schema has a number of more than 64 bits, "),
    "too large": (with_property(description="x" * 65536), "its schema has more than 64 KiB"),
    "elsewhere": (with_property(**{"$ref": "http://h/x.json"}), "its schema refers to 'http://h/x.json', and nothing"),
    "a file": (with_property(**{"$ref": "file:///etc/passwd"}), "its schema refers to 'file:///etc/passwd'"),
    "to itself": (with_property(**{"$ref": "#/properties/a"}), "its schema has a circular reference to"),
    "in a circle": (
        {**with_property(**{"$ref": "#/$defs/x"}), "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}},
        "its schema has a circular reference to",
    ),
    "to nothing": (with_property(**{"$ref": "#/$defs/none"}), "its schema is invalid: Pointer '/$defs/none'"),
    "to nothing in a text": ({**with_property(**{"$ref": "#/x/y"}), "x": "y"}, "its schema is invalid: "),
    "not to be validated": ({"type": "object", "maxProperties": -1}, "its schema is invalid: "),
    "an unknown type": (with_property(type="nonsense"), "its schema is invalid: "),
    "no pattern": (with_property(type="string", pattern="((("), 'its schema is invalid: "(((" is not a "regex"'),
    "a huge pattern": (
        with_property(type="string", pattern="[a-z]{1000}{1000}{100}"),
        "its schema has a pattern that is too expensive: '[a-z]{1000}{1000}{100}'",
    ),
    "a catastrophic pattern": (
        with_property(type="string", pattern="^(?=(a+)+$)"),
        "its schema has a pattern that is too expensive: ",
    ),
    "a catastrophic pattern of names": ({"patternProperties": {"^(?=(a+)+$)": {}}}, "its schema has a pattern that is"),
}


@pytest.mark.parametrize(("schema", "fault"), FAULTS.values(), ids=FAULTS)
def test_fault_13_a_schema_that_cannot_be_used_has_a_reason(schema: Any, fault: str) -> None:
    found = find_schema_fault(schema, SchemaLimits())
    assert found is not None
    assert found.startswith(fault)
    assert len(found) < 300


def test_a_check_takes_linear_time_and_bounds_what_it_compiles() -> None:
    chain: Json = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1_000)} | {"d1000": {"type": "string"}}
    branches: Json = {
        f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(20)
    } | {"d20": {"type": "string"}}
    first = {"a": {"$ref": "#/$defs/d0"}}
    long_pattern = {"a": {"type": "string", "pattern": "(?=a)" + "a+" * 24_000}}
    began = time.thread_time()
    assert find_schema_fault({"type": "object", "$defs": chain, "properties": first}, LIMITS) is None
    fault = find_schema_fault({"type": "object", "$defs": branches, "properties": first}, LIMITS)
    assert fault == "its schema is too large: its references stand for too many subschemas"
    fault = find_schema_fault({"type": "object", "properties": long_pattern}, LIMITS)
    assert fault == "its schema has patterns of more than 8 KiB"
    assert time.thread_time() - began < 1, "some 50 ms; following each reference to its end took 2 s, the pattern 5 s"


def test_a_repeated_group_with_a_repetition_is_found_wherever_it_is() -> None:
    for pattern in ("(?=a)(a+)*", "(?!b)x(y*)+z", "(?=a)(b)(c{2,})*"):
        assert "too expensive" in (find_schema_fault(with_property(type="string", pattern=pattern), LIMITS) or "")
    for pattern in ("(?=a)a+(b)*", "(?=a)(a)+", "(?=a)a+"):
        assert find_schema_fault(with_property(type="string", pattern=pattern), LIMITS) is None
