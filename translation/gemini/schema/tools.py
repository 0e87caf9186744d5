"""The shapes of tools and JSON schemas in requests of Gemini's API, as typed dictionaries that pydantic validates.

https://ai.google.dev/api/caching#Tool
"""

from typing import Any, Literal, Required

from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.validation import Name


class OpenApiSchema(TypedDict, total=False):
    """A subset of OpenAPI 3.0's schemas. https://ai.google.dev/api/caching#OpenApiSchema"""

    type: str
    format: str
    title: str
    description: str
    nullable: bool
    enum: list[str]
    items: "OpenApiSchema"
    prefixItems: "list[OpenApiSchema]"
    properties: "dict[str, OpenApiSchema]"
    propertyOrdering: list[str]
    required: list[str]
    additionalProperties: "OpenApiSchema | bool"
    anyOf: "list[OpenApiSchema]"
    minItems: int | str
    maxItems: int | str
    minProperties: int | str
    maxProperties: int | str
    minLength: int | str
    maxLength: int | str
    minimum: float
    maximum: float
    pattern: str
    default: Any
    example: Any
    defs: "dict[str, OpenApiSchema]"
    ref: str


class FunctionDeclaration(TypedDict, total=False):
    name: Required[Name]
    description: str
    parameters: OpenApiSchema
    parametersJsonSchema: Json
    response: Any
    responseJsonSchema: Any
    behavior: str


class Tool(TypedDict, total=False):
    """Functions of the client's own, or one tool that Google runs. Tools with other keys are Google's too."""

    functionDeclarations: list[FunctionDeclaration]
    googleSearch: Json
    googleSearchRetrieval: Json


class FunctionCallingConfig(TypedDict, total=False):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"]
    allowedFunctionNames: list[Name]
    streamFunctionCallArguments: bool


class ToolConfig(TypedDict, total=False):
    functionCallingConfig: FunctionCallingConfig
    retrievalConfig: Json
    includeServerSideToolInvocations: bool
