"""The shapes of contents and their parts in requests of Gemini's API, as typed dictionaries that pydantic validates.

https://ai.google.dev/api/caching#Content
"""

from typing import Annotated, Any, Literal, Required, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.validation import Name


class Blob(TypedDict, total=False):
    mimeType: Required[Name]
    data: Required[str]
    displayName: str


class FileData(TypedDict, total=False):
    mimeType: str
    fileUri: Required[Name]
    displayName: str


class FunctionCall(TypedDict, total=False):
    id: Name
    name: Required[Name]
    args: Json


class FunctionResponsePart(TypedDict, total=False):
    inlineData: Blob
    fileData: FileData


class FunctionResponse(TypedDict, total=False):
    id: Name
    name: Required[Name]
    response: Required[Json]
    parts: list[FunctionResponsePart]
    willContinue: bool
    scheduling: str


class ExecutableCode(TypedDict, total=False):
    id: str
    language: str
    code: Required[str]


class CodeExecutionResult(TypedDict, total=False):
    id: str
    outcome: str
    output: str


class Part(TypedDict, total=False):
    """One part. Its only key that names a kind says which kind it is."""

    text: str
    thought: bool
    thoughtSignature: str
    inlineData: Blob
    fileData: FileData
    functionCall: FunctionCall
    functionResponse: FunctionResponse
    executableCode: ExecutableCode
    codeExecutionResult: CodeExecutionResult
    mediaResolution: Any
    videoMetadata: Json


class TurnContent(TypedDict, total=False):
    role: Literal["user", "model", "function"]
    parts: Required[Annotated[list[Part], Field(fail_fast=True)]]


class Instruction(TypedDict, total=False):
    """A content whose role has no meaning: its text is a system instruction."""

    role: str
    parts: Required[list[Part]]


PartKind: TypeAlias = Literal[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
]
"""The keys that name the kind of a part, which has exactly one of them."""
