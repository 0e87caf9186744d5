"""gateway/pages/api_page.py: what the API page shows of an OpenAPI document."""

from gateway.pages.api_page import Field, build_api_page


def test_the_api_page_has_every_operation_with_its_fields() -> None:
    schema = {
        "required": ["model"],
        "properties": {
            "model": {
                "type": "string",
                "description": "its `name`",
                "examples": ["demo"],
                "x-in-reply": "The same.",
            },
            "stop": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "effort": {"enum": ["low", "high"]},
            "kind": {"const": "text"},
            "format": {"$ref": "#/components/schemas/MakeThing.Format"},
            "tool": {"oneOf": [{"$ref": f"#/$defs/Tool{number}"} for number in range(12)]},
            "extra": {},
        },
    }
    operation = {
        "tags": ["Things"],
        "description": "Make <one>.\n\nWith `a` thing.",
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/MakeThing"}}}},
    }
    page = build_api_page(
        {
            "paths": {"/v1/{id}/x": {"post": operation, "get": {}}},
            "components": {"schemas": {"MakeThing": schema, "MakeThing.Format": {"type": "object"}}},
        }
    )
    things, other = page.groups
    assert (things.title, other.title) == ("Things", "Other")
    [made] = things.operations
    assert (made.id, made.method, made.path) == ("post-v1-id-x", "POST", "/v1/{id}/x")
    assert made.paragraphs == ["Make <one>.", "With `a` thing."]
    assert made.fields == [
        Field("model", "string", True, "its `name`", '"demo"', "The same."),
        Field("stop", "string or list of string", False, "", "", ""),
        Field("effort", "'low' or 'high'", False, "", "", ""),
        Field("kind", "'text'", False, "", "", ""),
        Field("format", "Format", False, "", "", ""),
        Field("tool", "object, one of several types", False, "", "", ""),
        Field("extra", "any", False, "", "", ""),
    ]
    assert [(each.method, each.paragraphs, each.fields) for each in other.operations] == [("GET", [], None)]
