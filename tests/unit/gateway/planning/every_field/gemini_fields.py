"""Every field of a request of Gemini's API, each once.

A case is named as the schema names the field: the object it is in, and its key. Parameters have only their key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json

_HI: Final[Json] = {"role": "user", "parts": [{"text": "Hi"}]}
_PIXEL: Final[Json] = {"mimeType": "image/png", "data": "iVBORw0KGgo="}
_PAPER: Final[Json] = {"mimeType": "application/pdf", "data": "JVBERi0="}
_CALL: Final[Json] = {"id": "t1", "name": "f", "args": {}}
_RESULT: Final[Json] = {"id": "t1", "name": "f", "response": {"output": "done"}}
_OBJECT: Final[Json] = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}


def _body(*contents: Json, **more: Any) -> Json:
    return {"contents": [*contents, _HI], **more}


def _user(*parts: Json) -> Json:
    return {"role": "user", "parts": [{"text": "See"}, *parts]}


def _model(*parts: Json) -> Json:
    return {"role": "model", "parts": [*parts]}


def _part(place: str, plain: Json | None, asked: Json, value: str | None = None) -> Case:
    before = _user() if plain is None else _user(plain)
    return Case(f"contents.parts.{place}", _body(before), _body(_user(asked)), value)


def _own(place: str, plain: Json, asked: Json, value: str | None = None) -> Case:
    so = {"text": "So."}
    return Case(f"contents.parts.{place}", _body(_HI, _model(plain, so)), _body(_HI, _model(asked, so)), value)


def _called(call: Json, result: Json) -> Json:
    return _body(_HI, _model({"functionCall": call}), {"role": "user", "parts": [{"functionResponse": result}]})


def _loop(place: str, call: Json, result: Json, value: str | None = None) -> Case:
    return Case(f"contents.parts.{place}", _called(_CALL, _RESULT), _called(call, result), value)


def _declared(place: str, asked: Json, value: str | None = None, **plain: Any) -> Case:
    function = {"name": "f", "parameters": _OBJECT, **plain}
    before = _body(tools=[{"functionDeclarations": [function]}])
    after = _body(tools=[{"functionDeclarations": [{**function, **asked}]}])
    return Case(f"tools.functionDeclarations.{place}", before, after, value)


def _schema(key: str, asked: Any, value: str | None = None, **plain: Any) -> Case:
    before = {"type": "OBJECT", "properties": {"a": plain or {"type": "STRING"}}}
    after = {"type": "OBJECT", "properties": {"a": {**(plain or {"type": "STRING"}), key: asked}}}
    return _declared("parameters", {"parameters": after}, value, parameters=before)


def _whole_schema(key: str, asked: Any, value: str | None = None) -> Case:
    return _declared("parameters", {"parameters": {**_OBJECT, key: asked}}, value)


def _config(key: str, asked: Any, value: str | None = None, **plain: Any) -> Case:
    return Case(
        f"generationConfig.{key}",
        _body(generationConfig=plain),
        _body(generationConfig={**plain, key: asked}),
        value,
    )


def _thinking(key: str, asked: Any) -> Case:
    return Case(
        f"generationConfig.thinkingConfig.{key}",
        _body(),
        _body(generationConfig={"thinkingConfig": {key: asked}}),
    )


def _choice(key: str, asked: Json, plain: Json) -> Case:
    tools = [{"functionDeclarations": [{"name": name, "parameters": _OBJECT} for name in ("f", "g")]}]
    return Case(
        f"toolConfig.functionCallingConfig.{key}",
        _body(tools=tools, toolConfig={"functionCallingConfig": plain}),
        _body(tools=tools, toolConfig={"functionCallingConfig": {**plain, **asked}}),
    )


def _tool_config(key: str, asked: Any) -> Case:
    return Case(f"toolConfig.{key}", _body(), _body(toolConfig={key: asked}))


def _code(key: str, part: Json, value: str) -> Case:
    return _own(key, {"text": "So"}, part, value)


CASES: Final[dict[str, Case]] = {
    "contents": Case("contents", _body(), _body(_HI, _model({"text": "FIELD"})), "FIELD"),
    "systemInstruction": Case(
        "systemInstruction", _body(), _body(systemInstruction={"parts": [{"text": "FIELD"}]}), "FIELD"
    ),
    "tools": Case(
        "tools", _body(), _body(tools=[{"functionDeclarations": [{"name": "FIELD", "parameters": _OBJECT}]}]), "FIELD"
    ),
    "cachedContent": Case("cachedContent", _body(), _body(cachedContent="c")),
    "labels": Case("labels", _body(), _body(labels={"a": "b"})),
    "safetySettings": Case("safetySettings", _body(), _body(safetySettings=[{"category": "FIELD"}])),
    "serviceTier": Case("serviceTier", _body(), _body(serviceTier="priority")),
    "store": Case("store", _body(), _body(store=True)),
    "stream": Case("stream", _body(), _body(stream=True)),
    "Part.text": _part("text", None, {"text": "FIELD"}, "FIELD"),
    "Part.thought": _own("text", {"text": "Hm."}, {"text": "Hm.", "thought": True}),
    "Part.mediaResolution": _part(
        "mediaResolution", {"inlineData": _PIXEL}, {"inlineData": _PIXEL, "mediaResolution": {"level": "LOW"}}
    ),
    "Part.videoMetadata": _part(
        "videoMetadata", {"inlineData": _PIXEL}, {"inlineData": _PIXEL, "videoMetadata": {"fps": 1}}
    ),
    "Part.inlineData": _part("inlineData", None, {"inlineData": _PIXEL}, "iVBORw0KGgo="),
    "Part.fileData": _part(
        "fileData", None, {"fileData": {"mimeType": "image/png", "fileUri": "http://a/FIELD"}}, "FIELD"
    ),
    "Blob.data": _part("inlineData", None, {"inlineData": _PIXEL}, "iVBORw0KGgo="),
    "Blob.mimeType": _part("inlineData", None, {"inlineData": {**_PIXEL, "mimeType": "image/webp"}}),
    "Blob.displayName": _part("inlineData", {"inlineData": _PAPER}, {"inlineData": {**_PAPER, "displayName": "FIELD"}}),
    "FileData.fileUri": _part("fileData", None, {"fileData": {"fileUri": "http://a/FIELD"}}, "FIELD"),
    "FileData.mimeType": _part(
        "fileData",
        {"fileData": {"fileUri": "http://a/b"}},
        {"fileData": {"fileUri": "http://a/b", "mimeType": "image/png"}},
    ),
    "FileData.displayName": _part(
        "fileData",
        {"fileData": {"fileUri": "http://a/b"}},
        {"fileData": {"fileUri": "http://a/b", "displayName": "FIELD"}},
    ),
    "FunctionCall.name": _loop("functionCall.name", {**_CALL, "name": "FIELD"}, {**_RESULT, "name": "FIELD"}, "FIELD"),
    "FunctionCall.args": _loop("functionCall.args", {**_CALL, "args": {"a": "FIELD"}}, _RESULT, "FIELD"),
    "FunctionResponse.response": _loop(
        "functionResponse.response", _CALL, {**_RESULT, "response": {"output": "FIELD"}}, "FIELD"
    ),
    "FunctionResponse.parts": _loop(
        "functionResponse.parts", _CALL, {**_RESULT, "parts": [{"inlineData": _PIXEL}]}, "iVBORw0KGgo="
    ),
    "FunctionResponse.willContinue": _loop("functionResponse", _CALL, {**_RESULT, "willContinue": True}),
    "FunctionResponse.scheduling": _loop("functionResponse.scheduling", _CALL, {**_RESULT, "scheduling": "SILENT"}),
    "ExecutableCode.code": _code("executableCode", {"executableCode": {"code": "FIELD"}}, "FIELD"),
    "ExecutableCode.language": _code("executableCode", {"executableCode": {"code": "a", "language": "FIELD"}}, "field"),
    "CodeExecutionResult.output": _code("codeExecutionResult", {"codeExecutionResult": {"output": "FIELD"}}, "FIELD"),
    "CodeExecutionResult.outcome": _code("codeExecutionResult", {"codeExecutionResult": {"outcome": "FIELD"}}, "FIELD"),
    "Instruction.parts": Case(
        "systemInstruction", _body(), _body(systemInstruction={"parts": [{"text": "FIELD"}]}), "FIELD"
    ),
    "FunctionDeclaration.name": _declared("name", {"name": "FIELD"}, "FIELD"),
    "FunctionDeclaration.description": _declared("description", {"description": "FIELD"}, "FIELD"),
    "FunctionDeclaration.parametersJsonSchema": Case(
        "tools.functionDeclarations.parametersJsonSchema",
        _body(tools=[{"functionDeclarations": [{"name": "f"}]}]),
        _body(
            tools=[
                {
                    "functionDeclarations": [
                        {
                            "name": "f",
                            "parametersJsonSchema": {"type": "object", "properties": {"FIELD": {"type": "string"}}},
                        }
                    ]
                }
            ]
        ),
        "FIELD",
    ),
    "FunctionDeclaration.response": _declared("response", {"response": _OBJECT}),
    "FunctionDeclaration.responseJsonSchema": _declared("responseJsonSchema", {"responseJsonSchema": {}}),
    "FunctionDeclaration.behavior": _declared("behavior", {"behavior": "NON_BLOCKING"}),
    "Tool.googleSearch": Case("tools", _body(), _body(tools=[{"googleSearch": {}}])),
    "Tool.googleSearchRetrieval": Case("tools", _body(), _body(tools=[{"googleSearchRetrieval": {}}])),
    "FunctionCallingConfig.mode": _choice("mode", {"mode": "ANY"}, {"mode": "AUTO"}),
    "FunctionCallingConfig.allowedFunctionNames": _choice(
        "allowedFunctionNames", {"allowedFunctionNames": ["g"]}, {"mode": "ANY"}
    ),
    "FunctionCallingConfig.streamFunctionCallArguments": _choice(
        "streamFunctionCallArguments", {"streamFunctionCallArguments": True}, {"mode": "AUTO"}
    ),
    "ToolConfig.retrievalConfig": _tool_config("retrievalConfig", {"languageCode": "de"}),
    "ToolConfig.includeServerSideToolInvocations": _tool_config("includeServerSideToolInvocations", True),
    "GenerationConfig.temperature": _config("temperature", 0.5),
    "GenerationConfig.topP": _config("topP", 0.5),
    "GenerationConfig.topK": _config("topK", 5),
    "GenerationConfig.maxOutputTokens": _config("maxOutputTokens", 99),
    "GenerationConfig.stopSequences": _config("stopSequences", ["FIELD"], "FIELD"),
    "GenerationConfig.candidateCount": _config("candidateCount", 2),
    "GenerationConfig.seed": _config("seed", 1),
    "GenerationConfig.presencePenalty": _config("presencePenalty", 0.5),
    "GenerationConfig.frequencyPenalty": _config("frequencyPenalty", 0.5),
    "GenerationConfig.responseLogprobs": _config("responseLogprobs", True),
    "GenerationConfig.logprobs": _config("logprobs", 2, responseLogprobs=True),
    "GenerationConfig.responseMimeType": _config("responseMimeType", "application/json"),
    "GenerationConfig.responseSchema": _config(
        "responseSchema",
        {"type": "OBJECT", "properties": {"FIELD": {"type": "STRING"}}},
        "FIELD",
        responseMimeType="application/json",
    ),
    "GenerationConfig.responseJsonSchema": _config(
        "responseJsonSchema",
        {"type": "object", "properties": {"FIELD": {"type": "string"}}},
        "FIELD",
        responseMimeType="application/json",
    ),
    "GenerationConfig.responseModalities": _config("responseModalities", ["IMAGE"]),
    "GenerationConfig.responseFormat": _config("responseFormat", [{"text": {"mimeType": "application/json"}}]),
    "GenerationConfig.mediaResolution": _config("mediaResolution", "LOW"),
    "ThinkingConfig.thinkingBudget": _thinking("thinkingBudget", 2000),
    "ThinkingConfig.thinkingLevel": _thinking("thinkingLevel", "HIGH"),
    "OpenApiSchema.type": _schema("type", "INTEGER", "integer"),
    "OpenApiSchema.format": _schema("format", "date-time", "date-time"),
    "OpenApiSchema.title": _schema("title", "FIELD", "FIELD"),
    "OpenApiSchema.description": _schema("description", "FIELD", "FIELD"),
    "OpenApiSchema.nullable": _schema("nullable", True, "null"),
    "OpenApiSchema.enum": _schema("enum", ["FIELD"], "FIELD"),
    "OpenApiSchema.items": _schema("items", {"type": "STRING", "title": "FIELD"}, "FIELD", type="ARRAY"),
    "OpenApiSchema.prefixItems": _schema("prefixItems", [{"type": "STRING", "title": "FIELD"}], "FIELD", type="ARRAY"),
    "OpenApiSchema.properties": _whole_schema("properties", {"FIELD": {"type": "STRING"}}, "FIELD"),
    "OpenApiSchema.required": _whole_schema("required", ["a"]),
    "OpenApiSchema.additionalProperties": _whole_schema(
        "additionalProperties", {"type": "STRING", "title": "FIELD"}, "FIELD"
    ),
    "OpenApiSchema.anyOf": _schema("anyOf", [{"type": "STRING", "title": "FIELD"}], "FIELD"),
    "OpenApiSchema.minItems": _schema("minItems", "7", type="ARRAY"),
    "OpenApiSchema.maxItems": _schema("maxItems", 7, type="ARRAY"),
    "OpenApiSchema.minProperties": _whole_schema("minProperties", 1),
    "OpenApiSchema.maxProperties": _whole_schema("maxProperties", 1),
    "OpenApiSchema.minLength": _schema("minLength", 7),
    "OpenApiSchema.maxLength": _schema("maxLength", 7),
    "OpenApiSchema.minimum": _schema("minimum", 7, type="NUMBER"),
    "OpenApiSchema.maximum": _schema("maximum", 7, type="NUMBER"),
    "OpenApiSchema.pattern": _schema("pattern", "FIELD"),
    "OpenApiSchema.default": _schema("default", "FIELD"),
    "OpenApiSchema.example": _schema("example", "FIELD"),
    "OpenApiSchema.defs": _whole_schema("defs", {"FIELD": {"type": "STRING"}}),
    "OpenApiSchema.ref": _schema("ref", "#/$defs/a"),
}
